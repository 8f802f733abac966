package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"runtime"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/shellstead/shellstead/tool"
	"github.com/shellstead/shellstead/toolbash"
	"github.com/shellstead/shellstead/toolpwsh"
)

func newTools(a *app) *cobra.Command {
	var asJSON bool
	var list string
	cmd := &cobra.Command{
		Use:   "tools",
		Short: "List the tools with their descriptions and JSON schemas",
		Args:  noArguments,
		RunE: func(*cobra.Command, []string) error {
			cfg, err := a.load()
			if err != nil {
				return err
			}
			log, err := a.logger()
			if err != nil {
				return err
			}
			h, err := newHost(cfg, log, false)
			if err != nil {
				return err
			}
			m, err := h.mount(list, nil)
			if err != nil {
				return err
			}
			specs := make([]tool.Spec, len(m.tools))
			for i, t := range m.tools {
				specs[i] = t.Spec()
			}
			if asJSON {
				return writeJSON(a.out, specs, "  ")
			}
			return describe(a.out, specs)
		},
	}
	a.configFlags(cmd)
	toolsFlag(cmd, &list, allTools)
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return cmd
}

// Names of a `--tools` list that stand for several tools.
const (
	terminalTools = "terminal" // the six for interactive terminals
	taskTools     = "task"     // the three for background sends
	allTools      = "all"      // every tool, command tools whose shell is here
)

// toolNames are the tools that `--tools` knows, in the order in which they are
// offered: first those that run commands, then the groups.
var (
	commandTools = []string{toolbash.Name, toolpwsh.Name}
	groups       = []string{terminalTools, taskTools}
	toolNames    = slices.Concat(commandTools, groups)
)

// platformTool is the command tool of the operating system's own shell.
func platformTool() string {
	if runtime.GOOS == "windows" {
		return toolpwsh.Name
	}
	return toolbash.Name
}

func toolsFlag(cmd *cobra.Command, list *string, byDefault string) {
	cmd.Flags().StringVar(list, "tools", byDefault,
		"comma separated `LIST` of "+strings.Join(toolNames, ", ")+", or all of them whose shell is found")
}

// parseTools reads a `--tools` list: names without repetition, in the order of
// toolNames, so that the same set always makes the same list. Background sends
// come with the terminals, unless the configuration switches them off.
func (h *host) parseTools(list string) ([]string, error) {
	wanted := map[string]bool{}
	background := h.cfg.Tools.Terminal.EnableRunInBackground
	for name := range strings.SplitSeq(list, ",") {
		name = strings.TrimSpace(name)
		switch {
		case list == allTools:
			any := false
			for _, name := range commandTools {
				wanted[name] = h.cfg.Backend(h.cfg.Tools.Command(name).BackendType) != nil
				any = any || wanted[name]
			}
			if !any {
				wanted[platformTool()] = true // and its absence is an error
			}
			wanted[terminalTools] = true
		case name == taskTools && !background:
			return nil, usageError("--tools: %s has nothing to do while tools.terminal.enableRunInBackground is false; remove one of the two", name)
		case slices.Contains(toolNames, name):
			wanted[name] = true
		default:
			return nil, usageError("--tools: got %q, want a list of %s, or all", name, strings.Join(toolNames, ", "))
		}
	}
	if wanted[taskTools] && !wanted[terminalTools] {
		return nil, usageError("--tools: %s looks after what %s starts in the background; name both", taskTools, terminalTools)
	}
	wanted[taskTools] = wanted[terminalTools] && background
	return slices.DeleteFunc(slices.Clone(toolNames), func(name string) bool { return !wanted[name] }), nil
}

func describe(w io.Writer, specs []tool.Spec) error {
	var b bytes.Buffer
	for i, spec := range specs {
		if i > 0 {
			b.WriteByte('\n')
		}
		fmt.Fprintf(&b, "%s\n  %s\n", spec.Name, spec.Description)
		for _, schema := range []struct {
			name string
			text json.RawMessage
		}{{"input", spec.InputSchema}, {"output", spec.OutputSchema}} {
			if len(schema.text) == 0 {
				continue
			}
			fmt.Fprintf(&b, "  %s schema:\n    ", schema.name)
			if err := json.Indent(&b, schema.text, "    ", "  "); err != nil {
				return err
			}
			b.WriteByte('\n')
		}
	}
	_, err := w.Write(b.Bytes())
	return err
}

// writeJSON writes v as one line, or indented. Text stays as it is: nothing
// here is put into HTML.
func writeJSON(w io.Writer, v any, indent string) error {
	var b bytes.Buffer
	encoder := json.NewEncoder(&b)
	encoder.SetEscapeHTML(false)
	encoder.SetIndent("", indent)
	if err := encoder.Encode(v); err != nil {
		return err
	}
	// One write: a reader sees whole lines.
	_, err := w.Write(b.Bytes())
	return err
}
