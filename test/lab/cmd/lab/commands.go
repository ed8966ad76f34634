package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/lvm-storage/lvm-operator/test/lab"
)

// flags are shared by several commands.
type flags struct {
	name, state, disks string
	options            lab.Options
}

func root() *cobra.Command {
	f := &flags{}
	cmd := &cobra.Command{
		Use:           "lab",
		Short:         "Run test clusters with real LVM on this machine",
		SilenceUsage:  true,
		SilenceErrors: true,
	}
	cmd.PersistentFlags().StringVar(&f.name, "name", "lab", "name of the lab")
	cmd.PersistentFlags().StringVar(&f.state, "state", "",
		"directory of the lab (default .cache/labs/NAME in the repository)")
	cmd.AddCommand(up(f), down(f), status(f), kubectl(f), node(f), etcd(f), shell(f), logs(f), loadImage(f), programs(),
		doctor(f), packages(), flavors(), bareTest(f))
	return cmd
}

// stateDir returns the directory of the lab that the flags select.
func (f *flags) stateDir() (string, error) {
	if f.state != "" {
		return filepath.Abs(f.state)
	}
	cache, err := lab.CacheDir()
	return filepath.Join(cache, "labs", f.name), err
}

func (f *flags) open() (*lab.Lab, error) {
	dir, err := f.stateDir()
	if err != nil {
		return nil, err
	}
	return lab.Open(dir)
}

// addTo adds the flags that configure a lab.
func (f *flags) addTo(cmd *cobra.Command) {
	o := &f.options
	cmd.Flags().IntVar(&o.Nodes, "nodes", 1, "number of nodes")
	cmd.Flags().StringVar(&f.disks, "disks", "", "data disks of every node, for example 8G,8G,scsi:1G; "+
		"all nodes see the same disk shared:1G")
	cmd.Flags().StringVar(&o.Flavor, "flavor", lab.DefaultFlavor, "host flavor of the nodes (lab flavors lists them)")
	cmd.Flags().IntVar(&o.MemoryMB, "memory", 2048, "memory of a node in MB")
	cmd.Flags().BoolVar(&o.Bare, "bare", false, "nodes without Kubernetes")
	cmd.Flags().BoolVar(&o.OpenShift, "openshift", false,
		"add the CustomResourceDefinitions of OpenShift, and objects that describe the cluster")
	cmd.Flags().BoolVar(&o.Snapshots, "snapshots", false, "add the CustomResourceDefinitions and the controller of "+
		"volume snapshots")
	cmd.Flags().BoolVar(&o.OLM, "olm", false, "add the Operator Lifecycle Manager")
	cmd.Flags().BoolVar(&o.OLMv1, "olm-v1", false, "add OLM v1: catalogd and operator-controller")
	cmd.Flags().BoolVar(&o.ServiceCA, "service-ca", false,
		"add a signer for the annotations of OpenShift's service CA")
	cmd.Flags().BoolVar(&o.PrometheusOperator, "prometheus-operator", false,
		"add the Prometheus Operator and the images of Prometheus")
	cmd.Flags().BoolVar(&o.NetworkPolicies, "network-policies", false, "enforce NetworkPolicies")
	cmd.Flags().StringSliceVar(&o.CRDs, "crds", nil, "files with additional CustomResourceDefinitions")
}

func (f *flags) complete() (lab.Options, error) {
	o := f.options
	o.Name = f.name
	o.State = f.state
	o.Progress = os.Stderr
	o.Detached = true
	disks, err := lab.ParseDisks(f.disks)
	o.Disks = disks
	for i, file := range o.CRDs {
		if o.CRDs[i], err = filepath.Abs(file); err != nil {
			return o, err
		}
	}
	return o, err
}

func up(f *flags) *cobra.Command {
	cmd := &cobra.Command{Use: "up", Short: "Start a lab", Args: cobra.NoArgs}
	f.addTo(cmd)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		o, err := f.complete()
		if err != nil {
			return err
		}
		_, err = lab.Up(cmd.Context(), o)
		return err
	}
	return cmd
}

func down(f *flags) *cobra.Command {
	return &cobra.Command{Use: "down", Short: "Stop a lab and delete all its files", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			dir, err := f.stateDir()
			if err != nil {
				return err
			}
			return lab.Down(cmd.Context(), dir)
		}}
}

func status(f *flags) *cobra.Command {
	return &cobra.Command{Use: "status", Short: "Show a lab's nodes and disks", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			l, err := f.open()
			if err != nil {
				return err
			}
			for _, n := range l.Nodes() {
				running, err := n.Running(cmd.Context())
				if err != nil {
					return err
				}
				fmt.Printf("%s %s running=%v\n", n.Name(), n.IP(), running)
				disks, err := n.Disks(cmd.Context())
				if err != nil {
					return err
				}
				for _, d := range disks {
					fmt.Printf("  %s %s %s %dM serial %s\n", d.Name, d.Kind, d.Device, d.Size/lab.MiB, d.Serial)
				}
			}
			return nil
		}}
}

func kubectl(f *flags) *cobra.Command {
	return &cobra.Command{Use: "kubectl -- ARGS", Short: "Run kubectl as the lab's administrator",
		RunE: func(cmd *cobra.Command, args []string) error {
			return f.run(cmd, "kubectl", args...)
		}}
}

// run runs a program in the lab's network, with this command's standard streams.
func (f *flags) run(cmd *cobra.Command, program string, args ...string) error {
	l, err := f.open()
	if err != nil {
		return err
	}
	c, err := l.Command(cmd.Context(), program, args...)
	if err != nil {
		return err
	}
	c.Stdin = os.Stdin
	c.Stdout = os.Stdout
	c.Stderr = os.Stderr
	return carryExit(c.Run())
}

