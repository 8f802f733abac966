package main

import (
	"fmt"
	"strings"

	"github.com/shellstead/shellstead/config"
)

// configTable lists every configuration key as the program knows it.
func configTable() string {
	var out strings.Builder
	out.WriteString("| key | value | default | environment | meaning |\n|---|---|---|---|---|\n")
	for _, key := range config.Keys() {
		fmt.Fprintf(&out, "| `%s` | %s | %s | `%s` | %s |\n",
			key.Path, escapeCell(key.Want), defaultCell(key.Default), key.Env, escapeCell(key.Doc))
	}
	return out.String()
}

// defaultCell shows a default; a key without one says in its meaning how it is
// decided.
func defaultCell(def any) string {
	switch def := def.(type) {
	case nil:
		return "–"
	case string:
		if def == "" {
			return "empty"
		}
		return "`" + escapeCell(def) + "`"
	case []string:
		if len(def) == 0 {
			return "empty"
		}
		return "`" + escapeCell(strings.Join(def, ", ")) + "`"
	default:
		return fmt.Sprintf("`%v`", def)
	}
}
