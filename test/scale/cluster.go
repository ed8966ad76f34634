package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	topolvmv1 "github.com/topolvm/topolvm/api/v1"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"

	"github.com/lvm-storage/lvm-operator/api/v1alpha1"
	"github.com/lvm-storage/lvm-operator/api/wellknown"
)

const (
	namespace    = "openshift-lvm-storage"
	operatorUser = "system:serviceaccount:" + namespace + ":lvms-operator"
	podName      = "lvms-operator-0"
	writers      = 48
)

// cluster is an API server with the objects of a large cluster.
type cluster struct {
	options
	client.Client
	config     *rest.Config
	server     *envtest.Environment
	manager    *exec.Cmd
	operator   *operator
	kubeconfig string
	giveUp     context.CancelCauseFunc
}

const auditPolicy = `
apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived]
rules:
- {level: Metadata, users: ["` + operatorUser + `"]}
- {level: None}
`

func (o options) audit() string { return filepath.Join(o.work, "audit.log") }

func startCluster(ctx context.Context, o options) (*cluster, error) {
	for _, add := range []func() error{
		func() error { return v1alpha1.AddToScheme(clientgoscheme.Scheme) },
		func() error { return topolvmv1.AddToScheme(clientgoscheme.Scheme) },
		func() error { return os.MkdirAll(o.work, 0o755) }, func() error { return os.RemoveAll(o.audit()) },
		func() error { return os.WriteFile(filepath.Join(o.work, "policy.yaml"), []byte(auditPolicy), 0o600) },
	} {
		if err := add(); err != nil {
			return nil, err
		}
	}
	c := &cluster{options: o, server: &envtest.Environment{
		BinaryAssetsDirectory: o.assets, CRDDirectoryPaths: []string{filepath.Join("config", "crd")},
		ErrorIfCRDPathMissing: true,
	}}
	api := c.server.ControlPlane.GetAPIServer()
	api.Configure().Set("audit-policy-file", filepath.Join(o.work, "policy.yaml")).Set("audit-log-path", o.audit()).
		Set("max-requests-inflight", "2000").Set("max-mutating-requests-inflight", "1000")
	c.server.ControlPlane.Etcd = &envtest.Etcd{}
	c.server.ControlPlane.Etcd.Configure().Set("unsafe-no-fsync", "true").Set("quota-backend-bytes", "8589934592")
	config, err := c.server.Start()
	if err != nil {
		return nil, errors.Join(fmt.Errorf("start the API server: %w", err), c.server.Stop())
	}
	c.config = rest.CopyConfig(config)
	c.config.QPS = -1
	c.config.Burst = -1
	if c.Client, err = client.New(c.config, client.Options{Scheme: clientgoscheme.Scheme}); err != nil {
		return nil, errors.Join(err, c.stop())
	}
	return c, nil
}

func (c *cluster) stop() error {
	if c.operator != nil {
		c.operator.kill()
	}
	if c.manager != nil {
		_ = c.manager.Process.Kill()
		_ = c.manager.Wait()
	}
	return c.server.Stop()
}

// each calls a function for 0 to n-1 with several writers, and returns the first errors.
func each(ctx context.Context, n int, do func(int) error) error {
	var next atomic.Int64
	var wg sync.WaitGroup
	errs := make(chan error, writers)
	for range writers {
		wg.Add(1)
		go func() {
			defer wg.Done()
			for i := int(next.Add(1)) - 1; i < n && ctx.Err() == nil; i = int(next.Add(1)) - 1 {
				if err := do(i); err != nil {
					errs <- err
					return
				}
			}
		}()
	}
	wg.Wait()
	close(errs)
	var all []error
	for err := range errs {
		all = append(all, err)
	}
	return errors.Join(append(all, ctx.Err())...)
}

func nodeName(i int) string { return fmt.Sprintf("worker-%04d.cluster.example.com", i) }

