package volumegroup

import (
	"context"
	"sync"

	"k8s.io/apimachinery/pkg/api/equality"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/lvm-storage/lvm-operator/api/v1alpha1"
	"github.com/lvm-storage/lvm-operator/vgmanager/group/volumegroup/plan"
	"github.com/lvm-storage/lvm-operator/vgmanager/lvm"
)

// sequence is the highest change of a volume group that was seen.
type sequence struct {
	UUID  string `json:"uuid"`
	Seqno uint64 `json:"seqno"`
	// Accepted is the highest change that was seen before an earlier one was accepted. The node status can still have
	// it, or one before it.
	Accepted uint64 `json:"accepted,omitempty"`
}

// sequences remember the highest change of the volume group of each device class, in a file on the node. The node
// status has it too, for a node whose files were lost.
type sequences struct {
	records records[sequence]
	// mu guards seen and the files: metadata is restored in the background.
	mu sync.Mutex
	// seen has the content of the files that were read or written, by device class.
	seen map[string]sequence
}

func newSequences(dir string) *sequences {
	return &sequences{records: records[sequence]{dir, "seqno", "the changes of volume group"},
		seen: map[string]sequence{}}
}

// of returns the highest change that was seen of a volume group, and remembers the present one if it is higher. before
// is the entry of the node status. If a later change cannot be written to the file, this process still remembers it.
func (q *sequences) of(ctx context.Context, class string, vg *lvm.VG, before v1alpha1.VGStatus) plan.Seen {
	if vg == nil {
		return plan.Seen{}
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	last, known := q.seen[class]
	if !known {
		var err error
		if last, err = q.records.read(class); err != nil {
			return plan.Seen{Err: err}
		}
	}
	if last.UUID != vg.UUID {
		last = sequence{UUID: vg.UUID}
	}
	// The files of a node can be from an earlier time too: of a snapshot of the whole machine.
	if reported := uint64(max(before.Seqno, 0)); before.UUID == vg.UUID && reported > last.Accepted {
		last.Seqno = max(last.Seqno, reported)
	}
	if present := (sequence{vg.UUID, max(last.Seqno, vg.Seqno), last.Accepted}); present != q.seen[class] {
		q.seen[class] = present
		if err := q.records.write(class, present); err != nil {
			log.FromContext(ctx).Error(err, "cannot record the changes of a volume group", "deviceClass", class)
		}
	}
	return plan.Seen{Seqno: q.seen[class].Seqno}
}

// accept forgets later changes than the present one, also that in the entry of the node status.
func (q *sequences) accept(class string, vg *lvm.VG, before v1alpha1.VGStatus) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	present := sequence{vg.UUID, vg.Seqno, max(q.seen[class].Seqno, q.seen[class].Accepted,
		uint64(max(before.Seqno, 0)))}
	if err := q.records.write(class, present); err != nil {
		return err
	}
	q.seen[class] = present
	return nil
}

// restart forgets the changes of a volume group after its metadata was restored with an approval.
func (q *sequences) restart(class, uuid string, before v1alpha1.VGStatus) error {
	return q.accept(class, &lvm.VG{UUID: uuid}, before)
}

// forget removes the record of a device class.
func (q *sequences) forget(class string) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	delete(q.seen, class)
	return q.records.forget(class)
}

// statusSteps is by how many changes the node status can be behind, so that a new volume does not cost an update of the
// status. The file on the node is exact.
const statusSteps = 100

// withoutSmallSteps returns the new entry, or the previous one if only the number of changes differs, by little.
func withoutSmallSteps(before, after v1alpha1.VGStatus) v1alpha1.VGStatus {
	if before.UUID != after.UUID || after.Seqno <= before.Seqno || after.Seqno-before.Seqno >= statusSteps {
		return after
	}
	same := after
	if same.Seqno = before.Seqno; equality.Semantic.DeepEqual(before, same) {
		return same
	}
	return after
}
