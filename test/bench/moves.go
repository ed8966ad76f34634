package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/lvm-storage/lvm-operator/api/v1alpha1"
	"github.com/lvm-storage/lvm-operator/test/lab"
	"github.com/lvm-storage/lvm-operator/test/story"
)

const (
	moveRounds = 3
	// moveLimit limits each phase of a move: a volume of 16 GiB has 1.6 GiB to copy.
	moveLimit = 15 * time.Minute
	// writeTime is how long the Pod writes between the last change that was copied while it runs, and its end.
	writeTime = 10 * time.Second
	// writtenPlaces is the number of blocks of 64 KiB that the Pod writes again and again, all over the data.
	writtenPlaces = 256
)

// movedVolume is a volume that is moved. Nothing is written to it if MiB is 0.
type movedVolume struct {
	name string
	gib  int
	mib  int
}

var movedVolumes = []movedVolume{{"empty, 1 GiB", 1, 0}, {"1 GiB", 1, 102}, {"4 GiB", 4, 410}, {"16 GiB", 16, 1638}}

// writeAlways writes numbered lines and blocks of random data to a volume until the Pod ends, with an fsync for each.
// %d are the number of blocks, and the distance between them in units of 64 KiB.
const writeAlways = `(i=0; while i=$((i+1)); do echo $i >>/data/lines && sync /data/lines && echo $i >/tmp/synced &&
dd if=/dev/urandom of=/data/blocks bs=64k count=1 seek=$((i * 97 %% %d * %d)) conv=notrunc,fsync || exit; sleep 0.1
done) >/dev/null 2>&1 &`

var moveLab = lab.Options{Name: "bench-moves", Nodes: 2, Snapshots: true, Disks: []lab.DiskSpec{{Size: 8 * lab.GiB}}}

// runMoves measures how long a workload waits while its volume is moved to the other node: from the moment at which the
// Pod object no longer exists until a Pod can start on the other node. The volumes differ in their size, and have the
// same write load; nothing is written to the first one. It takes the samples in turns.
func runMoves(ctx context.Context, b *bench) error {
	if err := b.createThinClass(ctx); err != nil {
		return err
	}
	pauses := make([][]pause, len(movedVolumes))
	for round := range moveRounds {
		for i, v := range movedVolumes {
			p, err := b.move(ctx, v)
			if err != nil {
				return fmt.Errorf("move the volume %q: %w", v.name, err)
			}
			fmt.Printf("round %d, %s: pause %.2f s, moments at %v\n", round+1, v.name, p.total().Seconds(), p.at)
			pauses[i] = append(pauses[i], p)
		}
	}
	printMoves(pauses)
	return nil
}

// move moves a volume to the other node, and returns the pause of its Pod. It removes the volume again.
func (b *bench) move(ctx context.Context, point movedVolume) (pause, error) {
	v := story.Volume{Namespace: "default", Name: "moved", Class: "lvms-" + className, Node: "node1",
		Size: fmt.Sprintf("%dGi", point.gib)}
	if err := errors.Join(b.cluster.Claim(ctx, v), b.cluster.StartPod(ctx, v, v.Name)); err != nil {
		return pause{}, err
	}
	if err := b.startWrites(ctx, point, v); err != nil {
		return pause{}, err
	}
	move := &v1alpha1.VolumeMove{ObjectMeta: metav1.ObjectMeta{Name: v.Name, Namespace: story.OperatorNamespace},
		Spec: v1alpha1.VolumeMoveSpec{Claim: v1alpha1.VolumeMoveClaim{Namespace: v.Namespace, Name: v.Name},
			NodeName: "node2"}}
	if err := b.cluster.Create(ctx, move); err != nil {
		return pause{}, err
	}
	// The second round is the first one with changes only.
	if err := b.untilMove(ctx, move, "waits for Pods after round 2", func() bool {
		return move.Status.Phase == v1alpha1.MoveWaitingForPods && move.Status.Round >= 2
	}); err != nil {
		return pause{}, err
	}
	if err := sleep(ctx, writeTime); err != nil {
		return pause{}, err
	}
	synced, err := b.lastLine(ctx, point, v)
	if err != nil {
		return pause{}, err
	}
	p, err := b.pauseOf(ctx, v, move)
	if err != nil {
		return pause{}, err
	}
	v.Node = "node2"
	return p, errors.Join(b.checkMoved(ctx, v, synced), b.endMove(ctx, v, move))
}

// startWrites writes the data of a volume, and starts the load.
func (b *bench) startWrites(ctx context.Context, point movedVolume, v story.Volume) error {
	if point.mib == 0 {
		return nil
	}
	if _, err := b.cluster.Shell(ctx, v.Namespace, v.Name, fmt.Sprintf("dd if=/dev/urandom of=/data/blocks bs=1M "+
		"count=%d conv=fsync", point.mib)); err != nil {
		return err
	}
	_, err := b.cluster.Shell(ctx, v.Namespace, v.Name, fmt.Sprintf(writeAlways, writtenPlaces,
		point.mib*16/writtenPlaces))
	return err
}

