//go:build unix

package sandbox

import "github.com/shellstead/shellstead/backend"

// arguments are those of the program that a provider wraps.
func arguments(args func(backend.ChannelRef) []string, ref backend.ChannelRef) []string {
	if args == nil {
		return nil
	}
	return args(ref)
}
