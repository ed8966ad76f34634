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

	corev1 "k8s.io/api/core/v1"
)

// Durations of faults that do not end by themselves.
const (
	apiAway  = 12 * time.Second
	diskAway = 5 * time.Second
	clockOff = 10 * time.Second
)

// clockShift is how far the clock is moved.
const clockShift = time.Hour

// podPause is the time after which the status of a Pod shows that a container was killed.
const podPause = 3 * time.Second

// fault causes a fault, and returns when it is over.
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

// killed kills a process of the product. It is not an error if none runs.
func (w *world) killed(ctx context.Context, command string) error {
	_, err := w.onNode(ctx, "pkill -KILL -f '^/lvms "+command+"' || true")
	return err
}

// stopAPI suspends the API server: connections stay open, but receive no answers.
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

// processOf returns the process ID of a program of the lab's control plane. It identifies the program by its working
// directory, which is the lab's state directory.
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

// moveClock moves the node's clock forward, and back. No container may start meanwhile: because of its time, the
// kubelet could not start it a third time.
func (w *world) moveClock(ctx context.Context) error {
	wait(ctx, podPause)
	if err := w.retry(ctx, "the containers of the node have started", w.containersStarted); err != nil {
		return err
	}
	if _, err := w.onNode(ctx, fmt.Sprintf("date -s @$(($(date +%%s) + %.0f))", clockShift.Seconds())); err != nil {
		return err
	}
	wait(ctx, clockOff)
	_, err := w.onNode(context.WithoutCancel(ctx),
		fmt.Sprintf("date -s @$(($(date +%%s) - %.0f))", clockShift.Seconds()))
	return err
}

func (w *world) containersStarted(ctx context.Context) error {
	text, err := w.onNode(ctx, "awk '$1 == \"btime\" {print $2}' /proc/stat") // proc_stat(5), in seconds
	if err != nil {
		return err
	}
	booted, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		return err
	}
	pods := &corev1.PodList{}
	if err := w.List(ctx, pods); err != nil {
		return err
	}
	return starting(pods.Items, time.Unix(booted, 0))
}

// starting returns an error if a container is still to start on a node that booted at a time. After a power cut, the
// status of a Pod is of before until the kubelet writes it.
func starting(pods []corev1.Pod, booted time.Time) error {
	for _, pod := range pods {
		if pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed {
			continue
		}
		if len(pod.Status.ContainerStatuses) == 0 {
			return fmt.Errorf("the Pod %s/%s has no containers yet", pod.Namespace, pod.Name)
		}
		for _, container := range pod.Status.ContainerStatuses {
			if !container.Ready {
				return fmt.Errorf("container %s of Pod %s/%s is not ready", container.Name, pod.Namespace, pod.Name)
			}
			if running := container.State.Running; running == nil || running.StartedAt.Time.Before(booted) {
				return fmt.Errorf("container %s of Pod %s/%s has not started since the node booted", container.Name,
					pod.Namespace, pod.Name)
			}
		}
	}
	return nil
}

// pullDisk removes a disk of the mirror, and attaches it again with its content.
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
