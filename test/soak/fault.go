package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
	"time"
)

// How long faults last that do not end by themselves.
const (
	apiAway  = 12 * time.Second
	diskAway = 5 * time.Second
	clockOff = 10 * time.Second
)

// clockShift is how far the clock is moved. Until that time has passed, the kubelet takes containers of before for
// newer than those it started since.
const clockShift = time.Minute

// fault lets one happen, and returns when it is over.
func (w *world) fault(ctx context.Context, name string) error {
	switch name {
	case "":
		return nil
	case faultKillAgent:
		return w.killed(ctx, "vgmanager")
	case faultKillOperator:
		return w.killed(ctx, "operator")
	case faultStopAPI:
		return w.stopAPI(ctx)
	case faultPowerCut:
		if err := w.node.PowerCut(ctx); err != nil {
			return err
		}
		return w.node.Start(ctx)
	case faultMoveClock:
		return w.moveClock(ctx)
	case faultPullDisk:
		return w.pullDisk(ctx)
	}
	return fmt.Errorf("no fault %q", name)
}

// killed kills a process of the product. None may run at that moment.
func (w *world) killed(ctx context.Context, command string) error {
	_, err := w.onNode(ctx, "pkill -KILL -f '^/lvms "+command+"' || true")
	return err
}

// stopAPI lets the API server stand still: connections stay open, and nothing answers.
func (w *world) stopAPI(ctx context.Context) error {
	pid, err := w.processOf("kube-apiserver")
	if err != nil {
		return err
	}
	if err := syscall.Kill(pid, syscall.SIGSTOP); err != nil {
		return err
	}
	wait(ctx, apiAway)
	return syscall.Kill(pid, syscall.SIGCONT)
}

// processOf finds a program of the lab's control plane by its working directory, which is the lab's state.
func (w *world) processOf(program string) (int, error) {
	all, err := filepath.Glob("/proc/[0-9]*")
	if err != nil {
		return 0, err
	}
	for _, dir := range all {
		line, err := os.ReadFile(filepath.Join(dir, "cmdline"))
		if err != nil {
			continue
		}
		name, _, _ := bytes.Cut(line, []byte{0})
		folder, err := os.Readlink(filepath.Join(dir, "cwd"))
		if err == nil && filepath.Base(string(name)) == program && folder == w.lab.State() {
			return strconv.Atoi(filepath.Base(dir))
		}
	}
	return 0, fmt.Errorf("no process %s of the lab in %s", program, w.lab.State())
}

// moveClock moves the node's clock on, and back.
func (w *world) moveClock(ctx context.Context) error {
	if _, err := w.onNode(ctx, fmt.Sprintf("date -s @$(($(date +%%s) + %.0f))", clockShift.Seconds())); err != nil {
		return err
	}
	wait(ctx, clockOff)
	_, err := w.onNode(context.WithoutCancel(ctx),
		fmt.Sprintf("date -s @$(($(date +%%s) - %.0f))", clockShift.Seconds()))
	return err
}

// pullDisk takes a disk of the mirror away, and puts it back with what is on it.
func (w *world) pullDisk(ctx context.Context) error {
	if err := w.node.PullDisk(ctx, pulledDisk); err != nil {
		return err
	}
	wait(ctx, diskAway)
	_, err := w.node.PutDisk(context.WithoutCancel(ctx), pulledDisk)
	return err
}

func wait(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}
