package webhook

import (
	"context"
	"os"
	"slices"
	"strings"
	"testing"

	admissionv1 "k8s.io/api/admission/v1"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"
	"sigs.k8s.io/yaml"

	lvmv1alpha1 "github.com/lvm-storage/lvm-operator/api/v1alpha1"
)

func approvalBy(user, namespace string) *lvmv1alpha1.LVMDeviceApproval {
	return &lvmv1alpha1.LVMDeviceApproval{ObjectMeta: metav1.ObjectMeta{Name: "a", Namespace: namespace},
		Spec: lvmv1alpha1.LVMDeviceApprovalSpec{NodeName: "n1", DeviceClassName: "vg1", Device: "/dev/sdb",
			Fingerprint: "v1-" + strings.Repeat("0", 32), ApprovedBy: user}}
}

func TestAnApprovalHasTheNameOfItsUser(t *testing.T) {
	v := &ApprovalValidator{Namespace: "ours"}
	as := func(user string) context.Context {
		request := admissionv1.AdmissionRequest{UserInfo: authenticationv1.UserInfo{Username: user}}
		return admission.NewContextWithRequest(t.Context(), admission.Request{AdmissionRequest: request})
	}
	for name, test := range map[string]struct {
		ctx           context.Context
		by, namespace string
		want          string
	}{
		"own name":          {as("ann"), "ann", "ours", ""},
		"other name":        {as("bob"), "ann", "ours", `which is "bob"`},
		"no name":           {as(""), "ann", "ours", `which is ""`},
		"another namespace": {as("ann"), "ann", "theirs", `namespace "ours"`},
		"unknown request":   {t.Context(), "ann", "ours", "who creates"},
	} {
		_, err := v.ValidateCreate(test.ctx, approvalBy(test.by, test.namespace))
		refused := err != nil && test.want != "" && strings.Contains(err.Error(), test.want)
		if (test.want != "" || err != nil) && !refused {
			t.Errorf("%s: got %v", name, err)
		}
	}
}

// Without the webhook, nobody would know who approved a device: so nothing can be approved then.
func TestNoApprovalWithoutTheWebhook(t *testing.T) {
	text, err := os.ReadFile("../../../config/webhook/manifests.yaml")
	if err != nil {
		t.Fatal(err)
	}
	configuration := &admissionregistrationv1.ValidatingWebhookConfiguration{}
	if err := yaml.UnmarshalStrict(text, configuration); err != nil {
		t.Fatal(err)
	}
	at := slices.IndexFunc(configuration.Webhooks,
		func(w admissionregistrationv1.ValidatingWebhook) bool { return w.Name == "vlvmdeviceapproval.kb.io" })
	if at < 0 || *configuration.Webhooks[at].FailurePolicy != admissionregistrationv1.Fail {
		t.Errorf("got %+v", configuration.Webhooks)
	}
}
