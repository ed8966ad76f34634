//go:build lab

package volumegroup

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/lvm-storage/lvm-operator/api/v1alpha1"
	"github.com/lvm-storage/lvm-operator/test/lane"
	"github.com/lvm-storage/lvm-operator/test/nodelvm"
)

// disaster is the loss of devices for good.
type disaster struct {
	name string
	spec v1alpha1.LVMVolumeGroupSpec
	// disks is the number of devices of the class, and pulled are those that are lost.
	disks  int
	pulled []int
	// volumes are created in this order, with their sizes in MiB. lost are those that cannot be read afterwards.
	volumes map[string]int64
	lost    []string
	// spares are attached and selected after the loss.
	spares int
}

var disasters = []disaster{
	{name: "thin", spec: thinOf(90), disks: 2, pulled: []int{1}, volumes: map[string]int64{"a": 48, "b": 64},
		lost: []string{"a", "b"}},
	{name: "thick", spec: v1alpha1.LVMVolumeGroupSpec{Default: true}, disks: 2, pulled: []int{1},
		volumes: map[string]int64{"a": 100, "b": 120}, lost: []string{"b"}},
	{name: "raid1", spec: v1alpha1.LVMVolumeGroupSpec{RAIDConfig: &v1alpha1.RAIDConfig{Type: v1alpha1.RAIDType1}},
		disks: 2, pulled: []int{1}, volumes: map[string]int64{"a": 48, "b": 48}, spares: 1},
	{name: "raid5", spec: v1alpha1.LVMVolumeGroupSpec{RAIDConfig: &v1alpha1.RAIDConfig{Type: v1alpha1.RAIDType5}},
		disks: 3, pulled: []int{2}, volumes: map[string]int64{"a": 48, "b": 48}, spares: 1},
	{name: "thin, replaced", spec: thinOf(90), disks: 2, pulled: []int{0}, volumes: map[string]int64{"a": 48, "b": 64},
		lost: []string{"a", "b"}, spares: 1},
	{name: "thick, replaced", spec: v1alpha1.LVMVolumeGroupSpec{Default: true}, disks: 2, pulled: []int{1},
		volumes: map[string]int64{"a": 100, "b": 120}, lost: []string{"b"}, spares: 1},
	{name: "raid5 without two devices",
		spec:  v1alpha1.LVMVolumeGroupSpec{RAIDConfig: &v1alpha1.RAIDConfig{Type: v1alpha1.RAIDType5}},
		disks: 3, pulled: []int{1, 2}, volumes: map[string]int64{"a": 48, "b": 48}, lost: []string{"a", "b"}, spares: 2},
	{name: "all devices", spec: v1alpha1.LVMVolumeGroupSpec{Default: true}, disks: 2, pulled: []int{0, 1},
		volumes: map[string]int64{"a": 48}, spares: 1},
}

// TestSceneLostDevicesAreRemovedWithApproval loses devices for good. The plan must list exactly what is lost. The agent
// is killed after each command of the recovery.
func TestSceneLostDevicesAreRemovedWithApproval(t *testing.T) { loseDevices(t, "after") }

// TestSceneLostDevicesAreRemovedDespiteDeaths is the same with an agent that is killed in the middle of each command.
func TestSceneLostDevicesAreRemovedDespiteDeaths(t *testing.T) { loseDevices(t, "in the middle of") }

func loseDevices(t *testing.T, mode string) {
	for _, d := range lane.Cases(disasters...) {
		t.Run(fmt.Sprintf("%s, killed %s commands", d.name, mode), func(t *testing.T) { d.run(t, mode) })
	}
}

