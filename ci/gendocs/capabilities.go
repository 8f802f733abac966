package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"runtime"
	"slices"
	"strings"

	"github.com/shellstead/shellstead/backend"
	"github.com/shellstead/shellstead/backend/conpty"
	"github.com/shellstead/shellstead/backend/posix"
	"github.com/shellstead/shellstead/ci/internal/document"
)

// capabilitiesFile holds what the driver of each system says of itself. Each run
// of gendocs brings the entry of its own system up to date, and each test of it
// checks that.
const capabilitiesFile = "ci/gendocs/capabilities.json"

// capability is a row of the table.
type capability struct {
	name string
	cell func(backend.Capabilities) string
}

var capabilityRows = []capability{
	{"driver", func(c backend.Capabilities) string { return "`" + c.Driver + "`" }},
	{"process groups", func(c backend.Capabilities) string { return yes(c.ForegroundGroup, "") }},
	{"terminal modes", func(c backend.Capabilities) string { return yes(c.Modes, "") }},
	{"output as it was written", func(c backend.Capabilities) string {
		return yes(!c.Rewrites, "by a pipe, for commands; a terminal shows a console's picture of it")
	}},
	{"longest line that a terminal takes at once", func(c backend.Capabilities) string {
		if c.MaxLine == 0 {
			return "any"
		}
		return fmt.Sprint(c.MaxLine, " bytes")
	}},
	{"proof that a program waits for input", func(c backend.Capabilities) string { return yes(c.ExactRead, c.ExactReadWhy) }},
	{"the whole process tree is found again", func(c backend.Capabilities) string { return yes(c.WholeTree, c.WholeTreeWhy) }},
	{"nothing survives a killed host", func(c backend.Capabilities) string { return yes(c.HostDeath, "") }},
	{"signals", func(c backend.Capabilities) string { return strings.Join(c.Signals, " ") }},
}

// yes is a cell: what holds, or why not.
func yes(holds bool, why string) string {
	switch {
	case holds:
		return "yes"
	case why == "":
		return "no"
	}
	return "no: " + why
}

// capabilityTable lists the systems side by side.
func capabilityTable(all []backend.Capabilities) string {
	var out strings.Builder
	out.WriteString("| |")
	for _, c := range all {
		out.WriteString(" " + c.System + " |")
	}
	out.WriteString("\n|---|" + strings.Repeat("---|", len(all)) + "\n")
	for _, row := range capabilityRows {
		out.WriteString("| " + row.name + " |")
		for _, c := range all {
			out.WriteString(" " + escapeCell(row.cell(c)) + " |")
		}
		out.WriteString("\n")
	}
	return out.String()
}

// capabilitiesOf brings the running system's entry of the file up to date.
func capabilitiesOf(old []byte) ([]byte, []backend.Capabilities, error) {
	var all []backend.Capabilities
	if err := json.Unmarshal(old, &all); err != nil {
		return nil, nil, fmt.Errorf("%s: %w", capabilitiesFile, err)
	}
	if i := slices.IndexFunc(all, func(c backend.Capabilities) bool { return c.System == runtime.GOOS }); i >= 0 {
		now, err := here()
		if err != nil {
			return nil, nil, err
		}
		// A machine may forbid what its system can do.
		if all[i].ExactRead {
			now.ExactRead, now.ExactReadWhy = true, ""
		}
		if all[i].WholeTree {
			now.WholeTree, now.WholeTreeWhy = true, ""
		}
		all[i] = now
	}
	var out bytes.Buffer
	encoder := json.NewEncoder(&out)
	encoder.SetEscapeHTML(false)
	encoder.SetIndent("", "  ")
	if err := encoder.Encode(all); err != nil {
		return nil, nil, err
	}
	return out.Bytes(), all, nil
}

// here is what this system's driver says of itself when it has all it can use.
func here() (backend.Capabilities, error) {
	var driver backend.Driver
	var err error
	if runtime.GOOS == "windows" {
		driver, err = conpty.New(conpty.Options{Helper: []string{"shellstead"}})
	} else {
		driver, err = posix.New(posix.Options{})
	}
	if err != nil {
		return backend.Capabilities{}, err
	}
	c := driver.Capabilities()
	c.System = runtime.GOOS
	return c, nil
}

// platformsDocument puts the table into its document.
func platformsDocument(old []byte, all []backend.Capabilities) ([]byte, error) {
	return document.Replace(old, "capabilities", capabilityTable(all))
}
