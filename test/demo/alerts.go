package main

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/lvm-storage/lvm-operator/test/lab"
	"github.com/lvm-storage/lvm-operator/test/prometheus"
	"github.com/lvm-storage/lvm-operator/test/story"
)

const (
	// expected is the alert that the demo causes with a disk that cannot be read: to LVM it is missing.
	expected    = "LVMSDeviceMissing"
	failingDisk = "disk3"
	// targets are the operator, one on standby, and two agents.
	targets    = 4
	alertLimit = 5 * time.Minute
)

// alerts makes a disk fail that no Pod uses, and shows the alerts of a Prometheus with the product's rules.
func (d *demo) alerts(ctx context.Context) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, 2*alertLimit)
	defer cancel()
	p, err := d.startPrometheus(ctx)
	if err != nil {
		return "", err
	}
	err = story.Wait(ctx, "all targets are scraped, and there is no alert",
		func(ctx context.Context) (bool, string, error) {
			down, up, err := p.Down(ctx)
			if err != nil || len(down) > 0 || up != targets {
				return false, fmt.Sprintf("%d up, down: %s", up, down), err
			}
			alerts, err := p.Alerts(ctx)
			return len(alerts) == 0, fmt.Sprint(alerts), err
		})
	if err != nil {
		return "", err
	}
	node, err := d.idleNode(ctx)
	if err != nil {
		return "", err
	}
	fmt.Printf("        %s of %s gives errors from now on\n", failingDisk, node.Name())
	if err := node.FailDisk(ctx, failingDisk); err != nil {
		return "", err
	}
	begin := time.Now()
	if err := d.follow(ctx, p, begin); err != nil {
		return "", err
	}
	if err := node.HealDisk(ctx, failingDisk); err != nil {
		return "", err
	}
	return fmt.Sprintf("%s fired after %.0f s; the disk is well again", expected, time.Since(begin).Seconds()),
		d.cluster.WaitReady(ctx, clusterName)
}

// idleNode returns a node without Pods of the demo.
func (d *demo) idleNode(ctx context.Context) (*lab.Node, error) {
	pods := &corev1.PodList{}
	if err := d.cluster.List(ctx, pods, client.InNamespace(namespace)); err != nil {
		return nil, err
	}
	for _, node := range d.cluster.Lab.Nodes() {
		if !slices.ContainsFunc(pods.Items, func(p corev1.Pod) bool { return p.Spec.NodeName == node.Name() }) {
			return node, nil
		}
	}
	return nil, fmt.Errorf("every node has a Pod of namespace %s", namespace)
}

// follow prints each change of an alert until the expected one fires.
func (d *demo) follow(ctx context.Context, p *prometheus.Prometheus, begin time.Time) error {
	told := map[string]bool{}
	return story.Wait(ctx, expected+" fires", func(ctx context.Context) (bool, string, error) {
		alerts, err := p.Alerts(ctx)
		if err != nil {
			return false, "", err
		}
		for _, a := range alerts {
			line := fmt.Sprintf("%s %s (%s): %s", a.State, a.Labels["alertname"], a.Labels["severity"],
				a.Annotations["summary"])
			if !told[line] {
				told[line] = true
				fmt.Printf("        after %3.0f s %s\n", time.Since(begin).Seconds(), line)
			}
		}
		done := slices.ContainsFunc(alerts, func(a prometheus.Alert) bool {
			return a.State == "firing" &&
				a.Labels["alertname"] == expected
		})
		return done, strings.Join(slices.Sorted(maps.Keys(told)), "; "), nil
	})
}
