package main

import (
	"context"
	"fmt"
	"os"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"

	"github.com/lvm-storage/lvm-operator/test/lab"
)

func node(f *flags) *cobra.Command {
	cmd := &cobra.Command{Use: "node", Short: "Work with one node"}
	run := &cobra.Command{Use: "exec NODE -- COMMAND ARGS", Short: "Run a command on a node as root",
		Args: cobra.MinimumNArgs(2),
		RunE: f.onNode(func(ctx context.Context, n *lab.Node, args []string) error {
			return carry(n.Run(ctx, lab.Command{Args: args, Stdin: os.Stdin, Stdout: os.Stdout, Stderr: os.Stderr}))
		})}
	cmd.AddCommand(run, disk(f))
	for name, do := range map[string]func(*lab.Node, context.Context) error{
		"restart": (*lab.Node).Restart, "poweroff": (*lab.Node).PowerOff, "powercut": (*lab.Node).PowerCut,
		"start": (*lab.Node).Start, "reinstall": (*lab.Node).Reinstall,
	} {
		cmd.AddCommand(&cobra.Command{Use: name + " NODE", Short: name + " of a node", Args: cobra.ExactArgs(1),
			RunE: f.onNode(func(ctx context.Context, n *lab.Node, _ []string) error { return do(n, ctx) })})
	}
	return cmd
}

func (f *flags) onNode(do func(ctx context.Context, n *lab.Node, args []string) error) func(*cobra.Command,
	[]string) error {
	return func(cmd *cobra.Command, args []string) error {
		l, err := f.open()
		if err != nil {
			return err
		}
		n, err := l.Node(args[0])
		if err != nil {
			return err
		}
		return do(cmd.Context(), n, args[1:])
	}
}

func disk(f *flags) *cobra.Command {
	cmd := &cobra.Command{Use: "disk", Short: "Add and change a node's disks"}
	cmd.AddCommand(
		&cobra.Command{Use: "add NODE DISK [scsi:|shared:]SIZE", Args: cobra.ExactArgs(3),
			RunE: f.onNode(func(ctx context.Context, n *lab.Node, args []string) error {
				disks, err := lab.ParseDisks(args[1])
				if err != nil || len(disks) != 1 {
					return fmt.Errorf("specify exactly one disk: %w", err)
				}
				disks[0].Name = args[0]
				d, err := n.AddDisk(ctx, disks[0])
				if err == nil {
					fmt.Println(d.Device)
				}
				return err
			})},
		&cobra.Command{Use: "grow NODE DISK SIZE", Args: cobra.ExactArgs(3),
			RunE: f.onNode(func(ctx context.Context, n *lab.Node, args []string) error {
				size, err := lab.ParseSize(args[1])
				if err != nil {
					return err
				}
				_, err = n.GrowDisk(ctx, args[0], size)
				return err
			})},
		&cobra.Command{Use: "take NODE DISK FILE", Args: cobra.ExactArgs(3),
			RunE: f.onNode(func(ctx context.Context, n *lab.Node, args []string) error {
				d, err := n.TakeDisk(ctx, args[0], args[1])
				if err == nil {
					fmt.Println(d.Serial)
				}
				return err
			})},
		&cobra.Command{Use: "insert NODE DISK FILE [SERIAL]", Args: cobra.RangeArgs(3, 4),
			RunE: f.onNode(func(ctx context.Context, n *lab.Node, args []string) error {
				d := lab.Disk{Name: args[0]}
				if len(args) > 2 {
					d.Serial = args[2]
				}
				d, err := n.InsertDisk(ctx, d, args[1])
				if err == nil {
					fmt.Println(d.Device)
				}
				return err
			})})
	for name, do := range map[string]func(*lab.Node, context.Context, string) error{
		"remove": (*lab.Node).RemoveDisk, "fail": (*lab.Node).FailDisk, "heal": (*lab.Node).HealDisk,
		"pull": (*lab.Node).PullDisk, "put": func(n *lab.Node, ctx context.Context,
			name string) error {
			_, err := n.PutDisk(ctx, name)
			return err
		},
	} {
		cmd.AddCommand(&cobra.Command{Use: name + " NODE DISK", Args: cobra.ExactArgs(2),
			RunE: f.onNode(func(ctx context.Context, n *lab.Node, args []string) error { return do(n, ctx, args[0]) })})
	}
	return cmd
}

func shell(f *flags) *cobra.Command {
	return &cobra.Command{Use: "shell [NODE]",
		Short: "Open a shell on a node, or in the lab's network with kubectl configured", Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				return f.run(cmd, "bash", "-i")
			}
			return f.onNode(nodeShell)(cmd, args)
		}}
}

func nodeShell(ctx context.Context, n *lab.Node, _ []string) error {
	c := lab.Command{Args: []string{"bash", "-l"}, Stdin: os.Stdin, Stdout: os.Stdout, Stderr: os.Stderr}
	if size, err := unix.IoctlGetWinsize(0, unix.TIOCGWINSZ); err == nil {
		c.TTY = true
		c.Rows = size.Row
		c.Cols = size.Col
		restore, err := rawTerminal(0)
		if err != nil {
			return err
		}
		defer restore()
	}
	return carry(n.Run(ctx, c))
}

// rawTerminal passes every key to the node.
func rawTerminal(fd int) (restore func(), err error) {
	old, err := unix.IoctlGetTermios(fd, unix.TCGETS)
	if err != nil {
		return nil, err
	}
	raw := *old
	raw.Iflag &^= unix.IGNBRK | unix.BRKINT | unix.PARMRK | unix.ISTRIP | unix.INLCR | unix.IGNCR |
		unix.ICRNL | unix.IXON
	raw.Oflag &^= unix.OPOST
	raw.Lflag &^= unix.ECHO | unix.ECHONL | unix.ICANON | unix.ISIG | unix.IEXTEN
	if err := unix.IoctlSetTermios(fd, unix.TCSETS, &raw); err != nil {
		return nil, err
	}
	return func() { _ = unix.IoctlSetTermios(fd, unix.TCSETS, old) }, nil
}

func bareTest(f *flags) *cobra.Command {
	cmd := &cobra.Command{Use: "bare-test -- BINARY ARGS",
		Short: "Create a bare node, and run a test binary on it", Args: cobra.MinimumNArgs(1)}
	var disks string
	var flavor string
	cmd.Flags().StringVar(&disks, "disks", "", "data disks of the node, for example 1G,1G,scsi:1G")
	cmd.Flags().StringVar(&flavor, "flavor", lab.DefaultFlavor, "host flavor of the node (lab flavors lists them)")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		specs, err := lab.ParseDisks(disks)
		if err != nil {
			return err
		}
		o := lab.Options{Name: f.name, State: f.state, Flavor: flavor, Disks: specs, Progress: os.Stderr}
		return carry(lab.RunTestBinary(cmd.Context(), o, os.Stdout, os.Stderr, args[0], args[1:]...))
	}
	return cmd
}
