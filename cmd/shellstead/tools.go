package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"maps"
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
			commands, err := h.commands(list)
			if err != nil {
				return err
			}
			specs := make([]tool.Spec, len(commands))
			for i, c := range commands {
				specs[i] = c.tool().Spec()
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

// toolNames are the tools that `--tools` knows, in the order in which they are
// offered.
var toolNames = []string{toolbash.Name, toolpwsh.Name}

// laterTools are named by the documentation and come with a later version.
var laterTools = []string{"terminal", "task"}

// allTools stands for every tool whose shell is here.
const allTools = "all"

// platformTool is the command tool of the operating system's own shell.
func platformTool() string {
	if runtime.GOOS == "windows" {
		return toolpwsh.Name
	}
	return toolbash.Name
}

func toolsFlag(cmd *cobra.Command, list *string, byDefault string) {
	cmd.Flags().StringVar(list, "tools", byDefault, "comma separated `LIST` of tools, or all whose shell is found")
}

// parseTools reads a `--tools` list: names without repetition, in the order of
// toolNames, so that the same set always makes the same list.
func (h *host) parseTools(list string) ([]string, error) {
	wanted := map[string]bool{}
	for name := range strings.SplitSeq(list, ",") {
		name = strings.TrimSpace(name)
		switch {
		case list == allTools:
			for _, name := range toolNames {
				wanted[name] = h.cfg.Backend(h.cfg.Tools.Command(name).BackendType) != nil
			}
			if !slices.Contains(slices.Collect(maps.Values(wanted)), true) {
				wanted[platformTool()] = true // and its absence is an error
			}
		case slices.Contains(toolNames, name):
			wanted[name] = true
		case slices.Contains(laterTools, name):
			return nil, usageError("--tools: %s is not available in this version; use %s", name, strings.Join(toolNames, ", "))
		default:
			return nil, usageError("--tools: got %q, want a list of %s, or all", name, strings.Join(toolNames, ", "))
		}
	}
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
