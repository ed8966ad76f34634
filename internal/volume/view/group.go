package view

import (
	"encoding/json"
	"fmt"
	"slices"

	topolvmv1 "github.com/topolvm/topolvm/api/v1"

	"github.com/lvm-storage/lvm-operator/api/wellknown"
	"github.com/lvm-storage/lvm-operator/internal/volume/groupprotocol"
)

// GroupRequest is what the CSI controller requests of a node for a group snapshot.
type GroupRequest struct {
	groupprotocol.Request
	// Members are the names of the LogicalVolumes of the group on the node.
	Members []string `json:"members"`
}

// GroupRequestOf returns the request in the annotation of a LogicalVolume, or nil if it has none.
func GroupRequestOf(lv *topolvmv1.LogicalVolume) (*GroupRequest, error) {
	text, has := lv.Annotations[wellknown.GroupRequestAnnotation]
	if !has {
		return nil, nil
	}
	request := &GroupRequest{}
	if err := json.Unmarshal([]byte(text), request); err != nil {
		return nil, fmt.Errorf("annotation %s of LogicalVolume %s: %w", wellknown.GroupRequestAnnotation, lv.Name, err)
	}
	if n := len(request.Members); n > groupprotocol.MaxVolumes || !slices.Contains(request.Members, lv.Name) {
		return nil, fmt.Errorf("annotation %s of LogicalVolume %s names %d LogicalVolumes, want at most %d with this "+
			"one", wellknown.GroupRequestAnnotation, lv.Name, n, groupprotocol.MaxVolumes)
	}
	return request, nil
}

// GroupStateOf returns the state in the annotation of a LogicalVolume, or the zero value if it has none.
func GroupStateOf(lv *topolvmv1.LogicalVolume) (groupprotocol.State, error) {
	state := groupprotocol.State{}
	text, has := lv.Annotations[wellknown.GroupStateAnnotation]
	if !has {
		return state, nil
	}
	if err := json.Unmarshal([]byte(text), &state); err != nil {
		return state, fmt.Errorf("annotation %s of LogicalVolume %s: %w", wellknown.GroupStateAnnotation, lv.Name, err)
	}
	return state, nil
}

// HasGroupRequest reports whether a LogicalVolume has the request for the group snapshot of its node.
func HasGroupRequest(lv *topolvmv1.LogicalVolume) bool {
	return lv.Annotations[wellknown.GroupRequestAnnotation] != ""
}

// GroupPending returns the ID of the group snapshot of a LogicalVolume, or "" if it belongs to none that is incomplete.
func GroupPending(lv *topolvmv1.LogicalVolume) string {
	return lv.Annotations[wellknown.GroupPendingAnnotation]
}

// GroupSource returns the ID of the volume of which a LogicalVolume is the snapshot in a group, or "".
func GroupSource(lv *topolvmv1.LogicalVolume) string {
	return lv.Annotations[wellknown.GroupSourceAnnotation]
}