func (d disaster) run(t *testing.T, mode string) {
	s := newScene(t, func(s *scene) v1alpha1.LVMVolumeGroupSpec {
		spec := d.spec
		spec.DeviceSelector = byPath(s.disks[:d.disks]...)
		return spec
	})
	s.ready()
	sums := map[string]string{}
	for _, name := range []string{"a", "b"} {
		if size := d.volumes[name]; size > 0 {
			sums[name] = s.fill(s.volume(name, size<<20), size<<20)
		}
	}
	if d.spec.RAIDConfig != nil {
		s.inSync()
	}
	s.disaster()
	for _, at := range d.pulled {
		s.pull(s.disks[at])
	}
	s.says(v1alpha1.ConditionDevicesHealthy, v1alpha1.ReasonDeviceMissing)
	s.named()
	r := s.plan(v1alpha1.RecoveryRemoveLostDevices)
	s.approve("wrong")
	for range 3 {
		s.agent.Wake()
		_, err := s.reconcile()
		s.ok(err)
	}
	if got := s.recovery(); got.Status.Phase != v1alpha1.RecoveryAwaitingApproval || got.Status.StartTime != nil {
		t.Fatalf("without an approval: %+v", got.Status)
	}
	var planned []string
	for _, v := range r.Status.Plan.LostVolumes {
		planned = append(planned, v.Name)
	}
	slices.Sort(planned)
	if !slices.Equal(planned, d.lost) || len(r.Status.Plan.Devices) != len(d.pulled) {
		t.Fatalf("the plan has %+v, want the volumes %v", r.Status.Plan, d.lost)
	}
	s.change(func(spec *v1alpha1.LVMVolumeGroupSpec) {
		spec.DeviceSelector = byPath(s.disks[:d.disks+d.spares]...)
		for _, at := range d.pulled {
			spec.DeviceSelector.Paths = slices.DeleteFunc(spec.DeviceSelector.Paths,
				func(p v1alpha1.DevicePath) bool { return string(p) == s.disks[at] })
		}
	})
	s.approve(r.Status.Plan.ID)
	killed := s.recover(mode, secondCommand)
	t.Logf("killed %s %v", mode, killed)
	if len(killed) == 0 {
		t.Error("the agent was never killed: this shows nothing")
	}
	e := s.converge("usable again", func(e v1alpha1.VGStatus) bool {
		return isReady(e) && (d.spec.RAIDConfig == nil || e.RAIDStatus.Status == v1alpha1.RAIDHealthy)
	})
	if len(e.Devices) != d.disks-len(d.pulled)+d.spares {
		t.Errorf("got the devices %v", e.Devices)
	}
	for name := range d.volumes {
		_, err := nodelvm.Command("/usr/sbin/lvs", "vg1/"+name).CombinedOutput()
		lost := slices.Contains(d.lost, name) || len(d.pulled) == d.disks
		if (err != nil) != lost {
			t.Errorf("volume %s: lost %t, want %t", name, err != nil, lost)
		}
		if !lost {
			s.unchanged("/dev/vg1/"+name, sums[name])
		}
		// The claim of a lost volume can be deleted.
		err = s.engine.RemoveLV(s.Context(), "vg1", name)
		if err != nil && !strings.Contains(err.Error(), "not found") {
			t.Errorf("delete %s: %v", name, err)
		}
	}
	s.fill(s.volume("new", 32<<20), 32<<20)
	s.discard()
}

// plan requests a recovery, and returns it when it has a plan.
func (s *scene) plan(action v1alpha1.RecoveryAction) *v1alpha1.LVMRecovery {
	s.Helper()
	s.request(action)
	last := ""
	s.converge("a plan", func(v1alpha1.VGStatus) bool {
		status := s.recovery().Status
		if status.Message != last {
			last = status.Message
			s.Logf("%s: %s", status.Phase, last)
		}
		if strings.Contains(last, "install thin-provisioning-tools") {
			s.installThinTools()
		}
		return status.Phase == v1alpha1.RecoveryAwaitingApproval
	})
	return s.recovery()
}

func (s *scene) request(action v1alpha1.RecoveryAction) {
	s.Helper()
	s.ok(s.client.Create(s.Context(), &v1alpha1.LVMRecovery{
		ObjectMeta: metav1.ObjectMeta{Name: "lost", Namespace: namespace},
		Spec:       v1alpha1.LVMRecoverySpec{NodeName: nodeName, DeviceClassName: "vg1", Action: action}}))
}

func (s *scene) recovery() *v1alpha1.LVMRecovery {
	s.Helper()
	r := &v1alpha1.LVMRecovery{}
	s.ok(s.client.Get(s.Context(), client.ObjectKey{Namespace: namespace, Name: "lost"}, r))
	return r
}

func (s *scene) approve(plan string) {
	s.Helper()
	r := s.recovery()
	r.Spec.ApprovedPlan = plan
	s.ok(s.client.Update(s.Context(), r))
	s.incident.approved = time.Now()
}

// secondCommand has the agent killed at its second command. After some kills, it is a later one: a command that takes
// longer than the time after which it is killed would never end.
func secondCommand(kills int) int { return 2 + kills/4 }

// recover reconciles until the recovery has ended. It kills the first agent at its first changing command, and the
// agent after n kills at the command next(n). It returns the commands.
func (s *scene) recover(mode string, next func(n int) int) []string {
	s.Helper()
	var killed []string
	c := &crashingRunner{real: s.runner, next: 1, mode: mode}
	s.bootOver(c)
	last := ""
	s.convergeIn(15*time.Minute, "recovered", func(v1alpha1.VGStatus) bool {
		if status := s.recovery().Status; status.Message != last {
			last = status.Message
			s.Logf("%s: %s", status.Phase, last)
		}
		// Lost devices need another approval if no agent has seen the first one: a disk could have returned meanwhile.
		if status := s.recovery().Status; strings.Contains(status.Message, "is not the current one") {
			s.approve(status.Plan.ID)
		}
		if dead, said := c.isDead(); dead {
			killed = append(killed, said...)
			c = &crashingRunner{real: s.runner, next: next(len(killed)), mode: mode}
			s.bootOver(c)
		}
		return s.recovery().Status.Phase == v1alpha1.RecoverySucceeded
	})
	s.boot()
	s.recovered(len(killed))
	return killed
}
