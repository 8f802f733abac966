package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/shellstead/shellstead/tool"
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
			tools, err := h.tools(list)
			if err != nil {
				return err
			}
			specs := make([]tool.Spec, len(tools))
			for i, t := range tools {
				specs[i] = t.Spec()
			}
			if asJSON {
				return writeJSON(a.out, specs, "  ")
			}
			return describe(a.out, specs)
		},
	}
	a.configFlags(cmd)
	toolsFlag(cmd, &list)
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return cmd
}

func toolsFlag(cmd *cobra.Command, list *string) {
	cmd.Flags().StringVar(list, "tools", strings.Join(toolNames, ","), "comma separated `LIST` of tools, or all")
}

// parseTools reads a `--tools` list: names without repetition, in the order of
// toolNames, so that the same set always makes the same list.
func parseTools(list string) ([]string, error) {
	if list == "all" {
		return toolNames, nil
	}
	wanted := map[string]bool{}
	for name := range strings.SplitSeq(list, ",") {
		name = strings.TrimSpace(name)
		switch {
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
