package main

import (
	"github.com/spf13/cobra"
)

func newConfig(a *app) *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "config",
		Short: "Print the effective configuration",
		Long: "Print the effective configuration as YAML that loads again to the same.\n" +
			"The values of backends' env are part of it, secret ones too.",
		Args: noArguments,
		RunE: func(*cobra.Command, []string) error {
			cfg, err := a.load()
			if err != nil {
				return err
			}
			if asJSON {
				return writeJSON(a.out, cfg, "  ")
			}
			printed, err := cfg.YAML()
			if err != nil {
				return err
			}
			_, err = a.out.Write(printed)
			return err
		},
	}
	a.configFlags(cmd)
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return cmd
}
