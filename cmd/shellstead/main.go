// Command shellstead runs commands in a live shell, for people and for models.
//
// See `shellstead help`, or docs/ in the module.
package main

import (
	"os"
)

func main() {
	os.Exit(Main(os.Args[1:], streams{in: os.Stdin, out: os.Stdout, err: os.Stderr}))
}
