package lvmcluster

import (
	"fmt"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	lvmv1alpha1 "github.com/lvm-storage/lvm-operator/api/v1alpha1"
	"github.com/lvm-storage/lvm-operator/test/expect"
)

// recorded has the events that were sent.
type recorded []string

func (r *recorded) Eventf(_, _ runtime.Object, eventType, reason, _, note string, args ...any) {
	*r = append(*r, eventType+" "+reason+" "+fmt.Sprintf(note, args...))
}

func TestAnEventSaysThatTheWebhookIsNotCalled(t *testing.T) {
	cluster := &lvmv1alpha1.LVMCluster{ObjectMeta: metav1.ObjectMeta{Namespace: "storage", UID: "u"}}
	for targets, want := range map[string]string{"": "", "a,b": "Warning AdmissionNotChecked the OperatorGroup of " +
		"namespace storage selects the namespaces a,b, "} {
		var sent recorded
		c := New(nil, nil, &sent, Options{OtherTargets: targets})
		for range 2 {
			c.emitNotChecked(cluster)
		}
		if want == "" {
			expect.Slice(t, targets, sent, nil)
			continue
		}
		if len(sent) != 1 || !strings.HasPrefix(sent[0], want) {
			t.Errorf("%q: got %q, want one event %q", targets, sent, want)
		}
	}
}
