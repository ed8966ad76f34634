// Package env starts a real kube-apiserver and etcd for tests, with the product's CRDs. The programs are in the
// directory KUBEBUILDER_ASSETS, which `make test-long ITEMS=env` sets to the lab's programs.
package env

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"testing"
	"time"

	groupsnapshotv1 "github.com/kubernetes-csi/external-snapshotter/client/v8/apis/volumegroupsnapshot/v1"
	snapshotv1 "github.com/kubernetes-csi/external-snapshotter/client/v8/apis/volumesnapshot/v1"
	earlierv1 "github.com/topolvm/topolvm/api/legacy/v1"
	topolvmv1 "github.com/topolvm/topolvm/api/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/client-go/discovery"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"

	lvmv1alpha1 "github.com/lvm-storage/lvm-operator/api/v1alpha1"
)

// Namespace is the namespace of the operator in tests.
const Namespace = "openshift-lvm-storage"

// WatchCache is the environment variable that turns on the watch cache of the API server. Without it, a list is read
// from etcd at once; with it, a list after a write to another kind waits up to 100 ms until the cache is known to be up
// to date. Clusters have the cache: `make test-long ITEMS=env/1.30` turns it on.
const WatchCache = "LVMS_WATCH_CACHE"

// Patience is how long a test waits for what the API server or a controller does soon. It only ends a test that fails.
const Patience = 5 * time.Minute

// Env is a running API server with the product's CRDs.
type Env struct {
	Config *rest.Config
	Client client.Client
	server *envtest.Environment

	mu sync.Mutex
	// bound has the files of roles, each with a namespace, whose permissions are in force.
	bound map[string]bool
}

// Start starts the API server, installs the CRDs of config/crd and of additional directories or files, and creates the
// operator's namespace. It fails if KUBEBUILDER_ASSETS is not set.
func Start(crdPaths ...string) (*Env, error) {
	if os.Getenv("KUBEBUILDER_ASSETS") == "" {
		return nil,
			errors.New(
				"KUBEBUILDER_ASSETS is not set: run `make test-long ITEMS=env`, which builds etcd and kube-apiserver",
			)
	}
	utilruntime.Must(lvmv1alpha1.AddToScheme(clientgoscheme.Scheme))
	utilruntime.Must(topolvmv1.AddToScheme(clientgoscheme.Scheme))
	utilruntime.Must(earlierv1.AddToScheme(clientgoscheme.Scheme))
	utilruntime.Must(snapshotv1.AddToScheme(clientgoscheme.Scheme))
	utilruntime.Must(groupsnapshotv1.AddToScheme(clientgoscheme.Scheme))
	repository, err := root()
	if err != nil {
		return nil, err
	}
	server := &envtest.Environment{
		CRDDirectoryPaths:     append([]string{filepath.Join(repository, "config", "crd")}, crdPaths...),
		ErrorIfCRDPathMissing: true,
		// The defaults are 20 s and 10 s, which a machine that also runs a lab exceeds.
		ControlPlaneStartTimeout: Patience,
		ControlPlaneStopTimeout:  Patience,
		CRDInstallOptions:        envtest.CRDInstallOptions{MaxTime: Patience},
	}
	server.ControlPlane.GetAPIServer().
		Configure().
		Set("watch-cache", strconv.FormatBool(os.Getenv(WatchCache) == "true"))
	// The data of a test does not have to survive a power failure.
	server.ControlPlane.Etcd = &envtest.Etcd{}
	server.ControlPlane.Etcd.Configure().Set("unsafe-no-fsync", "true")
	config, err := server.Start()
	if err != nil {
		return nil, errors.Join(fmt.Errorf("start the API server: %w", err), server.Stop())
	}
	e := &Env{Config: config, server: server}
	if e.Client, err = client.New(config, client.Options{Scheme: clientgoscheme.Scheme}); err != nil {
		return nil, errors.Join(err, e.Stop())
	}
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: Namespace}}
	if err := e.Client.Create(context.Background(), namespace); err != nil {
		return nil, errors.Join(err, e.Stop())
	}
	return e, nil
}

// Minor returns the minor version of the API server: 30 of Kubernetes 1.30.
func (e *Env) Minor() (int, error) {
	c, err := discovery.NewDiscoveryClientForConfig(e.Config)
	if err != nil {
		return 0, err
	}
	version, err := c.ServerVersion()
	if err != nil {
		return 0, err
	}
	return strconv.Atoi(version.Minor)
}

// Kubeconfig returns the kubeconfig file of an administrator.
func (e *Env) Kubeconfig() []byte { return e.server.KubeConfig }

// Stop ends the API server and etcd.
func (e *Env) Stop() error { return e.server.Stop() }

// Main starts the environment, passes it to set, runs the tests of a package, and stops the environment. It is the body
// of TestMain.
func Main(m *testing.M, set func(*Env), crdPaths ...string) {
	e, err := Start(crdPaths...)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	set(e)
	code := m.Run()
	if err := e.Stop(); err != nil {
		fmt.Fprintln(os.Stderr, "stop the API server:", err)
		code = max(code, 1)
	}
	os.Exit(code)
}

// Reads makes the files of a directory inputs of the test. Without this, `go test` would repeat its last result after a
// change of files that only another program reads.
func Reads(t *testing.T, directory string) {
	t.Helper()
	err := filepath.WalkDir(directory, func(path string, _ os.DirEntry, err error) error {
		if err == nil {
			_, err = os.Stat(path)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

// root returns the root directory of the repository: the nearest parent of the working directory, which is the test's
// package, with a go.mod.
func root() (string, error) {
	folder, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for at := folder; ; at = filepath.Dir(at) {
		if _, err := os.Stat(filepath.Join(at, "go.mod")); err == nil {
			return at, nil
		}
		if at == filepath.Dir(at) {
			return "", fmt.Errorf("no go.mod above %s", folder)
		}
	}
}
