package restore

import (
	"context"
	"sync"

	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/lvm-storage/lvm-operator/api/v1alpha1"
	"github.com/lvm-storage/lvm-operator/vgmanager/group/volumegroup/noderecord"
	"github.com/lvm-storage/lvm-operator/vgmanager/group/volumegroup/plan/state"
	"github.com/lvm-storage/lvm-operator/vgmanager/lvm"
)

// Sequence is the highest change of a volume group that was seen.
type Sequence struct {
	UUID  string `json:"uuid"`
	Seqno uint64 `json:"seqno"`
	// Accepted is the highest change that was seen before an earlier one was accepted. The node status can still have
	// it, or one before it.
	Accepted uint64 `json:"accepted,omitempty"`
}

// Sequences remember the highest change of the volume group of each device class, in a file on the node. The node
// status has it too, for a node whose files were lost.
type Sequences struct {
	Records noderecord.Records[Sequence]
	// mu guards seen and the files: metadata is restored in the background.
	mu sync.Mutex
	// seen has the content of the files that were read or written, by device class.
	seen map[string]Sequence
}

// NewSequences returns the changes that are recorded in a directory.
func NewSequences(dir string) *Sequences {
	return &Sequences{Records: noderecord.New[Sequence](dir, "seqno", "the changes of volume group"),
		seen: map[string]Sequence{}}
}

// Of returns the highest change that was seen Of a volume group, and remembers the present one if it is higher. before
// is the entry of the node status. If a later change cannot be written to the file, this process still remembers it.
func (q *Sequences) Of(ctx context.Context, class string, vg *lvm.VG, before v1alpha1.VGStatus) state.Seen {
	if vg == nil {
		return state.Seen{}
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	last, known := q.seen[class]
	if !known {
		var err error
		if last, err = q.Records.Read(class); err != nil {
			return state.Seen{Err: err}
		}
	}
	if last.UUID != vg.UUID {
		last = Sequence{UUID: vg.UUID}
	}
	// The files of a node can be from an earlier time too: of a snapshot of the whole machine.
	if reported := uint64(max(before.Seqno, 0)); before.UUID == vg.UUID && reported > last.Accepted {
		last.Seqno = max(last.Seqno, reported)
	}
	if present := (Sequence{vg.UUID, max(last.Seqno, vg.Seqno), last.Accepted}); present != q.seen[class] {
		q.seen[class] = present
		if err := q.Records.Write(class, present); err != nil {
			log.FromContext(ctx).Error(err, "cannot record the changes of a volume group", "deviceClass", class)
		}
	}
	return state.Seen{Seqno: q.seen[class].Seqno}
}

// Accept forgets later changes than the present one, also that in the entry of the node status.
func (q *Sequences) Accept(class string, vg *lvm.VG, before v1alpha1.VGStatus) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	present := Sequence{vg.UUID, vg.Seqno, max(q.seen[class].Seqno, q.seen[class].Accepted,
		uint64(max(before.Seqno, 0)))}
	if err := q.Records.Write(class, present); err != nil {
		return err
	}
	q.seen[class] = present
	return nil
}

// Restart forgets the changes of a volume group after its metadata was restored with an approval.
func (q *Sequences) Restart(class, uuid string, before v1alpha1.VGStatus) error {
	return q.Accept(class, &lvm.VG{UUID: uuid}, before)
}

// Forget removes the record of a device class.
func (q *Sequences) Forget(class string) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	delete(q.seen, class)
	return q.Records.Forget(class)
}
