//go:build e2e

package commands

import (
	"bytes"
	"context"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	// These tests accept the flags of the other end-to-end tests.
	_ "github.com/onsi/ginkgo/v2"

	"github.com/lvm-storage/lvm-operator/test/e2e/suite"
	"github.com/lvm-storage/lvm-operator/test/lab"
	"github.com/lvm-storage/lvm-operator/test/story"
)

const classes = `
apiVersion: lvm.topolvm.io/v1alpha1
kind: LVMCluster
metadata: {name: my-lvmcluster, namespace: openshift-lvm-storage}
spec:
  storage:
    deviceClasses:
    - name: vg1
      default: true
      deviceSelector: {paths: [/dev/ubdb]}
      thinPoolConfig: {name: thin-pool-1, sizePercent: 50, overprovisionRatio: 10}
    - name: safe
      deviceSelector: {paths: [MIRROR1, MIRROR2]}
      raidConfig: {type: raid1}
`

// world is a cluster with volumes of each kind, and a foreign volume group.
type world struct {
	*suite.World
	disks []string
}

// A reader copies commands into a shell and replaces the words in capitals with names. Each command must do what its
// page says.
func TestCommandsOfThePagesWork(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 40*time.Minute)
	defer cancel()
	w := newWorld(ctx, t)
	all, err := Read()
	w.Must(err)
	for _, c := range all {
		if c.ReadsOnly() && !listed(c) {
			w.reads(ctx, c)
		}
	}
	w.Logf("%s: commands that read", w.Since())
	for _, s := range steps {
		w.step(ctx, s, all[slices.IndexFunc(all, func(c Command) bool { return c.Text == s.Text })])
	}
	w.Logf("%s: commands that change something", w.Since())
	w.Must(w.WaitReady(ctx, "my-lvmcluster"))
}

func newWorld(ctx context.Context, t *testing.T) *world {
	t.Helper()
	scsi := lab.DiskSpec{Kind: lab.SCSI, Size: lab.GiB}
	w := &world{World: suite.NewWorld(ctx, t, lab.Options{Name: "e2e-commands", Nodes: 1, Snapshots: true,
		Disks: []lab.DiskSpec{{Size: 8 * lab.GiB}, scsi, scsi, scsi}})}
	w.RecordPermissions()
	w.Must(w.Install(ctx, w.Environment("LVMS_IMAGE")))
	w.storage(ctx)
	w.Logf("%s: volumes are in use", w.Since())
	return w
}

// storage creates the classes, volumes in them, a snapshot, and a foreign volume group.
func (w *world) storage(ctx context.Context) {
	w.Helper()
	node, err := w.Lab.Node("node1")
	w.Must(err)
	found, err := node.Disks(ctx)
	w.Must(err)
	for _, disk := range found {
		w.disks = append(w.disks, disk.Device)
	}
	manifest := strings.NewReplacer("MIRROR1", w.disks[1], "MIRROR2", w.disks[2]).Replace(classes)
	w.Must(w.ApplyManifest(ctx, manifest))
	w.Must(w.WaitReady(ctx, "my-lvmcluster"))
	data := story.Volume{Namespace: "default", Name: "data", Class: "lvms-vg1", Size: "1Gi"}
	for _, v := range []story.Volume{data, {Namespace: "default", Name: "mirror", Class: "lvms-safe", Size: "128Mi"}} {
		w.Must(w.Claim(ctx, v))
		w.Must(w.StartPod(ctx, v, v.Name))
	}
	w.Must(w.Snapshot(ctx, data, "snap"))
	_, err = node.Exec(ctx, "vgcreate", "foreign", w.disks[3])
	w.Must(err)
}

// names returns the values for the words in capitals that a step does not set.
func (w *world) names() map[string]string {
	return map[string]string{
		"NODE": "node1", "NAMESPACE": "default", "NAME": "data", "POD": "$(basename " + agentPod + ")",
		"/dev/sdX": w.disks[1],
	}
}

// word matches a word in capitals that stands for a name: not a shell variable, a column, or a part of another word.
var word = regexp.MustCompile(`(^|[ /])(NODE|NAMESPACE|NAME|POD|TARGET|GROUP|POOL|/dev/sdX)( |$)`)

// filled returns a command with names in place of the words in capitals. A word that a step has set as a variable
// becomes that variable.
func filled(text string, names map[string]string) string {
	return word.ReplaceAllStringFunc(text, func(found string) string {
		m := word.FindStringSubmatch(found)
		if name, known := names[m[2]]; known {
			return m[1] + name + m[3]
		}
		return m[1] + "$" + m[2] + m[3]
	})
}

// agentPod finds the agent of the only node.
const agentPod = "$(" + kubectl + "get pod -l app.kubernetes.io/name=vg-manager -o name)"

// script returns the shell lines before a command: the variables of its page, for this cluster.
func script(c Command) string {
	lines := strings.Join(c.Before, "\n")
	if !strings.Contains(lines, "AGENT=") && strings.Contains(c.Text, "$AGENT") {
		lines += "\nAGENT=" + agentPod
	}
	return "set -euo pipefail\nexport EDITOR=true\nNODE=node1 CLASS=vg1\n" + here.Replace(lines) + "\n"
}

// here replaces the examples of the pages with the node and claim of the test.
var here = strings.NewReplacer("worker-1", "node1", "NAMESPACE=shop", "NAMESPACE=default", "CLAIM=orders", "CLAIM=data")

// bash runs lines in a shell, like an administrator.
func (w *world) bash(ctx context.Context, lines string) (stdout, stderr string, err error) {
	ctx, cancel := context.WithTimeoutCause(ctx, 3*time.Minute, fmt.Errorf("it took longer than three minutes"))
	defer cancel()
	command, err := w.Lab.Command(ctx, "bash", "-c", lines)
	if err != nil {
		return "", "", err
	}
	var out, problems bytes.Buffer
	command.Stdout = &out
	command.Stderr = &problems
	err = command.Run()
	return out.String(), problems.String(), err
}

// reads runs a read-only command.
func (w *world) reads(ctx context.Context, c Command) {
	w.Helper()
	stdout, stderr, err := w.bash(ctx, script(c)+filled(c.Text, w.names()))
	if said, known := refused[c.Text]; known {
		if !strings.Contains(stdout+stderr, said) {
			w.Errorf("%s: %s: %v, %q, want %q", c.Page, c.Text, err, stdout+stderr, said)
		}
		return
	}
	isQuiet := slices.ContainsFunc(quiet, func(part string) bool { return strings.Contains(c.Text, part) })
	if err != nil || stdout == "" && !isQuiet {
		w.Errorf("%s: %s: %v\nstdout: %q\nstderr: %q", c.Page, c.Text, err, stdout, stderr)
	}
}

// step runs a command that changes something.
func (w *world) step(ctx context.Context, s Step, c Command) {
	w.Helper()
	names := w.names()
	for _, set := range regexp.MustCompile(`\b([A-Z]+)=`).FindAllStringSubmatch(s.Before, -1) {
		delete(names, set[1])
	}
	for from, to := range s.With {
		names[from] = to
	}
	lines := script(c) + s.Before + "\n" + filled(s.Text, names) + "\n" + s.After
	if stdout, stderr, err := w.bash(ctx, lines); err != nil {
		w.Errorf("%s: %s: %v\nstdout: %q\nstderr: %q", c.Page, s.Text, err, stdout, stderr)
	}
}
