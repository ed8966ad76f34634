package rescue

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"

	"github.com/spf13/cobra"
)

// ExitPartial is the exit code if the copy is finished and a part of the source could not be read.
const ExitPartial = 3

// PartialError is returned if the copy is finished and a part of the source could not be read.
type PartialError struct {
	Lost   int64
	Ranges int
}

// Error has what is lost.
func (e *PartialError) Error() string {
	return fmt.Sprintf("%s in %d ranges could not be read", bytesText(e.Lost), e.Ranges)
}

// settings are the options of the command.
type settings struct {
	Options
	block, smallest      int64
	retries, maxFiles    int
	readLimit, filesTime time.Duration
	saveInterval         time.Duration
}

// Command returns the command `rescue`. It requires a privileged container, like the node agent.
func Command() *cobra.Command {
	var s settings
	command := &cobra.Command{
		Use:   "rescue --from DEVICE --to PATH",
		Short: "Copy a volume that can be read only in part to a file or another device, and list what was lost",
		Long: "Copy a volume that can be read only in part to a file or another device, and list what was lost.\n\n" +
			"The exit code is 0 if everything was saved, 3 if the copy is finished and a part could not be read, and " +
			"1 after any other error. After an interruption, the same command continues.",
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			ctx, stop := signal.NotifyContext(c.Context(), os.Interrupt, syscall.SIGTERM)
			defer stop()
			return s.run(ctx, places{"/sys"}, c.OutOrStdout(), c.ErrOrStderr())
		},
	}
	flags := command.Flags()
	flags.StringVar(&s.From, "from", "", "block device to read; it is never written to")
	flags.StringVar(&s.To, "to", "", "file or block device for the copy; an existing file is refused, unless it is an "+
		"unfinished copy")
	flags.StringVar(&s.Map, "map", "", "file that records what is saved and lost, with which the same command "+
		"continues; defaults to the target with .map, and is required if the target is a device")
	flags.BoolVar(&s.OverwriteDevice, "overwrite-device", false, "allow to destroy the content of a block device --to")
	flags.IntVar(&s.retries, "retries", 1, "how often to read lost ranges again, 0 to 100")
	flags.BoolVar(&s.RetryLost, "retry-lost", false, "read the lost ranges of an earlier run again from the beginning")
	flags.Int64Var(&s.block, "block", 1<<20, "size of the first reads, in bytes: a power of two, at most 64 MiB")
	flags.Int64Var(&s.smallest, "smallest-read", 0, "size of the smallest reads, in bytes: a power of two; 0 is the "+
		"logical block size of the device")
	flags.DurationVar(&s.readLimit, "read-timeout", time.Minute, "time limit of a read, after which it is abandoned")
	flags.DurationVar(&s.saveInterval, "save-interval", 20*time.Second, "time between two writes of the map: the work "+
		"that is repeated after a kill")
	flags.IntVar(&s.maxFiles, "max-files", 1000, "maximum number of affected files to print; 0 does not look for files")
	flags.DurationVar(&s.filesTime, "files-timeout", time.Hour, "time limit to find the affected files")
	return command
}

func (s *settings) check() error {
	if err := s.checkFlags(); err != nil {
		return err
	}
	return s.resolvePaths()
}

func (s *settings) checkFlags() error {
	power := func(n, least, most int64) bool { return n >= least && n <= most && n&(n-1) == 0 }
	switch {
	case s.From == "" || s.To == "":
		return errors.New("--from and --to are required")
	case !power(s.block, 4096, 64<<20):
		return fmt.Errorf("--block %d: must be a power of two from 4096 to 67108864", s.block)
	case s.smallest != 0 && !power(s.smallest, 1, s.block):
		return fmt.Errorf("--smallest-read %d: must be a power of two, at most --block", s.smallest)
	case s.retries < 0 || s.retries > 100:
		return fmt.Errorf("--retries %d: must be from 0 to 100", s.retries)
	case s.readLimit <= 0 || s.filesTime <= 0 || s.saveInterval <= 0:
		return errors.New("--read-timeout, --files-timeout and --save-interval must be greater than 0")
	case s.maxFiles < 0:
		return errors.New("--max-files must not be negative")
	}
	return nil
}

// resolvePaths makes the paths absolute, and names the map file after the target if no other was requested.
func (s *settings) resolvePaths() error {
	for _, path := range []*string{&s.From, &s.To, &s.Map} {
		if *path == "" {
			continue
		}
		absolute, err := filepath.Abs(*path)
		if err != nil {
			return err
		}
		*path = absolute
	}
	if s.Map == "" {
		if info, err := os.Stat(s.To); err == nil && !info.Mode().IsRegular() {
			return fmt.Errorf("--map is required, because the target %s is not a file", s.To)
		}
		s.Map = s.To + ".map"
	}
	if s.Map == s.To {
		return errors.New("--map and --to must be different files")
	}
	return nil
}

// run copies the volume and prints the result.
func (s *settings) run(ctx context.Context, p places, stdout, stderr io.Writer) error {
	if err := s.check(); err != nil {
		return err
	}
	source, err := OpenSource(s.From, s.readLimit)
	if err != nil {
		return err
	}
	defer func() { _ = source.Close() }()
	smallest := max(s.smallest, source.sector)
	if smallest > s.block {
		return fmt.Errorf("--block %d is smaller than the blocks of the source, %d bytes", s.block, source.sector)
	}
	o, err := open(s.Options, p, source, smallest)
	if err != nil {
		return err
	}
	defer func() { _ = o.target.Close() }()
	if source.inUse {
		fmt.Fprintf(stderr, "warning: %s is in use. If it is mounted and written to, the copy is not consistent: stop "+
			"the Pods that use it\n", s.From)
	}
	if err := s.copy(ctx, source, o, stdout, stderr); err != nil {
		return err
	}
	return s.report(ctx, o, stdout, stderr)
}

// copy reads what is left to read.
func (s *settings) copy(ctx context.Context, source *Source, o *opened, stdout, stderr io.Writer) error {
	m := o.record.Map
	plan := NewPlanner(source.size, s.block, o.record.Smallest, s.retries)
	if _, more := plan.Next(m); !more {
		fmt.Fprintf(stdout, "The copy is complete. Nothing is left to read.\n")
		return nil
	}
	show := newProgress(stderr, m)
	stop := show.start(progressInterval)
	c := &copier{source: source, target: o.target, record: o.record, path: s.Map, show: show, delay: retryDelay,
		interval: s.saveInterval,
		plan:     NewPlanner(source.size, s.block, o.record.Smallest, s.retries)}
	err := c.run(ctx)
	stop()
	show.update(m)
	fmt.Fprintln(stderr, show.line(time.Since(show.begun)))
	if ctx.Err() != nil {
		return fmt.Errorf("stopped before the end: run the same command again, it continues: %w", err)
	}
	return err
}
