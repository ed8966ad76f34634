package collect

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/lvm-storage/lvm-operator/internal/cluster/hostpaths"
	"github.com/lvm-storage/lvm-operator/vgmanager/machine/host"
	"github.com/lvm-storage/lvm-operator/vgmanager/machine/host/lvmsource"
)

// Command returns the command `collect` for the programs of the operator and of must-gather. It requires a privileged
// container in the node's PID namespace, like the node agent.
func Command() *cobra.Command {
	var from string
	var limit, hold time.Duration
	var maxBytes int
	command := &cobra.Command{
		Use:   "collect",
		Short: "Write support data of this node to stdout as a tar archive, without changing anything",
		Args:  cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			since, err := parseSince(from)
			if err != nil {
				return err
			}
			ctx, stop := signal.NotifyContext(c.Context(), os.Interrupt, syscall.SIGTERM)
			defer stop()
			if hold > 0 {
				return sleep(ctx, hold)
			}
			layout, err := hostpaths.FromEnvironment(os.Getenv)
			if err != nil {
				return err
			}
			ctx, cancel := context.WithTimeout(ctx, limit)
			defer cancel()
			runner := lvmsource.NewReadOnly(host.NewNamespace(layout.HostPath()), host.NewImage())
			return Write(ctx, c.OutOrStdout(), Options{Runner: runner, Own: host.NewLocal(), Layout: layout,
				Since: since, MaxBytes: maxBytes})
		},
	}
	flags := command.Flags()
	flags.StringVar(&from, "since", "", "start time for logs, in RFC 3339; defaults to 24 hours ago")
	flags.DurationVar(&limit, "time-limit", 75*time.Second, "time limit; data that is not read by then is omitted "+
		"and reported")
	flags.IntVar(&maxBytes, "max-file-bytes", 4<<20, "maximum size of a file; for logs, the newest part is kept")
	flags.DurationVar(&hold, "hold", 0,
		"do not read anything, and exit after this time: for the first process of a Pod in which the command is "+
			"then run")
	return command
}

func sleep(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
	return nil
}

func parseSince(text string) (time.Time, error) {
	if text == "" {
		return time.Now().Add(-24 * time.Hour), nil
	}
	since, err := time.Parse(time.RFC3339, text)
	if err != nil {
		return since, fmt.Errorf("--since: %w", err)
	}
	return since, nil
}
