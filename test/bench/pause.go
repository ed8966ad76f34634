package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	topolvmv1 "github.com/topolvm/topolvm/api/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/lvm-storage/lvm-operator/api/v1alpha1"
	"github.com/lvm-storage/lvm-operator/api/wellknown"
	"github.com/lvm-storage/lvm-operator/internal/volume/view"
	"github.com/lvm-storage/lvm-operator/test/story"
)

// pauseStep is the delay between two reads of the objects, much shorter than the pause.
const pauseStep = 20 * time.Millisecond

// Moments of a pause, in their order. The last two can come in the other order: the pause ends with the later one.
const (
	fenceRequested = iota
	fenceConfirmed
	snapshotCreated
	roundStarted
	roundFinished
	volumeSwitched
	volumeRecreated
	claimBound
	volumeAdopted
	pauseMoments
)

// pauseParts are the names of the parts of a pause. Each ends with the moment of its index.
var pauseParts = [pauseMoments]string{
	"the operator notices that no Pod uses the volume",
	"the node agent closes the volume",
	"last snapshot",
	"the last round starts",
	"last round: changes copied and compared",
	"switch",
	"PersistentVolume recreated",
	"claim bound",
	"copy adopted by the target node, if later",
}

// pause has the times from the end of the Pod until each moment, and the bytes that the last round sent.
type pause struct {
	at   [pauseMoments]time.Duration
	sent uint64
}

func (p pause) total() time.Duration { return max(p.at[claimBound], p.at[volumeAdopted]) }

// part returns the duration of a part.
func (p pause) part(moment int) time.Duration {
	switch moment {
	case fenceRequested:
		return p.at[moment]
	case volumeAdopted:
		return max(0, p.at[volumeAdopted]-p.at[claimBound])
	}
	return p.at[moment] - p.at[moment-1]
}

// pauseOf deletes the Pod of a volume that waits for it, and returns the pause that begins when the Pod object no
// longer exists.
func (b *bench) pauseOf(ctx context.Context, v story.Volume, move *v1alpha1.VolumeMove) (pause, error) {
	ctx, cancel := context.WithTimeout(ctx, moveLimit)
	defer cancel()
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: v.Namespace, Name: v.Name}}
	if err := b.cluster.Delete(ctx, pod); err != nil {
		return pause{}, err
	}
	for {
		err := b.cluster.Get(ctx, client.ObjectKeyFromObject(pod), pod)
		if apierrors.IsNotFound(err) {
			break
		}
		if err := errors.Join(err, sleep(ctx, pauseStep)); err != nil {
			return pause{}, err
		}
	}
	return b.watchPause(ctx, v, move, time.Now())
}

// watchPause reads the objects of a move again and again until a Pod can start on the other node.
func (b *bench) watchPause(ctx context.Context, v story.Volume, move *v1alpha1.VolumeMove,
	begun time.Time) (pause, error) {
	var p pause
	for {
		reached, sent, err := b.momentsOf(ctx, v, move)
		now := time.Since(begun)
		p.sent = max(p.sent, sent)
		last := 0
		for moment, is := range reached {
			if is {
				last = moment
			}
		}
		for moment := range pauseMoments {
			// A moment that was shorter than a step was reached with the next one.
			passed := reached[moment] || moment < min(last, claimBound)
			if passed && p.at[moment] == 0 {
				p.at[moment] = now
			}
		}
		if p.at[claimBound] > 0 && p.at[volumeAdopted] > 0 {
			return p, nil
		}
		if err := errors.Join(err, sleep(ctx, pauseStep)); err != nil {
			return pause{}, fmt.Errorf("reached %v: %w", p.at, err)
		}
	}
}

// momentsOf returns which moments of a pause are reached, as far as the objects still show it, and how many bytes the
// last round has sent, 0 if it is not finished.
func (b *bench) momentsOf(ctx context.Context, v story.Volume,
	move *v1alpha1.VolumeMove) (reached [pauseMoments]bool, sent uint64, err error) {
	list, err := b.logicalVolumes(ctx)
	if err != nil {
		return reached, 0, err
	}
	var volume, target, final *topolvmv1.LogicalVolume
	for i := range list {
		switch lv := &list[i]; {
		case lv.Name == move.Status.PersistentVolume:
			volume = lv
		case lv.Annotations[wellknown.MoveVolumeAnnotation] != "":
			target = lv
		case lv.Annotations[wellknown.FenceTimeAnnotation] != "":
			final = lv
		}
	}
	if volume == nil {
		return reached, 0, fmt.Errorf("LogicalVolume %s does not exist", move.Status.PersistentVolume)
	}
	reached[fenceRequested] = volume.Annotations[wellknown.FenceAnnotation] != ""
	reached[fenceConfirmed] = volume.Annotations[wellknown.FencedAnnotation] != ""
	if final != nil && target != nil {
		reached[snapshotCreated] = final.Status.VolumeID != ""
		reached[roundStarted] = target.Spec.Source == final.Name
		record, err := view.Copied(target)
		if err == nil && record.Source == final.Name && record.Finished {
			reached[roundFinished] = true
			sent = record.SentBytes
		}
	}
	if volume.Spec.NodeName != move.Status.TargetNode {
		return reached, sent, nil
	}
	reached[volumeSwitched] = true
	reached[volumeAdopted] = volume.Annotations[wellknown.AdoptAnnotation] == ""
	reached[volumeRecreated], reached[claimBound], err = b.isMoved(ctx, v, move)
	return reached, sent, err
}

// isMoved reports whether the PersistentVolume is on the target node, and whether the claim is bound to it.
func (b *bench) isMoved(ctx context.Context, v story.Volume, move *v1alpha1.VolumeMove) (recreated, bound bool,
	err error) {
	pv := &corev1.PersistentVolume{}
	err = b.cluster.Get(ctx, client.ObjectKey{Name: move.Status.PersistentVolume}, pv)
	if apierrors.IsNotFound(err) {
		return false, false, nil
	}
	claim := &corev1.PersistentVolumeClaim{}
	err = errors.Join(err, b.cluster.Get(ctx, client.ObjectKey{Namespace: v.Namespace, Name: v.Name}, claim))
	recreated = err == nil && view.NodeOfVolume(pv) == move.Status.TargetNode
	return recreated, recreated && isBoundTo(claim, pv), err
}

func (b *bench) logicalVolumes(ctx context.Context) ([]topolvmv1.LogicalVolume, error) {
	list := &topolvmv1.LogicalVolumeList{}
	err := b.cluster.List(ctx, list)
	return list.Items, err
}