func carryExit(err error) error {
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		return exitCode(exit.ExitCode())
	}
	return err
}

func etcd(f *flags) *cobra.Command {
	cmd := &cobra.Command{Use: "etcd", Short: "Back up and restore the data of a lab's etcd"}
	for name, do := range map[string]func(*lab.Lab, context.Context, string) error{
		"backup": (*lab.Lab).BackUpEtcd, "restore": (*lab.Lab).RestoreEtcd,
	} {
		cmd.AddCommand(&cobra.Command{Use: name + " DIR", Args: cobra.ExactArgs(1),
			RunE: func(cmd *cobra.Command, args []string) error {
				l, err := f.open()
				if err != nil {
					return err
				}
				return do(l, cmd.Context(), args[0])
			}})
	}
	return cmd
}

func logs(f *flags) *cobra.Command {
	var dir string
	cmd := &cobra.Command{Use: "logs [NODE]", Short: "Print a node's logs, or collect all logs in a directory",
		Args: cobra.MaximumNArgs(1)}
	cmd.Flags().StringVar(&dir, "dir", "", "directory for all logs (default lab-logs-NAME)")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		l, err := f.open()
		if err != nil {
			return err
		}
		if len(args) == 0 {
			if dir == "" {
				dir = "lab-logs-" + l.Name()
			}
			fmt.Println(dir)
			return l.CollectLogs(cmd.Context(), dir)
		}
		n, err := l.Node(args[0])
		if err != nil {
			return err
		}
		all, err := n.Logs()
		for name, text := range all {
			for _, line := range strings.Split(strings.TrimSpace(text), "\n") {
				fmt.Println(name+":", line)
			}
		}
		return err
	}
	return cmd
}

func loadImage(f *flags) *cobra.Command {
	return &cobra.Command{Use: "load-image LAYOUT-OR-TAR REF",
		Short: "Push an image to the lab's registry, registry.lab:5000", Args: cobra.ExactArgs(2),
		RunE: func(cmd *cobra.Command, args []string) error {
			l, err := f.open()
			if err != nil {
				return err
			}
			digest, err := l.LoadImage(cmd.Context(), args[0], args[1])
			if err == nil {
				fmt.Println(digest)
			}
			return err
		}}
}

func programs() *cobra.Command {
	return &cobra.Command{Use: "programs [SET...]",
		Short: "Build the programs that the lab runs, or only some sets (kubernetes, olm, ...), unless they are " +
			"cached, and print their directories",
		RunE: func(cmd *cobra.Command, sets []string) error {
			dirs, err := lab.AllPrograms(cmd.Context(), os.Stderr, sets...)
			for _, dir := range dirs {
				fmt.Println(dir)
			}
			return err
		}}
}

func flavors() *cobra.Command {
	var names bool
	cmd := &cobra.Command{Use: "flavors",
		Short: "Print the host flavors of nodes, and the tests that each one excludes", Args: cobra.NoArgs}
	cmd.Flags().BoolVar(&names, "names", false, "print only the names")
	cmd.RunE = func(*cobra.Command, []string) error {
		for _, f := range lab.Flavors() {
			if names {
				fmt.Println(f.Name)
				continue
			}
			fmt.Printf("%-20s %s\n", f.Name, f.Description)
			for _, e := range f.Excluded {
				fmt.Printf("%-20s   without %s: %s\n", "", e.Test, e.Reason)
			}
		}
		return nil
	}
	return cmd
}

func doctor(f *flags) *cobra.Command {
	cmd := &cobra.Command{Use: "doctor", Short: "Check whether this machine can run the lab", Args: cobra.NoArgs}
	f.addTo(cmd)
	var boot bool
	cmd.Flags().BoolVar(&boot, "boot", false,
		"also boot a bare node and create a physical volume on it (about 3 seconds)")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		o, err := f.complete()
		if err != nil {
			return err
		}
		problems, err := lab.Doctor(o)
		if err != nil {
			return err
		}
		if len(problems) > 0 {
			fmt.Print(lab.Report(problems))
			return exitCode(1)
		}
		if boot {
			if err := lab.TryBoot(cmd.Context(), os.Stderr); err != nil {
				return err
			}
		}
		fmt.Println("this machine can run the lab")
		return nil
	}
	return cmd
}

func packages() *cobra.Command {
	cmd := &cobra.Command{Use: "packages", Short: "Install the Debian packages that are missing", Args: cobra.NoArgs}
	tests := cmd.Flags().Bool("tests", false, "also install the packages that only tests need")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		missing, err := lab.MissingPackages(*tests)
		if err != nil {
			return err
		}
		if len(missing) == 0 {
			fmt.Println("no packages are missing")
			return nil
		}
		masked, err := lab.Mask("/etc/systemd/system", missing)
		if err != nil {
			return err
		}
		for _, service := range masked {
			fmt.Fprintf(os.Stderr, "%s is masked, because only its program is needed; if this machine runs the "+
				"service, run systemctl unmask %s\n",
				service, service)
		}
		for _, args := range [][]string{{"update", "-qq"},
			append([]string{"install", "-y", "-qq", "--no-install-recommends"}, missing...)} {
			c := exec.CommandContext(cmd.Context(), "apt-get", args...)
			c.Env = append(os.Environ(), "DEBIAN_FRONTEND=noninteractive")
			c.Stdout = os.Stderr
			c.Stderr = os.Stderr
			if err := c.Run(); err != nil {
				return fmt.Errorf("apt-get %s: %w", args[0], err)
			}
		}
		return nil
	}
	return cmd
}
