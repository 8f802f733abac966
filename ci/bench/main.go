// Command bench measures, in one run, the floor (a minimal loop on a
// pseudo-terminal, see floor.go, floor_pwsh.go, floor_terminal.go) and this module, and holds the ratios against
// the bounds that the project promises. It exits 1 when a bound fails.
//
//	go run ./ci/bench            the full run, five minutes and more
//	go run ./ci/bench --json     the same as JSON
//	go run ./ci/bench --smoke    a short run with doubled bounds, for CI
//	go run ./ci/bench --only flood,start
//	go run ./ci/bench --doc docs/performance.md   puts the table there
//
// Floor and ours run in alternating blocks, so that noise of the machine hits
// both.
package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"strings"

	"github.com/shellstead/shellstead/ci/internal/document"
)

// smokeSlack widens every bound of a smoke run: it has few samples and runs on
// shared machines.
const smokeSlack = 2

// bench is what every measurement needs.
type bench struct {
	smoke bool
	dir   string // private folder, removed at the end
}

// pick returns full, or short in a smoke run.
func (b *bench) pick(full, short int) int {
	if b.smoke {
		return short
	}
	return full
}

// measurement fills one or more rows of the report about one shell.
type measurement struct {
	name  string
	shell *shell
	run   func(*bench, *shell) ([]row, error)
}

var measurements = []measurement{
	{"true", bashShell, measureNothing},
	{"start", bashShell, measureStart},
	{"flood", bashShell, measureFlood},
	{"memory", bashShell, measureMemory},
	{"script", bashShell, measureScript},
	{"crowd", bashShell, measureCrowd},
	{"close", bashShell, measureClose},
	{"log", bashShell, measureLog},
	{"sandbox", bashShell, measureSandbox},
	{"idle", bashShell, measureIdle},
	{"pwsh-null", pwshShell, measureNothing},
	{"pwsh-start", pwshShell, measureStart},
	{"pwsh-warm", pwshShell, measureWarm},
	{"pwsh-flood", pwshShell, measureNativeFlood},
	{"pwsh-string", pwshShell, measureString},
	{"pwsh-script", pwshShell, measureHereString},
	{"pwsh-interrupt", pwshShell, measureInterrupt},
	{"pwsh-close", pwshShell, measurePwshClose},
	{"pwsh-idle", pwshShell, measureIdle},
	{"repl", terminalShell, measureRepl},
	{"signal", terminalShell, measureSignal},
	{"secret", terminalShell, measureSecret},
	{"open", terminalShell, measureOpen},
	{"many", terminalShell, measureMany},
	{"silent", terminalShell, measureSilent},
}

func main() {
	// The program starts itself for what has to be measured in a process of
	// its own.
	if len(os.Args) > 1 {
		if child, ok := children[os.Args[1]]; ok {
			if err := child(os.Args[2:]); err != nil {
				fmt.Fprintln(os.Stderr, "bench:", err)
				os.Exit(1)
			}
			return
		}
	}
	asJSON := flag.Bool("json", false, "print JSON instead of a table")
	smoke := flag.Bool("smoke", false, "a short run with doubled bounds")
	only := flag.String("only", "", "comma-separated measurements: "+names())
	doc := flag.String("doc", "", "put the table into this document instead of printing it")
	flag.Parse()
	report, err := run(*smoke, *only)
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
	if err := show(report, *asJSON, *doc); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
	if failed := report.failed(); len(failed) > 0 {
		fmt.Fprintln(os.Stderr, "bench: out of bounds: "+strings.Join(failed, "; "))
		os.Exit(1)
	}
}

// show prints rep, or puts its table into the document doc.
func show(rep report, asJSON bool, doc string) error {
	if asJSON {
		enc := json.NewEncoder(os.Stdout)
		enc.SetIndent("", "  ")
		return enc.Encode(rep)
	}
	if doc == "" {
		return rep.writeTable(os.Stdout)
	}
	var table bytes.Buffer
	if err := rep.writeTable(&table); err != nil {
		return err
	}
	old, err := os.ReadFile(doc)
	if err != nil {
		return err
	}
	text, err := document.Replace(old, "bench", table.String())
	if err != nil {
		return err
	}
	return os.WriteFile(doc, text, 0o644)
}

func names() string {
	all := make([]string, len(measurements))
	for i, m := range measurements {
		all[i] = m.name
	}
	return strings.Join(all, ",")
}

func run(smoke bool, only string) (report, error) {
	// Nothing on the network is to be measured.
	for name, value := range map[string]string{"POWERSHELL_TELEMETRY_OPTOUT": "1", "POWERSHELL_UPDATECHECK": "Off"} {
		if err := os.Setenv(name, value); err != nil {
			return report{}, err
		}
	}
	selected := map[string]bool{}
	for name := range strings.SplitSeq(only, ",") {
		if name = strings.TrimSpace(name); name != "" {
			selected[name] = true
		}
	}
	dir, err := os.MkdirTemp("", "shellstead-bench-")
	if err != nil {
		return report{}, err
	}
	defer os.RemoveAll(dir)
	b := &bench{smoke: smoke, dir: dir}
	rep := newReport(smoke)
	known := 0
	for _, m := range measurements {
		if len(selected) > 0 && !selected[m.name] {
			continue
		}
		known++
		if !m.shell.found() {
			missing := row{Shell: m.shell.name, Work: m.name, Skipped: m.shell.name + " is not installed"}
			missing.judge(smoke)
			rep.Rows = append(rep.Rows, missing)
			continue
		}
		rows, err := m.run(b, m.shell)
		if err != nil {
			return rep, fmt.Errorf("%s: %w", m.name, err)
		}
		for i := range rows {
			rows[i].Shell = m.shell.name
			rows[i].judge(smoke)
		}
		rep.Rows = append(rep.Rows, rows...)
	}
	if known == 0 || known < len(selected) {
		return rep, errors.New("--only names an unknown measurement; known: " + names())
	}
	return rep, nil
}
