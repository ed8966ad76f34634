package plan

import (
	"testing"

	"github.com/lvm-storage/lvm-operator/api/v1alpha1"
	"github.com/lvm-storage/lvm-operator/vgmanager/disk/device"
	"github.com/lvm-storage/lvm-operator/vgmanager/group/volumegroup/plan/state"
	"github.com/lvm-storage/lvm-operator/vgmanager/lvm"
)

func TestPlanWithGroupsOfOneName(t *testing.T) {
	named := func(uuid string, tags ...string) lvm.VG {
		return edit(group("c"), func(vg *lvm.VG) {
			vg.UUID = uuid
			vg.Tags = tags
		})
	}
	ours := group("b")
	other := named("other", "lvms")
	before := v1alpha1.VGStatus{UUID: "vg",
		PhysicalVolumes: []v1alpha1.PhysicalVolumeStatus{{UUID: "pv-b", Name: "/dev/sdb"}}}
	thick := v1alpha1.LVMVolumeGroupSpec{}
	adopting := v1alpha1.LVMVolumeGroupSpec{}
	adopting.Adopt = []v1alpha1.VolumeGroupAdoption{{Node: "n1", VolumeGroupUUID: "other"}}
	listing := v1alpha1.LVMVolumeGroupSpec{AdoptClusters: []v1alpha1.ClusterIdentity{"c9"}}
	look := func(before v1alpha1.VGStatus, vgs ...lvm.VG) state.NodeState {
		return state.NodeState{Report: report(vgs...), Devices: []device.Device{disk("b"), disk("c")}, Before: before}
	}
	published := look(v1alpha1.VGStatus{}, other)
	published.Class = thickDone
	tests := map[string]struct {
		spec                   v1alpha1.LVMVolumeGroupSpec
		seen                   state.NodeState
		want, leaving, removal string
		lost                   bool
		says                   []string
	}{
		"both, ours is known": {
			spec: thick, seen: look(before, other, ours), want: "Degraded", leaving: "Degraded", removal: "Degraded",
			says: []string{"2 volume groups", "vgrename", "vg (on /dev/sdb", "which belongs to the device class",
				"other (on /dev/sdc"},
		},
		"both, in the other order": {spec: thick, seen: look(before, ours, other), want: "Degraded",
			leaving: "Degraded", removal: "Degraded"},
		"both, none is known": {
			spec: thick, seen: look(v1alpha1.VGStatus{}, other, ours), want: "Degraded", leaving: "Degraded",
			removal: "Degraded", lost: true,
		},
		"both, one is another cluster's": {
			spec: thick, seen: look(before, named("other", "lvms", "lvms.cluster=c9"), ours), want: "Degraded",
			leaving: "Degraded", removal: "Degraded",
		},
		"the other alone": {
			spec: thick, seen: look(before, other), want: "Degraded", leaving: "Degraded",
			removal: "finished", lost: true,
			says: []string{"volume group vg1 (vg) of the device class is missing on node n1", "other (on /dev/sdc",
				"adopt: [{node: n1, volumeGroupUUID: other}]"},
		},
		"the other alone, known by the published class": {
			spec: thick, seen: published, want: "Degraded", leaving: "Degraded",
			removal: "Progressing WithdrawClass", lost: true,
		},
		"the other alone, of another cluster": {
			spec: thick, seen: look(before, named("other", "lvms", "lvms.cluster=c9")), want: "Failed", lost: true,
			says: []string{"OtherClusterVG"},
		},
		"the other alone, of a listed cluster": {
			spec: listing, seen: look(before, named("other", "lvms", "lvms.cluster=c9", "lvms.class=vg1",
				"lvms.node=n1")), want: "Degraded", leaving: "Degraded", removal: "finished", lost: true,
			says: []string{"is missing on node n1", "adopt: [{node: n1, volumeGroupUUID: other}]"},
		},
		"the other is adopted": {spec: adopting, seen: look(before, other), want: "Progressing TagVolumeGroup"},
		"the first that is seen": {spec: thick, seen: look(v1alpha1.VGStatus{}, ours),
			want: "Progressing PublishClass"},
		"the one that is known": {spec: thick, seen: look(before, ours), want: "Progressing PublishClass"},
		"one of another name, only": {spec: thick,
			seen: look(before, ours, edit(other, func(vg *lvm.VG) { vg.Name = "x" })),
			want: "Progressing PublishClass"},
	}
	for name, tt := range tests {
		d := testDesired(tt.spec)
		if tt.leaving != "" {
			tt.says = append(tt.says, "vg1")
		}
		p := New(d, tt.seen)
		checkPlan(t, name, p, tt.want, tt.says)
		if p.Lost != tt.lost {
			t.Errorf("%s: what was known is kept: %t", name, p.Lost)
		}
		if tt.leaving != "" {
			d.Leaving = true
			checkPlan(t, name+", leaving", New(d, tt.seen), tt.leaving, []string{"vg1"})
			d.Leaving = false
		}
		if tt.removal != "" {
			d.Deleting = true
			if got := summary(New(d, tt.seen)); got != tt.removal {
				t.Errorf("%s, deleting: got %q, want %q", name, got, tt.removal)
			}
		}
	}
}
