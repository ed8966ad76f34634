package collect

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/lvm-storage/lvm-operator/vgmanager/host"
)

// Command returns the command `collect` for the programs of the operator and of must-gather. It requires a privileged
// container in the node's PID namespace, like the node agent.
func Command() *cobra.Command {
	var from string
	var limit, hold time.Duration
	var maxBytes int
	command := &cobra.Command{
		Use:   "collect",
		Short: "Write what support needs to know of this node to stdout, as a tar; changes nothing",
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
			ctx, cancel := context.WithTimeout(ctx, limit)
			defer cancel()
			return Write(ctx, c.OutOrStdout(), Options{Runner: host.NewNamespace(), Own: host.NewLocal(), Since: since,
				MaxBytes: maxBytes})
		},
	}
	flags := command.Flags()
	flags.StringVar(&from, "since", "", "from when on logs are wanted, in RFC 3339; 24 hours ago if it is not given")
	flags.DurationVar(&limit, "time-limit", 75*time.Second, "what has not been read by then is left out, and said so")
	flags.IntVar(&maxBytes, "max-file-bytes", 4<<20, "the most that one file may have; of logs the newest part")
	flags.DurationVar(&hold, "hold", 0,
		"read nothing, and end after so long: the first process of a Pod in which the read is then run")
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
