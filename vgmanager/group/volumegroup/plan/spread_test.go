package plan

import (
	"testing"

	"github.com/lvm-storage/lvm-operator/api/wellknown"
	"github.com/lvm-storage/lvm-operator/internal/volume/view"
	"github.com/lvm-storage/lvm-operator/vgmanager/volume/engine/deviceclass"
)

// TestTheEngineReadsTheTagsOfTheAPI: the engine does not import the API.
func TestTheEngineReadsTheTagsOfTheAPI(t *testing.T) {
	for scope, devices := range map[string]bool{wellknown.SpreadDevice: true, wellknown.SpreadNode: false} {
		for policy, required := range map[string]bool{wellknown.SpreadRequired: true,
			wellknown.SpreadPreferred: false} {
			tag := wellknown.SpreadTagPrefix + view.Spread{Group: "ns/a:b", Scope: scope, Policy: policy}.String()
			want := deviceclass.Spread{Group: "ns/a:b", Devices: devices, Required: required}
			if got := deviceclass.SpreadOf([]string{"lvms.uid=u", tag}); got != want {
				t.Errorf("%s: got %+v, want %+v", tag, got, want)
			}
		}
	}
	for _, tags := range [][]string{nil, {"lvms.spread="}, {"lvms.spread=device:required"},
		{"lvms.spread=device:required:"}, {"lvms.uid=device:required:a/b"}} {
		if got := deviceclass.SpreadOf(tags); got != (deviceclass.Spread{}) {
			t.Errorf("%q: got %+v", tags, got)
		}
	}
}
