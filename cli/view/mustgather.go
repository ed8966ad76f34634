package view

import (
	"fmt"

	"github.com/spf13/cobra"
	"sigs.k8s.io/yaml"

	"github.com/lvm-storage/lvm-operator/cli/session"
	"github.com/lvm-storage/lvm-operator/must-gather/analyze"
)

func mustGatherCommand(e *session.Environment) *cobra.Command {
	command := &cobra.Command{
		Use:   "must-gather",
		Short: "Read the archives of must-gather",
		Args:  cobra.NoArgs,
		RunE:  func(command *cobra.Command, _ []string) error { return command.Help() },
	}
	command.AddCommand(analyzeCommand(e))
	return command
}

func analyzeCommand(e *session.Environment) *cobra.Command {
	format := ""
	command := &cobra.Command{
		Use:   "analyze DIR",
		Short: "Show the problems in an archive of must-gather",
		Long: `Show the problems in an archive of must-gather, and what to do about each. The archive can be from another
cluster: this command connects to no cluster. It has more than status shows: logs, alerts, and the state of each node.

DIR is the output of oc adm must-gather, or the directory in it with cluster-scoped-resources and namespaces.

The exit code is 0 if the cluster was healthy, 2 if it was not, and 1 if no problem was found, but the archive lacks
data, or if it cannot be read.`,
		Example: `  # Show the problems of the cluster of a customer
  kubectl lvms must-gather analyze must-gather.local.123456`,
		Args: cobra.ExactArgs(1),
		ValidArgsFunction: func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
			return nil, cobra.ShellCompDirectiveFilterDirs
		},
		RunE: func(command *cobra.Command, args []string) error { return analyzeArchive(e, command, args[0], format) },
	}
	command.Flags().StringVarP(&format, "output", "o", "", "output format: json or yaml; Markdown if it is not given")
	_ = command.RegisterFlagCompletionFunc("output",
		cobra.FixedCompletions([]string{"json", "yaml"}, cobra.ShellCompDirectiveNoFileComp))
	return command
}

func analyzeArchive(e *session.Environment, command *cobra.Command, folder, format string) error {
	switch format {
	case "", "json", "yaml":
	default:
		return fmt.Errorf("unknown output format %q: use json or yaml", format)
	}
	text, verdict, err := analyze.Report(folder, e.Now(), format != "")
	if err != nil {
		return fmt.Errorf("cannot read the archive: %w", err)
	}
	if format == "yaml" {
		if text, err = yaml.JSONToYAML(text); err != nil {
			return err
		}
	}
	if _, err := command.OutOrStdout().Write(text); err != nil {
		return err
	}
	switch verdict {
	case analyze.Healthy:
		return nil
	case analyze.Unhealthy:
		return session.ErrProblems
	}
	return session.ErrIncomplete
}
