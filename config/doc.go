// Package config loads the program's configuration: one YAML file, environment
// variables, path=value settings and flags, each stronger than the one before.
//
// Nothing is guessed. Every value is checked where it comes from, before it is
// merged: a key that does not exist is refused with the nearest one that does,
// a value of another type is never converted, a number out of range names the
// range. A configuration that loads is complete, and [Config.YAML] prints it in
// a form that loads again to the same.
//
// The package knows the names of keys and their ranges. It opens no terminal
// and imports no other package of the module; package main of the program
// builds backends and tools from what is loaded here.
package config
