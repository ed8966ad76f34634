package volumegroup

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/lvm-storage/lvm-operator/api/v1alpha1"
	"github.com/lvm-storage/lvm-operator/vgmanager/group/volumegroup/plan"
	"github.com/lvm-storage/lvm-operator/vgmanager/group/volumegroup/plan/ownership"
	"github.com/lvm-storage/lvm-operator/vgmanager/group/volumegroup/plan/state"
	"github.com/lvm-storage/lvm-operator/vgmanager/lvm"
	"github.com/lvm-storage/lvm-operator/vgmanager/lvm/lvmtest"
	"github.com/lvm-storage/lvm-operator/vgmanager/volume/engine"
)

// capacityCase is the capacity of a set of disks. The console's pages calculate it before anything is created, and
// are tested with the same values (console-plugin/web/src/model/capacity.test.ts). Sizes are in bytes.
type capacityCase struct {
	Name     string    `json:"name"`
	DisksMiB []int64   `json:"disksMiB"`
	Group    lvm.Bytes `json:"group"`
	// Volumes is the capacity for new volumes: the total, or with redundancy the size of a single one.
	Volumes lvm.Bytes `json:"volumes"`
}

type raidCase struct {
	capacityCase
	Config *v1alpha1.RAIDConfig `json:"config,omitempty"`
}

type thinCase struct {
	capacityCase
	Pool     lvm.Bytes               `json:"pool"`
	Metadata lvm.Bytes               `json:"metadata"`
	Config   v1alpha1.ThinPoolConfig `json:"config"`
}

// capacityCases reads testdata/capacity.json. The values of thin were measured on real LVM, and TestLabCapacity
// verifies them.
func capacityCases(t *testing.T) (raid []raidCase, thin []thinCase) {
	t.Helper()
	content, err := os.ReadFile(filepath.Join("testdata", "capacity.json"))
	if err != nil {
		t.Fatal(err)
	}
	all := struct {
		RAID []raidCase `json:"raid"`
		Thin []thinCase `json:"thin"`
	}{}
	if err := json.Unmarshal(content, &all); err != nil {
		t.Fatal(err)
	}
	return all.RAID, all.Thin
}

// capacityClass returns a device class with the volume group vg1 on this node.
func capacityClass(spec v1alpha1.LVMVolumeGroupSpec) state.Desired {
	return state.Desired{Name: "vg1", Node: nodeName, Cluster: state.Cluster{ID: "c1"}, Spec: spec}
}

// offered publishes the class that the plan for an existing volume group has to an engine, and returns its state.
func offered(t *testing.T, l engine.LVM, d state.Desired) engine.ClassState {
	t.Helper()
	report, err := l.Report(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	p := plan.New(d, state.NodeState{Report: report})
	if p.Action.Kind != state.PublishClass {
		t.Fatalf("got the action %q, want %q: %v", p.Action.Kind, state.PublishClass, p.Problems)
	}
	engine, err := engine.New(l, nil, "")
	if err != nil {
		t.Fatal(err)
	}
	published, _ := p.Action.Target.(state.Publication)
	if err := engine.Publish(published.Class); err != nil {
		t.Fatal(err)
	}
	states, err := engine.States(t.Context())
	if err != nil || len(states) != 1 || states[0].Err != nil {
		t.Fatalf("got %+v, %v", states, err)
	}
	return states[0]
}

func TestCapacityOfDisks(t *testing.T) {
	raid, _ := capacityCases(t)
	for _, c := range raid {
		t.Run(c.Name, func(t *testing.T) {
			fake := lvmtest.New()
			var paths []string
			for i, size := range c.DisksMiB {
				paths = append(paths, fmt.Sprintf("/dev/sd%c", 'a'+i))
				fake.AddDisk(paths[i], lvm.Bytes(size)<<20, uint32(i*16))
			}
			d := capacityClass(v1alpha1.LVMVolumeGroupSpec{RAIDConfig: c.Config})
			group := lvm.VGCreate{Name: d.Name, Devices: paths, Tags: ownership.OwnerTags(d)}
			if err := fake.Apply(t.Context(), group); err != nil {
				t.Fatal(err)
			}
			state := offered(t, fake, d)
			got := capacityCase{Name: c.Name, DisksMiB: c.DisksMiB, Group: lvm.Bytes(state.Size),
				Volumes: lvm.Bytes(state.Capacity)}
			if diff := cmp.Diff(c.capacityCase, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}