// populate creates the objects of a cluster in use.
func (c *cluster) populate(ctx context.Context) error {
	progress("making %d nodes and %d volumes", c.nodes, c.volumes)
	for _, object := range []client.Object{
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}},
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "apps"}},
	} {
		if err := c.Create(ctx, object); err != nil {
			return err
		}
	}
	if err := each(ctx, c.nodes, func(i int) error { return c.makeNode(ctx, i) }); err != nil {
		return err
	}
	return each(ctx, c.volumes, func(i int) error { return c.makeVolume(ctx, i) })
}

func (c *cluster) makeNode(ctx context.Context, i int) error {
	name := nodeName(i)
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name,
		Labels: map[string]string{corev1.LabelHostname: name, wellknown.TopologyNodeKey: name,
			corev1.LabelArchStable: "amd64", corev1.LabelOSStable: "linux", "node-role.kubernetes.io/worker": ""},
		Annotations: map[string]string{wellknown.CapacityAnnotationPrefix + "00default": "1099511627776"}}}
	for _, class := range classes {
		node.Annotations[wellknown.CapacityAnnotationPrefix+class] = "1099511627776"
	}
	status := corev1.NodeStatus{Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady,
		Status: corev1.ConditionTrue, Reason: "KubeletReady"}}}
	// A real Node lists its images, which are most of its size.
	for n := range 50 {
		status.Images = append(status.Images, corev1.ContainerImage{SizeBytes: 1 << 28, Names: []string{
			fmt.Sprintf("registry.example.com/team-%02d/application@sha256:%064d", n, i*50+n),
			fmt.Sprintf("registry.example.com/team-%02d/application:v1.2.%d", n, n)}})
	}
	if err := c.Create(ctx, node); err != nil {
		return err
	}
	node.Spec.Taints = nil
	node.Status = status
	if err := c.Status().Update(ctx, node); err != nil {
		return err
	}
	return c.Create(ctx, &storagev1.CSINode{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: storagev1.CSINodeSpec{
		Drivers: []storagev1.CSINodeDriver{{Name: wellknown.DriverName, NodeID: name,
			TopologyKeys: []string{wellknown.TopologyNodeKey}}}}})
}

var (
	gibibyte  = resource.MustParse("1Gi")
	size      = corev1.ResourceList{corev1.ResourceStorage: gibibyte}
	writeOnce = []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce}
)

