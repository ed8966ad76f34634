package groupsnapshot

import (
	"testing"

	topolvmv1 "github.com/topolvm/topolvm/api/v1"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/lvm-storage/lvm-operator/internal/csi/objects"
	"github.com/lvm-storage/lvm-operator/internal/volume/groupprotocol"
	"github.com/lvm-storage/lvm-operator/internal/volume/service"
	"github.com/lvm-storage/lvm-operator/internal/volume/view"
	"github.com/lvm-storage/lvm-operator/test/memory"
)

func TestAnotherOperatorHasDecided(t *testing.T) {
	api := memory.Builder().Build()
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	get := func(name string) *topolvmv1.LogicalVolume {
		lv := &topolvmv1.LogicalVolume{}
		must(api.Get(t.Context(), client.ObjectKey{Name: name}, lv))
		return lv
	}
	wantCode := func(t *testing.T, what string, err error, code codes.Code) {
		t.Helper()
		if status.Code(err) != code {
			t.Errorf("%s: got %v, want %s", what, err, code)
		}
	}
	source := &topolvmv1.LogicalVolume{ObjectMeta: metav1.ObjectMeta{Name: "pvc-0"},
		Spec: topolvmv1.LogicalVolumeSpec{NodeName: "node1", DeviceClass: "ssd", Size: resource.MustParse("40Mi")}}
	member := NewMember(ID("groupsnapshot-1"), source, "uid-1", "")
	member.UID = "uid-2"
	must(api.Create(t.Context(), member))
	one, err := leadersOf([]*topolvmv1.LogicalVolume{member.DeepCopy()})
	must(err)
	other, err := leadersOf([]*topolvmv1.LogicalVolume{member.DeepCopy()})
	must(err)
	r := &run{Server: New(objects.New(objects.Options{Client: api, Live: api}), &service.Locks{}), group: &group{}}
	requests := []groupprotocol.Request{{Attempt: 1, Phase: groupprotocol.Prepare}, {Attempt: 1,
		Phase: groupprotocol.Suspend}}
	must(r.write(t.Context(), one[0], requests[0]))
	wantCode(t, "the first request", r.write(t.Context(), other[0], requests[0]), codes.Aborted)
	other, err = leadersOf([]*topolvmv1.LogicalVolume{get(member.Name)})
	must(err)
	must(r.write(t.Context(), one[0], requests[1]))
	wantCode(t, "a later request", r.write(t.Context(), other[0], groupprotocol.Retry(requests[0])), codes.Aborted)
	if got, err := view.GroupRequestOf(get(member.Name)); err != nil || got.Request != requests[1] {
		t.Errorf("got %v, %v", got, err)
	}
}
