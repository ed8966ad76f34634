// Command scale measures the operator with many nodes: with a real API server, the real process of the operator, and
// simulated agents, because LVM is not measured. Machines are shared and noisy, but counts are exact.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"
)

// options configure the size of the cluster.
type options struct {
	binary, assets, work   string
	nodes, volumes, claims int
	rest                   time.Duration
}

// classes are the device classes. Every node has all of them.
var classes = []string{"fast", "slow", "thick", "cold"}

func main() {
	var o options
	flag.StringVar(&o.binary, "binary", "", "operator program")
	flag.StringVar(&o.assets, "assets", "", "directory with etcd, kube-apiserver and kube-controller-manager")
	flag.StringVar(&o.work, "work", "", "directory for logs")
	flag.IntVar(&o.nodes, "nodes", 1000, "number of nodes")
	flag.IntVar(&o.volumes, "volumes", 20000,
		"number of existing volumes, each with LogicalVolume, PersistentVolume and claim")
	flag.IntVar(&o.claims, "claims", 1000, "number of claims that are created at once")
	flag.DurationVar(&o.rest, "rest", 2*time.Minute, "how long the idle operator is measured")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	ctx, cancel := context.WithTimeout(ctx, time.Hour)
	defer cancel()
	if err := run(ctx, o); err != nil {
		fmt.Fprintln(os.Stderr, "scale:", err)
		os.Exit(1)
	}
}

// report is the table of results.
type report struct{ rows [][2]string }

func (r *report) add(what, format string, args ...any) {
	value := fmt.Sprintf(format, args...)
	r.rows = append(r.rows, [2]string{what, value})
	fmt.Printf("%s  %s: %s\n", time.Now().UTC().Format("15:04:05"), what, value)
}

func (r *report) print() {
	fmt.Println("\n| measured | value |\n|---|---|")
	for _, row := range r.rows {
		fmt.Printf("| %s | %s |\n", row[0], row[1])
	}
}

func progress(format string, args ...any) {
	fmt.Printf("%s  … %s\n", time.Now().UTC().Format("15:04:05"), fmt.Sprintf(format, args...))
}

func run(ctx context.Context, o options) (err error) {
	c, err := startCluster(ctx, o)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, c.stop()) }()
	ctx, c.giveUp = context.WithCancelCause(ctx)
	defer c.giveUp(nil)
	r := &report{}
	if err := c.populate(ctx); err != nil {
		return err
	}
	if err := c.startControllerManager(ctx); err != nil {
		return err
	}
	nodes := newAgents(c)
	for _, step := range []func(context.Context, *agents, *report) error{c.measureStart, c.measureRest, c.measureChange,
		c.measureClaims, c.measureRestart} {
		if err := step(ctx, nodes, r); err != nil {
			r.print()
			return err
		}
	}
	r.print()
	return nil
}