// makeVolume creates a settled volume: bound, and used.
func (c *cluster) makeVolume(ctx context.Context, i int) error {
	node := nodeName(i % c.nodes)
	class := classes[i%len(classes)]
	storageClass := wellknown.StorageClassName(class)
	claim := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("data-database-%05d", i),
		Namespace: "apps",
		Annotations: map[string]string{"pv.kubernetes.io/bind-completed": "yes",
			"pv.kubernetes.io/bound-by-controller":     "yes",
			"volume.kubernetes.io/selected-node":       node,
			"volume.kubernetes.io/storage-provisioner": wellknown.DriverName}},
		Spec: corev1.PersistentVolumeClaimSpec{AccessModes: writeOnce, StorageClassName: &storageClass,
			VolumeName: fmt.Sprintf("pvc-%05d", i), Resources: corev1.VolumeResourceRequirements{Requests: size}}}
	if err := c.Create(ctx, claim); err != nil {
		return err
	}
	claim.Status = corev1.PersistentVolumeClaimStatus{Phase: corev1.ClaimBound, AccessModes: writeOnce, Capacity: size}
	if err := c.Status().Update(ctx, claim); err != nil {
		return err
	}
	lv := &topolvmv1.LogicalVolume{ObjectMeta: metav1.ObjectMeta{Name: claim.Spec.VolumeName,
		Finalizers:  []string{wellknown.LogicalVolumeFinalizer},
		Annotations: map[string]string{wellknown.ClaimAnnotation: "apps/" + claim.Name}},
		Spec: topolvmv1.LogicalVolumeSpec{Name: claim.Spec.VolumeName, NodeName: node, DeviceClass: class,
			Size: gibibyte}}
	if err := c.Create(ctx, lv); err != nil {
		return err
	}
	lv.Status = topolvmv1.LogicalVolumeStatus{VolumeID: string(lv.UID), CurrentSize: &gibibyte}
	if err := c.Status().Update(ctx, lv); err != nil {
		return err
	}
	pv := &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: claim.Spec.VolumeName,
		Finalizers: []string{"external-provisioner.volume.kubernetes.io/finalizer"},
		Annotations: map[string]string{"pv.kubernetes.io/provisioned-by": wellknown.DriverName,
			"volume.kubernetes.io/provisioner-deletion-secret-name":      "",
			"volume.kubernetes.io/provisioner-deletion-secret-namespace": ""}},
		Spec: corev1.PersistentVolumeSpec{Capacity: size, AccessModes: writeOnce, StorageClassName: storageClass,
			PersistentVolumeReclaimPolicy: corev1.PersistentVolumeReclaimDelete,
			ClaimRef: &corev1.ObjectReference{APIVersion: "v1", Kind: "PersistentVolumeClaim",
				Namespace: "apps", Name: claim.Name, UID: claim.UID, ResourceVersion: claim.ResourceVersion},
			PersistentVolumeSource: corev1.PersistentVolumeSource{
				CSI: &corev1.CSIPersistentVolumeSource{Driver: wellknown.DriverName,
					VolumeHandle: string(lv.UID), FSType: "xfs",
					VolumeAttributes: map[string]string{
						"storage.kubernetes.io/csiProvisionerIdentity": "1-topolvm.io"}}},
			NodeAffinity: &corev1.VolumeNodeAffinity{
				Required: &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{
					MatchExpressions: []corev1.NodeSelectorRequirement{{Key: wellknown.TopologyNodeKey,
						Operator: corev1.NodeSelectorOpIn, Values: []string{node}}}}}}},
		}}
	if err := c.Create(ctx, pv); err != nil {
		return err
	}
	pv.Status.Phase = corev1.VolumeBound
	return c.Status().Update(ctx, pv)
}

// startControllerManager starts the controllers that bind claims and check admission policies, with OpenShift's request
// limits.
func (c *cluster) startControllerManager(ctx context.Context) error {
	user, err := c.server.AddUser(envtest.User{Name: "system:kube-controller-manager",
		Groups: []string{"system:masters"}}, nil)
	if err != nil {
		return err
	}
	file, err := c.writeKubeconfig("controller-manager", user)
	if err != nil {
		return err
	}
	log, err := os.Create(filepath.Join(c.work, "controller-manager.log"))
	if err != nil {
		return err
	}
	c.manager = exec.CommandContext(ctx, filepath.Join(c.assets, "kube-controller-manager"), "--kubeconfig="+file,
		"--leader-elect=false", "--secure-port=0",
		"--controllers=persistentvolume-binder-controller,persistentvolumeclaim-protection-controller,"+
			"persistentvolume-protection-controller,validatingadmissionpolicy-status-controller",
		"--kube-api-qps=150", "--kube-api-burst=300")
	c.manager.Stdout = log
	c.manager.Stderr = log
	return c.manager.Start()
}

func (c *cluster) writeKubeconfig(name string, user *envtest.AuthenticatedUser) (string, error) {
	data, err := user.KubeConfig()
	if err != nil {
		return "", err
	}
	file := filepath.Join(c.work, name+".kubeconfig")
	return file, os.WriteFile(file, data, 0o600)
}

// wait polls until a condition is true, and returns the duration. It prints the progress unless what is empty.
func wait(ctx context.Context, what string, every time.Duration,
	holds func() (bool, string, error)) (time.Duration, error) {
	begun := time.Now()
	told := time.Now()
	for {
		done, seen, err := holds()
		if err == nil && done {
			return time.Since(begun), nil
		}
		if err != nil {
			seen = err.Error()
		}
		if what != "" && time.Since(told) > 15*time.Second {
			told = time.Now()
			progress("%s: %s", what, seen)
		}
		select {
		case <-ctx.Done():
			return 0, fmt.Errorf("%s: %w; last seen: %s", what, context.Cause(ctx), seen)
		case <-time.After(every):
		}
	}
}
