// Command gather is /usr/bin/gather of the must-gather image. Without a subcommand it collects what support needs to
// know about the cluster, and reports problems.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/lvm-storage/lvm-operator/internal/version"
	"github.com/lvm-storage/lvm-operator/must-gather/analyze"
	"github.com/lvm-storage/lvm-operator/must-gather/monitoring"
	"github.com/lvm-storage/lvm-operator/vgmanager/outside/collect"
)

// exitUnhealthy is the exit code of `analyze` and `check` if the verdict is not healthy.
const exitUnhealthy = 2

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	err := command().ExecuteContext(ctx)
	var verdict notHealthy
	if errors.As(err, &verdict) {
		os.Exit(exitUnhealthy)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "gather:", err)
		os.Exit(1)
	}
}

// notHealthy is the verdict as an error. The summary has already been printed.
type notHealthy analyze.Verdict

func (n notHealthy) Error() string { return string(n) }

// Environment variables of the program.
const (
	// sinceVariable is an environment variable of `gather`: maximum age of logs, for example `2h`.
	sinceVariable = "MUST_GATHER_SINCE"
	// sinceTimeVariable is an environment variable of `gather`: start time of logs, in RFC 3339.
	sinceTimeVariable = "MUST_GATHER_SINCE_TIME"
	// podVariable is an environment variable of `gather`: the name of its Pod (`metadata.name`).
	podVariable = "POD_NAME"
)

func command() *cobra.Command {
	o := options{since: os.Getenv(sinceVariable), sinceTime: os.Getenv(sinceTimeVariable),
		pod: os.Getenv(podVariable)}
	root := &cobra.Command{
		Use:   "gather",
		Short: "Collect support data of LVM Storage, and report problems",
		Long: "Collect support data of LVM Storage, and report problems in summary.md. " +
			"MUST_GATHER_SINCE (for example 2h) and MUST_GATHER_SINCE_TIME (RFC 3339) limit the age of logs.",
		Version:       version.Full(),
		Args:          cobra.NoArgs,
		SilenceUsage:  true,
		SilenceErrors: true,
		RunE:          func(c *cobra.Command, _ []string) error { return runGather(c.Context(), c.OutOrStdout(), o) },
	}
	flags := root.Flags()
	flags.StringVar(&o.folder, "dest-dir", "/must-gather", "directory for the archive")
	flags.DurationVar(&o.limit, "time-limit", 7*time.Minute+30*time.Second,
		"time limit; data that is not collected by then is omitted and reported")
	flags.Int64Var(&o.bytes, "max-bytes", 500<<20,
		"maximum size of the archive; the oldest part of logs is cut first")
	flags.BoolVar(&o.allNodes, "all-nodes", false,
		"also read nodes without LVM Storage, with a privileged Pod on each")
	flags.StringVar(&o.prometheus, "prometheus", monitoring.DefaultService, prometheusHelp)
	root.AddCommand(analyzeCommand(), checkCommand(), collect.Command())
	return root
}

func analyzeCommand() *cobra.Command {
	var asJSON bool
	c := &cobra.Command{
		Use:   "analyze DIR",
		Short: "Report problems in an archive; the exit code is 2 if it is not healthy",
		Args:  cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			return show(c, args[0], asJSON)
		},
	}
	c.Flags().BoolVar(&asJSON, "json", false, "print summary.json instead of summary.md")
	return c
}

// prometheusHelp is the help of a flag of two commands.
const prometheusHelp = "Prometheus to query through the API server if the cluster is not OpenShift: " +
	"NAMESPACE/SCHEME:SERVICE:PORT"

func checkCommand() *cobra.Command {
	var asJSON bool
	var prometheus string
	c := &cobra.Command{
		Use: "check",
		Short: "Report problems in the cluster without an archive, from objects and alerts, but not from logs and " +
			"nodes; the exit code is 2 if it is not healthy",
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			folder, err := os.MkdirTemp("", "gather-check-")
			if err != nil {
				return err
			}
			defer func() { _ = os.RemoveAll(folder) }()
			o := options{folder: folder, limit: 3 * time.Minute, bytes: 500 << 20, objectsOnly: true,
				prometheus: prometheus}
			if err := runGather(c.Context(), c.ErrOrStderr(), o); err != nil {
				return err
			}
			return show(c, folder, asJSON)
		},
	}
	c.Flags().BoolVar(&asJSON, "json", false, "print summary.json instead of summary.md")
	c.Flags().StringVar(&prometheus, "prometheus", monitoring.DefaultService, prometheusHelp)
	return c
}

func show(c *cobra.Command, folder string, asJSON bool) error {
	text, verdict, err := analyze.Report(folder, time.Now(), asJSON)
	if err != nil {
		return err
	}
	if _, err := c.OutOrStdout().Write(text); err != nil {
		return err
	}
	if verdict != analyze.Healthy {
		return notHealthy(verdict)
	}
	return nil
}

// restConfig returns the configuration of the Pod, or that of kubectl.
func restConfig() (*rest.Config, error) {
	config, err := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(
		clientcmd.NewDefaultClientConfigLoadingRules(), &clientcmd.ConfigOverrides{}).ClientConfig()
	if err != nil {
		return nil, fmt.Errorf("load kubeconfig: %w", err)
	}
	config.UserAgent = "lvms-must-gather/" + version.Version
	return config, nil
}
