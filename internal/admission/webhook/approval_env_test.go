//go:build env

package webhook

import (
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// clientOf returns a client of a user who has all permissions.
func clientOf(t *testing.T, user string) client.Client {
	t.Helper()
	config := rest.CopyConfig(testConfig)
	config.Impersonate = rest.ImpersonationConfig{UserName: user, Groups: []string{"system:masters"}}
	c, err := client.New(config, client.Options{Scheme: clientgoscheme.Scheme})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func TestAnApprovalCannotBeForgedOrChanged(t *testing.T) {
	ctx := t.Context()
	ann := clientOf(t, "ann")
	for name, test := range map[string]struct{ by, namespace, fingerprint, want string }{
		"in another name":      {by: "bob", want: `which is "ann"`},
		"in another namespace": {by: "ann", namespace: "elsewhere", want: "must be created in namespace"},
		"in nobody's name":     {by: "", want: "spec.approvedBy"},
		"not a fingerprint":    {by: "ann", fingerprint: "yes", want: "spec.fingerprint"},
	} {
		approval := approvalBy(test.by, testNamespace)
		if test.namespace != "" {
			approval.Namespace = test.namespace
		}
		if test.fingerprint != "" {
			approval.Spec.Fingerprint = test.fingerprint
		}
		if err := ann.Create(ctx, approval); err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: got %v", name, err)
		}
	}
	approval := approvalBy("ann", testNamespace)
	approval.CreationTimestamp = metav1.NewTime(time.Now().Add(-time.Hour))
	if err := ann.Create(ctx, approval); err != nil {
		t.Fatal(err)
	}
	if age := time.Since(approval.CreationTimestamp.Time); age > 10*time.Minute {
		t.Errorf("it claims to be %s old", age)
	}
	changed := approval.DeepCopy()
	changed.Spec.ApprovedBy = "bob"
	if err := ann.Update(ctx, changed); err == nil || !strings.Contains(err.Error(), "an approval cannot be changed") {
		t.Errorf("got %v", err)
	}
	changed = approval.DeepCopy()
	changed.Labels = map[string]string{"a": "b"}
	if err := ann.Update(ctx, changed); err != nil {
		t.Errorf("a label: %v", err)
	}
	if err := ann.Delete(ctx, approval); err != nil {
		t.Error(err)
	}
}
