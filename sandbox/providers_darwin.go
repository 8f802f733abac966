package sandbox

import (
	"fmt"
	"os"
	"slices"

	"github.com/shellstead/shellstead/backend"
)

func systemProviders() []provider { return []provider{seatbelt{}} }

// seatbelt confines by the system's own sandbox-exec, which becomes the program
// by exec.
type seatbelt struct{}

const sandboxExec = "/usr/bin/sandbox-exec"

func (seatbelt) name() string { return "sandbox-exec" }

func (seatbelt) wrap(p plan, spec backend.Spec) (backend.Spec, error) {
	if _, err := os.Stat(sandboxExec); err != nil {
		return spec, fmt.Errorf("%s: %w", sandboxExec, reason(err))
	}
	profile := seatbeltProfile(p)
	program, args := spec.Path, spec.Args
	spec.Path = sandboxExec
	spec.Args = func(ref backend.ChannelRef) []string {
		return slices.Concat([]string{"-p", profile, program}, arguments(args, ref))
	}
	return spec, nil
}

func (seatbelt) remedy(error) string {
	return "a program that is confined itself cannot confine others: run it outside of its own sandbox"
}

func (seatbelt) describe(opts Options) Description {
	d := Description{Provider: "sandbox-exec",
		Confines: []string{
			"files: read-only but for the folders that the mode opens; attributes too",
			"protected files in the workspace stay read-only; denied folders cannot be read",
			"processes outside cannot be signalled or debugged; services that start programs cannot be reached",
		},
		Gaps: []string{
			"other terminals of the same user can be read and written",
			"the profile language is undocumented and may change with the system",
		},
	}
	if opts.Network {
		d.Gaps = append(d.Gaps, "the network is open, and with it sockets of programs outside")
	} else {
		d.Confines = append(d.Confines, "no network, not even a loopback")
	}
	return d
}
