package view

import (
	"fmt"
	"strings"

	topolvmv1 "github.com/topolvm/topolvm/api/v1"

	"github.com/lvm-storage/lvm-operator/api/wellknown"
)

// Move returns the UID of the VolumeMove for which a LogicalVolume was created, or "".
func Move(lv *topolvmv1.LogicalVolume) string { return lv.Annotations[wellknown.MoveAnnotation] }

// MoveVolume returns the ID of the volume that is moved to a LogicalVolume, or "" if this is not the target of a move.
func MoveVolume(lv *topolvmv1.LogicalVolume) string {
	return lv.Annotations[wellknown.MoveVolumeAnnotation]
}

// MoveBack returns the node to which the old logical volume of a moved volume is to be moved back, or "".
func MoveBack(lv *topolvmv1.LogicalVolume) string {
	return lv.Annotations[wellknown.MoveBackAnnotation]
}

// Adopts returns the UID of the target whose logical volume a moved volume has to take over, or "".
func Adopts(lv *topolvmv1.LogicalVolume) string { return lv.Annotations[wellknown.AdoptAnnotation] }

// MovedVolume returns the PersistentVolume (JSON) that is being recreated for a LogicalVolume, or "".
func MovedVolume(lv *topolvmv1.LogicalVolume) string {
	return lv.Annotations[wellknown.MovedVolumeAnnotation]
}

// IsBeingSwitched reports whether the node agent of the target node, or the controller that recreates the
// PersistentVolume, has something left to do for a volume that was moved.
func IsBeingSwitched(lv *topolvmv1.LogicalVolume) bool {
	return Adopts(lv) != "" || MovedVolume(lv) != ""
}

// IsRetired reports whether a LogicalVolume was created for what a moved volume left on its node.
func IsRetired(lv *topolvmv1.LogicalVolume) bool {
	return lv.Annotations[wellknown.RetireAnnotation] != ""
}

// Retired returns the ID of the volume that left its logical volume to a LogicalVolume, and the UID of the VolumeMove.
// It returns an error if one of them is not known.
func Retired(lv *topolvmv1.LogicalVolume) (volume, move string, err error) {
	text := lv.Annotations[wellknown.RetireAnnotation]
	volume, move, _ = strings.Cut(text, "/")
	if volume == "" || move == "" {
		err = fmt.Errorf("annotation %s of LogicalVolume %s is %q, must be VOLUME-ID/UID", wellknown.RetireAnnotation,
			lv.Name, text)
	}
	return volume, move, err
}

// SetRetired has the node agent give the logical volume that a moved volume left on its node to a LogicalVolume.
func SetRetired(lv *topolvmv1.LogicalVolume, volume, move string) {
	set(lv, wellknown.RetireAnnotation, volume+"/"+move)
}
