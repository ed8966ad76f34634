package engine

import (
	"context"
	"fmt"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/lvm-storage/lvm-operator/vgmanager/machine/erase"
	"github.com/lvm-storage/lvm-operator/vgmanager/volume/engine/fault"
)

// eraseWait is how long one call waits for a volume to be erased. A small one is erased by then.
const eraseWait = 5 * time.Second

// Eraser erases logical volumes in the background. erase.Eraser implements it.
type Eraser interface {
	Running(key string) bool
	Erase(ctx context.Context, target erase.Target, record erase.Record) (erase.Progress, error)
	Stop(ctx context.Context, key string) error
}

// EraseKey identifies a volume of a class for the Eraser.
func EraseKey(class, name string) string { return class + "/" + name }

// EraseVolume erases a volume if its class requires that before its removal. It returns "" if this is complete or not
// required, and otherwise a text about the progress: the caller calls it again. The errors are those of Erasure, and
// Unavailable if the volume could not be erased.
func (r *Remover) EraseVolume(ctx context.Context, eraser Eraser, class, name string) (progress string, err error) {
	key := EraseKey(class, name)
	want, err := r.Erasure(ctx, class, name, eraser.Running(key))
	if err != nil {
		return "", err
	}
	if want == nil {
		if err := eraser.Stop(ctx, key); err != nil {
			return "", fault.New(fault.Unavailable, "%v", err)
		}
		return "", nil
	}
	waiting, cancel := context.WithTimeout(ctx, eraseWait)
	defer cancel()
	at, err := eraser.Erase(waiting, erase.Target{
		Key: key, Name: want.VolumeGroup + "/" + want.Name, Path: want.Path, Number: want.Number, Size: want.Size,
		Done: want.Done, Discard: want.Discard,
	}, func(ctx context.Context, done int64) error { return r.Erased(ctx, class, name, done) })
	switch {
	case err != nil:
		return "", fault.New(fault.Unavailable, "%v. It is not removed before it is erased: to remove it without "+
			"that, set eraseOnDelete: None in device class %s", err, class)
	case at.Finished:
		log.FromContext(ctx).Info("erased a logical volume", "deviceClass", class, "lv", name, "size", at.Size)
		return "", nil
	}
	return fmt.Sprintf("the logical volume is erased before it is removed: %d of %d MiB (%d %%) are erased",
		at.Done>>20, at.Size>>20, at.Done*100/at.Size), nil
}