// lastLine returns the last line that the Pod has written and flushed, or "" if it writes nothing.
func (b *bench) lastLine(ctx context.Context, point movedVolume, v story.Volume) (string, error) {
	if point.mib == 0 {
		return "", nil
	}
	out, err := b.cluster.Shell(ctx, v.Namespace, v.Name, "cat /tmp/synced")
	if line := strings.TrimSpace(out); line != "" || err != nil {
		return line, err
	}
	return "", errors.New("the Pod has written nothing")
}

// checkMoved starts a Pod on the other node, and checks that its volume has a line.
func (b *bench) checkMoved(ctx context.Context, v story.Volume, line string) error {
	if err := b.cluster.StartPod(ctx, v, v.Name); err != nil {
		return err
	}
	if line == "" {
		return nil
	}
	if _, err := b.cluster.Shell(ctx, v.Namespace, v.Name, "grep -qx "+line+" /data/lines"); err != nil {
		return fmt.Errorf("line %s is not in the moved volume: %w", line, err)
	}
	return nil
}

// endMove removes the volume, and then what the move has kept.
func (b *bench) endMove(ctx context.Context, v story.Volume, move *v1alpha1.VolumeMove) error {
	if err := errors.Join(b.cluster.StopPod(ctx, v.Namespace, v.Name),
		b.cluster.Remove(ctx, move, moveLimit), b.cluster.Unclaim(ctx, v)); err != nil {
		return err
	}
	return story.Wait(ctx, "no LogicalVolume is left", func(ctx context.Context) (bool, string, error) {
		list, err := b.logicalVolumes(ctx)
		return err == nil && len(list) == 0, fmt.Sprintf("%d LogicalVolumes", len(list)), err
	})
}

func (b *bench) untilMove(ctx context.Context, move *v1alpha1.VolumeMove, what string, reached func() bool) error {
	limited, cancel := context.WithTimeout(ctx, moveLimit)
	defer cancel()
	return b.poll(limited, fmt.Sprintf("VolumeMove %s %s", move.Name, what), move, reached)
}

// printMoves prints the medians, and the parts of the pauses.
func printMoves(pauses [][]pause) {
	medians := make([]time.Duration, len(pauses))
	for i, list := range pauses {
		var totals []time.Duration
		for _, p := range list {
			totals = append(totals, p.total())
		}
		medians[i] = middle(totals)
	}
	fmt.Printf("\n| volume | written | last round | pause, median of %d (all) | ÷ empty |\n|---|---|---|---|---|\n",
		moveRounds)
	for i, v := range movedVolumes {
		var all []string
		var sent []uint64
		for _, p := range pauses[i] {
			all = append(all, fmt.Sprintf("%.2f s", p.total().Seconds()))
			sent = append(sent, p.sent)
		}
		slices.Sort(sent)
		fmt.Printf("| %s | %d MiB | %.1f MiB | %.2f s (%s) | %.2f |\n", v.name, v.mib,
			float64(sent[len(sent)/2])/(1<<20), medians[i].Seconds(), strings.Join(all, ", "),
			medians[i].Seconds()/medians[0].Seconds())
	}
	fmt.Print("\n| medians of the parts of the pause |")
	for _, v := range movedVolumes {
		fmt.Printf(" %s |", v.name)
	}
	fmt.Print("\n|---|" + strings.Repeat("---|", len(movedVolumes)) + "\n")
	for part, name := range pauseParts {
		fmt.Printf("| %s |", name)
		for i := range movedVolumes {
			var list []time.Duration
			for _, p := range pauses[i] {
				list = append(list, p.part(part))
			}
			fmt.Printf(" %.2f s |", middle(list).Seconds())
		}
		fmt.Println()
	}
}

// createThinClass creates a device class with a thin pool, and waits until it is ready.
func (b *bench) createThinClass(ctx context.Context) error {
	class := v1alpha1.DeviceClass{Name: className, Default: true,
		DeviceSelector: &v1alpha1.DeviceSelector{Paths: []v1alpha1.DevicePath{"/dev/ubdb"}},
		ThinPoolConfig: &v1alpha1.ThinPoolConfig{Name: "pool", SizePercent: 90, OverprovisionRatio: 10}}
	if err := b.apply(ctx, []v1alpha1.DeviceClass{class}); err != nil {
		return err
	}
	return b.cluster.WaitReady(ctx, "bench")
}

// isBoundTo reports whether a claim is bound to a PersistentVolume, and that to the claim.
func isBoundTo(claim *corev1.PersistentVolumeClaim, pv *corev1.PersistentVolume) bool {
	return pv.Status.Phase == corev1.VolumeBound && pv.Spec.ClaimRef != nil && pv.Spec.ClaimRef.UID == claim.UID &&
		claim.Status.Phase == corev1.ClaimBound && claim.Spec.VolumeName == pv.Name &&
		pv.DeletionTimestamp.IsZero()
}
