package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// What follows reads Linux's /proc of this very process.

// statusField returns a number of a status file, for instance VmRSS in KiB.
func statusField(file, field string) (int64, error) {
	data, err := os.ReadFile(file)
	if err != nil {
		return 0, err
	}
	for line := range bytes.Lines(data) {
		name, value, ok := strings.Cut(string(line), ":")
		if ok && name == field {
			number, _, _ := strings.Cut(strings.TrimSpace(value), " ")
			return strconv.ParseInt(number, 10, 64)
		}
	}
	return 0, fmt.Errorf("%s has no field %s", file, field)
}

// forgetPeak makes VmHWM start again from the present size.
func forgetPeak() error { return os.WriteFile("/proc/self/clear_refs", []byte("5"), 0) }

// contextSwitches adds up the switches of all threads of this process.
func contextSwitches() (int64, error) {
	files, err := filepath.Glob("/proc/self/task/*/status")
	if err != nil {
		return 0, err
	}
	var total int64
	for _, file := range files {
		for _, field := range []string{"voluntary_ctxt_switches", "nonvoluntary_ctxt_switches"} {
			n, err := statusField(file, field)
			if os.IsNotExist(err) {
				break // a thread that has ended
			}
			if err != nil {
				return 0, err
			}
			total += n
		}
	}
	return total, nil
}
