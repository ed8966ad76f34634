//go:build env

package cli

import (
	"bytes"
	"context"
	"errors"
	"path/filepath"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"

	"github.com/lvm-storage/lvm-operator/api/v1alpha1"
	"github.com/lvm-storage/lvm-operator/cli/clitest"
	"github.com/lvm-storage/lvm-operator/cli/session"
	"github.com/lvm-storage/lvm-operator/test/env"
)

var server *env.Env

func TestMain(m *testing.M) { env.Main(m, func(e *env.Env) { server = e }) }

// kubeconfig writes a kubeconfig for a client of an API server, and returns its path.
func kubeconfig(t *testing.T, config *rest.Config) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "kubeconfig")
	written := clientcmdapi.Config{CurrentContext: "test",
		Clusters: map[string]*clientcmdapi.Cluster{"test": {Server: config.Host,
			CertificateAuthorityData: config.CAData}},
		AuthInfos: map[string]*clientcmdapi.AuthInfo{"test": {ClientCertificateData: config.CertData,
			ClientKeyData: config.KeyData, Token: config.BearerToken}},
		// The namespace of the context is not the one of -n.
		Contexts: map[string]*clientcmdapi.Context{"test": {Cluster: "test", AuthInfo: "test", Namespace: "default"}}}
	if err := clientcmd.WriteToFile(written, file); err != nil {
		t.Fatal(err)
	}
	return file
}

// runReal runs the program's function with a kubeconfig.
func runReal(t *testing.T, file string, args ...string) clitest.Result {
	t.Helper()
	var out, errOut bytes.Buffer
	code := Run(t.Context(), append([]string{"--kubeconfig", file}, args...), strings.NewReader(""), &out, &errOut)
	t.Logf("$ kubectl lvms %s   # exit code %d\n%s%s", strings.Join(args, " "), code, out.String(), errOut.String())
	return clitest.Result{Code: code, Out: out.String(), Err: errOut.String()}
}

// create creates an object with its status.
func create(t *testing.T, object client.Object) {
	t.Helper()
	withStatus, _ := object.DeepCopyObject().(client.Object)
	if err := server.Client.Create(t.Context(), object); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = client.IgnoreNotFound(server.Client.Delete(context.Background(), object))
	})
	withStatus.SetResourceVersion(object.GetResourceVersion())
	withStatus.SetUID(object.GetUID())
	if cluster, ok := withStatus.(*v1alpha1.LVMCluster); ok {
		cluster.Status.ObservedGeneration = object.GetGeneration()
	}
	if node, ok := withStatus.(*v1alpha1.LVMVolumeGroupNodeStatus); ok {
		node.Status.LastObserved = &metav1.Time{Time: time.Now()}
	}
	if err := server.Client.Status().Update(t.Context(), withStatus); err != nil {
		t.Fatal(err)
	}
}

func TestTheCommandsReadARealAPIServer(t *testing.T) {
	file := kubeconfig(t, server.Config)
	if got := runReal(t, file, "status"); got.Code != session.ExitProblems || !strings.Contains(got.Out, "NoLVMCluster") {
		t.Error("there is no LVMCluster")
	}
	const namespace = "storage"
	if err := server.Client.Create(t.Context(),
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}}); err != nil {
		t.Fatal(err)
	}
	for _, object := range clitest.BrokenObjects(namespace) {
		create(t, object)
	}
	if got := runReal(t, file, "status"); got.Code != session.ExitProblems ||
		!strings.Contains(got.Out, "Not healthy: 9 problems\nLVMCluster storage/lvmcluster: Degraded") {
		t.Error("status")
	}
	for args, want := range map[string]string{
		"devices":                   "worker-1 /dev/sda Excluded 64Gi disk <none> IsOSDisk,HasPartitions",
		"devices --state Available": "worker-1 /dev/sdc Available 1.5Gi disk <none> <none>",
		"classes":                   "vg1 worker-1 Ready 100Gi 10Gi 45% 3%",
		"volumes":                   "<none> worker-2 <none> 20Gi Ready",
		"volumes --device pv-d --claim shop/data-2": "shop/data-2 worker-2 vg1 20Gi Ready",
	} {
		got := runReal(t, file, strings.Fields(args)...)
		if rows := clitest.Lines(got.Out); got.Code != 0 || len(rows) < 2 || rows[1] != want {
			t.Errorf("%s: got %q", args, rows)
		}
	}
	for _, format := range []string{"wide", "yaml", "json"} {
		if got := runReal(t, file, "classes", "--node", "worker-1", "-o", format); got.Code != 0 {
			t.Errorf("-o %s", format)
		}
	}
	got := runReal(t, file, "__complete", "devices", "--node", "")
	if !strings.HasPrefix(got.Out, "worker-1\nworker-2\n") {
		t.Error("completion")
	}
}

func TestAUserWithoutPermissions(t *testing.T) {
	file := kubeconfig(t, server.Config)
	for command, resource := range map[string]string{"status": "lvmclusters", "devices": "lvmvolumegroupnodestatuses",
		"volumes": "logicalvolumes"} {
		got := runReal(t, file, command, "--as", "nobody")
		if got.Code != session.ExitError || strings.Contains(got.Out, "Healthy") ||
			!strings.Contains(got.Err, "you need the permission for the verb list on the resource "+resource) {
			t.Errorf("%s: got %+v", command, got)
		}
	}
	config := rest.CopyConfig(server.Config)
	config.CertData = nil
	config.KeyData = nil
	config.BearerToken = "not-valid"
	got := runReal(t, kubeconfig(t, config), "devices")
	if got.Code != session.ExitError || got.Out != "" || !strings.Contains(got.Err, "does not accept your credentials") {
		t.Errorf("wrong credentials: got %+v", got)
	}
}

func TestWithoutTheAPIsOfTheProduct(t *testing.T) {
	bare := &envtest.Environment{}
	config, err := bare.Start()
	if err != nil {
		t.Fatal(errors.Join(err, bare.Stop()))
	}
	t.Cleanup(func() { _ = bare.Stop() })
	file := kubeconfig(t, config)
	for _, command := range []string{"status", "devices", "classes", "volumes"} {
		got := runReal(t, file, command)
		if got.Code != session.ExitError || got.Err != "error: "+session.ErrNotInstalled.Error()+"\n" {
			t.Errorf("%s: got %+v", command, got)
		}
	}
}
