//go:build env

package lvmcluster

import (
	"bytes"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/lvm-storage/lvm-operator/controllers/lvmcluster/internal/fixture"
	"github.com/lvm-storage/lvm-operator/controllers/lvmcluster/operand"
)

// kubeconfig writes the credentials of the test's administrator.
func kubeconfig(t *testing.T) string {
	t.Helper()
	config := clientcmdapi.NewConfig()
	config.Clusters["c"] = &clientcmdapi.Cluster{Server: server.Config.Host,
		CertificateAuthorityData: server.Config.CAData}
	config.AuthInfos["u"] = &clientcmdapi.AuthInfo{ClientCertificateData: server.Config.CertData,
		ClientKeyData: server.Config.KeyData}
	config.Contexts["x"] = &clientcmdapi.Context{Cluster: "c", AuthInfo: "u"}
	config.CurrentContext = "x"
	file := filepath.Join(t.TempDir(), "kubeconfig")
	if err := clientcmd.WriteToFile(*config, file); err != nil {
		t.Fatal(err)
	}
	return file
}

// The controller of kube-controller-manager that checks policies against the types of the cluster has nothing to say
// about those of the installation: otherwise no agent would be started.
func TestKubeControllerManagerAcceptsThePolicies(t *testing.T) {
	program := filepath.Join(os.Getenv("KUBEBUILDER_ASSETS"), "kube-controller-manager")
	w := newWorld(t, fixture.Thin("vg1"))
	// They lose their status, as when the operator has just created them.
	for _, object := range []string{"lvms-vg-manager-logicalvolumes", "lvms-vg-manager-nodestatuses",
		"lvms-vg-manager-recoveries", "lvms-vg-manager-nodes", "lvms-operator-pods", "lvms-logicalvolume-users"} {
		policy := &admissionv1.ValidatingAdmissionPolicy{}
		w.must(w.get(policy, object))
		w.must(w.api.Delete(t.Context(), policy))
	}
	w.must(operand.NewInstallationPolicies(w.api, w.api, w.cluster.Namespace).Apply(t.Context()))
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	output := &bytes.Buffer{}
	manager := exec.CommandContext(ctx, program, "--kubeconfig", kubeconfig(t), "--leader-elect=false",
		"--secure-port=0", "--controllers=validatingadmissionpolicy-status-controller")
	manager.Stdout = output
	manager.Stderr = output
	w.must(manager.Start())
	ended := make(chan error, 1)
	go func() { ended <- manager.Wait() }()
	defer func() {
		cancel()
		<-ended
		if t.Failed() {
			t.Log(output)
		}
	}()
	policies := &admissionv1.ValidatingAdmissionPolicyList{}
	w.soon(func() bool {
		w.must(w.api.List(t.Context(), policies))
		for _, policy := range policies.Items {
			if strings.HasPrefix(policy.Name, "lvms-") && (policy.Status.TypeChecking == nil ||
				policy.Status.ObservedGeneration != policy.Generation) {
				return false
			}
		}
		return len(policies.Items) >= 7
	}, "the policies were not checked")
	for _, policy := range policies.Items {
		if policy.Status.TypeChecking == nil {
			continue
		}
		for _, warning := range policy.Status.TypeChecking.ExpressionWarnings {
			t.Errorf("%s: %s: %s", policy.Name, warning.FieldRef, warning.Warning)
		}
	}
	// The next test creates an LVMCluster in another namespace.
	for _, policy := range policies.Items {
		w.must(w.api.Delete(t.Context(), &policy))
	}
	w.soon(func() bool {
		other := fixture.Cluster(fixture.Thin("vg1"))
		other.UID = ""
		other.Name = "elsewhere"
		other.Namespace = "default"
		return w.api.Create(t.Context(), other, client.DryRunAll) == nil
	}, "the policy is in force after it was deleted")
}
