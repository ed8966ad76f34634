// Package cluster collects API objects and logs of Pods, in the directory layout of `oc adm inspect`. It changes
// nothing.
//
// Lists are read in pages. Each request has a timeout and up to three attempts if the server is busy. Resources that
// the API server does not serve are omitted. A list that could not be read is recorded as a failure.
package cluster

import (
	"context"
	"errors"
	"fmt"
	"net"
	"path"
	"slices"
	"strings"
	"sync"
	"time"

	topolvmv1 "github.com/topolvm/topolvm/api/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/yaml"

	"github.com/lvm-storage/lvm-operator/api/v1alpha1"
	"github.com/lvm-storage/lvm-operator/must-gather/archive"
	"github.com/lvm-storage/lvm-operator/must-gather/redact"
)

const (
	// pageSize is the number of objects on a page.
	pageSize = 500
	// RequestTimeout is the timeout of a request.
	RequestTimeout = 30 * time.Second
	// tries is the maximum number of attempts if the server is busy or cannot be reached.
	tries = 3
	// parallel is the number of lists or logs that are read at the same time.
	parallel = 8
)

// NameLabel is the label with the name of a component. OperatorName and AgentName are its values.
const (
	NameLabel    = "app.kubernetes.io/name"
	OperatorName = "lvms-operator"
	AgentName    = "vg-manager"
)

// Collector collects from one API server.
type Collector struct {
	dynamic dynamic.Interface
	core    kubernetes.Interface
	groups  discovery.DiscoveryInterface
	out     *archive.Writer
	// since is the start time of the logs; zero for all.
	since time.Time
	// backoff is between the attempts of a request.
	backoff wait.Backoff

	served map[schema.GroupResource]resource
	// unknown has the API groups whose discovery failed.
	unknown map[string]error
}

type resource struct {
	schema.GroupVersionResource
	namespaced bool
}

// Inventory has what the rest of a gathering needs.
type Inventory struct {
	// Namespaces are the namespaces of the product, sorted.
	Namespaces []string
	// Pods are the Pods in these namespaces.
	Pods []corev1.Pod
	// NodeStatuses and LogicalVolumes show which nodes have storage.
	Nodes          []corev1.Node
	NodeStatuses   []v1alpha1.LVMVolumeGroupNodeStatus
	LogicalVolumes []topolvmv1.LogicalVolume
}

// New returns a Collector.
func New(config *rest.Config, out *archive.Writer, since time.Time) (*Collector, error) {
	config = rest.CopyConfig(config)
	config.QPS = 50
	config.Burst = 100
	config.Timeout = RequestTimeout
	// Warnings of the API server are not useful to the reader.
	config.WarningHandler = rest.NoWarnings{}
	core, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, err
	}
	objects, err := dynamic.NewForConfig(config)
	if err != nil {
		return nil, err
	}
	return &Collector{dynamic: objects, core: core, groups: core.Discovery(), out: out, since: since,
		backoff: wait.Backoff{Steps: tries, Duration: 500 * time.Millisecond, Factor: 4}}, nil
}

// Objects collects objects, the most valuable ones first. It records failures in the archive and continues.
func (c *Collector) Objects(ctx context.Context) Inventory {
	defer c.out.Step("objects")()
	if err := c.discover(); err != nil {
		c.out.Failed("what the API server has", err)
		return Inventory{}
	}
	var seen Inventory
	seen.Namespaces = c.namespaces(ctx)
	targets := append(slices.Clone(clusterScoped), definitions())
	found := make([][]unstructured.Unstructured, len(targets))
	inParallel(len(targets), func(i int) { found[i] = c.all(ctx, targets[i], "") })
	at := func(resource string) []unstructured.Unstructured {
		return found[slices.IndexFunc(clusterScoped, func(t target) bool { return t.resource == resource })]
	}
	seen.Nodes = typed[corev1.Node](c, at("nodes"))
	seen.LogicalVolumes = typed[topolvmv1.LogicalVolume](c, at("logicalvolumes"))
	for _, namespace := range seen.Namespaces {
		c.namespace(ctx, namespace)
		found := make([][]unstructured.Unstructured, len(ours))
		inParallel(len(ours), func(i int) { found[i] = c.all(ctx, ours[i], namespace) })
		for i, t := range ours {
			switch t.resource {
			case "pods":
				for _, pod := range found[i] {
					c.write(path.Join(podFolder(&pod), pod.GetName()+".yaml"), pod.Object)
				}
				seen.Pods = append(seen.Pods, typed[corev1.Pod](c, found[i])...)
			case "lvmvolumegroupnodestatuses":
				seen.NodeStatuses = append(seen.NodeStatuses, typed[v1alpha1.LVMVolumeGroupNodeStatus](c, found[i])...)
			}
		}
		c.compatible(ctx, namespace)
	}
	c.users(ctx, at("storageclasses"), at("persistentvolumes"), seen.Namespaces)
	c.snapshots(ctx, "snapshot.storage.k8s.io", "volumesnapshots", "VolumeSnapshot", at("volumesnapshotcontents"))
	c.snapshots(ctx, "groupsnapshot.storage.k8s.io", "volumegroupsnapshots", "VolumeGroupSnapshot",
		at("volumegroupsnapshotcontents"))
	return seen
}

// typed converts objects. It records those that cannot be converted, and omits them.
func typed[T any](c *Collector, objects []unstructured.Unstructured) []T {
	var all []T
	for i := range objects {
		var object T
		err := runtime.DefaultUnstructuredConverter.FromUnstructured(objects[i].Object, &object)
		c.out.Failed(strings.ToLower(objects[i].GetKind())+" "+objects[i].GetName(), err)
		if err == nil {
			all = append(all, object)
		}
	}
	return all
}

// inParallel calls work with 0 to n-1, a limited number at a time.
func inParallel(n int, work func(i int)) {
	var group sync.WaitGroup
	room := make(chan struct{}, parallel)
	for i := range n {
		room <- struct{}{}
		group.Go(func() {
			defer func() { <-room }()
			work(i)
		})
	}
	group.Wait()
}

// discover reads the resources that the API server serves. An API group whose server is down does not hide the others.
func (c *Collector) discover() error {
	lists, err := c.groups.ServerPreferredResources()
	var failed *discovery.ErrGroupDiscoveryFailed
	if err != nil && !errors.As(err, &failed) {
		return err
	}
	c.served = map[schema.GroupResource]resource{}
	c.unknown = map[string]error{}
	if failed != nil {
		for group, cause := range failed.Groups {
			c.unknown[group.Group] = cause
		}
	}
	for _, list := range lists {
		version, err := schema.ParseGroupVersion(list.GroupVersion)
		if err != nil {
			continue
		}
		for _, r := range list.APIResources {
			if slices.Contains(r.Verbs, "list") {
				c.served[schema.GroupResource{Group: version.Group,
					Resource: r.Name}] = resource{version.WithResource(r.Name), r.Namespaced}
			}
		}
	}
	return nil
}

// find returns a resource that the API server serves. It records a failure if that is unknown.
func (c *Collector) find(group, name string) (resource, bool) {
	r, found := c.served[schema.GroupResource{Group: group, Resource: name}]
	if !found {
		if cause := c.unknown[group]; cause != nil {
			c.out.Failed(strings.TrimSuffix(name+"."+group, "."),
				fmt.Errorf("the server of this API group does not respond: %w", cause))
		}
	}
	return r, found
}

// all reads the objects of a target, and writes those that the target keeps. An empty namespace means all namespaces.
func (c *Collector) all(ctx context.Context, t target, namespace string) []unstructured.Unstructured {
	r, found := c.find(t.group, t.resource)
	if !found {
		return nil
	}
	items, err := c.list(ctx, r, namespace, metav1.ListOptions{}, t.keep)
	c.out.Failed(describe(t, namespace), err)
	if err != nil && len(items) == 0 {
		return nil
	}
	c.store(t, items)
	return items
}

func describe(t target, namespace string) string {
	what := strings.TrimSuffix(t.resource+"."+t.group, ".")
	if namespace != "" {
		what += " of namespace " + namespace
	}
	return what
}

// list reads in pages. After an error it returns both the objects up to then and the error.
func (c *Collector) list(ctx context.Context, r resource, namespace string, options metav1.ListOptions,
	keep func(*unstructured.Unstructured) bool) ([]unstructured.Unstructured, error) {
	var client dynamic.ResourceInterface = c.dynamic.Resource(r.GroupVersionResource)
	if namespace != "" {
		client = c.dynamic.Resource(r.GroupVersionResource).Namespace(namespace)
	}
	options.Limit = pageSize
	var items []unstructured.Unstructured
	for {
		page, err := again(ctx, c.backoff, func() (*unstructured.UnstructuredList, error) {
			return client.List(ctx, options)
		})
		if err != nil {
			return items, err
		}
		for _, item := range page.Items {
			if keep == nil || keep(&item) {
				redact.Object(&item)
				items = append(items, item)
			}
		}
		if options.Continue = page.GetContinue(); options.Continue == "" {
			return items, nil
		}
	}
}

// again sends a request up to three times if the server is busy or cannot be reached.
func again[T any](ctx context.Context, backoff wait.Backoff, request func() (T, error)) (answer T, err error) {
	waited := wait.ExponentialBackoffWithContext(ctx, backoff, func(context.Context) (bool, error) {
		answer, err = request()
		return err == nil || !passing(err), nil
	})
	if err == nil {
		err = waited
	}
	return answer, err
}

func passing(err error) bool {
	var network net.Error
	return apierrors.IsTooManyRequests(err) || apierrors.IsServerTimeout(err) || apierrors.IsInternalError(err) ||
		apierrors.IsServiceUnavailable(err) ||
		errors.As(err, &network) && !network.Timeout()
}

// store writes objects in the layout of `oc adm inspect`.
func (c *Collector) store(t target, items []unstructured.Unstructured) {
	if !t.list {
		for i := range items {
			c.write(path.Join(folder(items[i].GetNamespace(), t.group), t.resource, items[i].GetName()+".yaml"),
				items[i].Object)
		}
		return
	}
	byNamespace := map[string][]any{}
	for i := range items {
		byNamespace[items[i].GetNamespace()] = append(byNamespace[items[i].GetNamespace()], items[i].Object)
	}
	for namespace, objects := range byNamespace {
		first := unstructured.Unstructured{Object: objects[0].(map[string]any)}
		c.write(path.Join(folder(namespace, t.group), t.resource+".yaml"), map[string]any{
			"apiVersion": first.GetAPIVersion(), "kind": first.GetKind() + "List", "items": objects,
		})
	}
}

// folder returns the directory for the resources of a group.
func folder(namespace, group string) string {
	if group == "" {
		group = "core"
	}
	if namespace == "" {
		return path.Join("cluster-scoped-resources", group)
	}
	return path.Join("namespaces", namespace, group)
}

func (c *Collector) write(name string, object any) {
	content, err := yaml.Marshal(object)
	if err != nil {
		c.out.Failed(name, err)
		return
	}
	// The archive records the failure.
	_ = c.out.Write(name, append([]byte("---\n"), content...))
}

// namespaces returns the namespaces of the product: those with LVMClusters, the operator or the agents. This includes
// namespaces with a partial or an abandoned installation.
func (c *Collector) namespaces(ctx context.Context) []string {
	found := sets.New("openshift-lvm-storage")
	look := func(group, name, selector string) {
		r, served := c.find(group, name)
		if !served {
			return
		}
		items, err := c.list(ctx, r, "", metav1.ListOptions{LabelSelector: selector}, nil)
		c.out.Failed("namespaces of the product, by "+name, err)
		for _, item := range items {
			found.Insert(item.GetNamespace())
		}
	}
	look("lvm.topolvm.io", "lvmclusters", "")
	look("apps", "deployments", NameLabel+"="+OperatorName)
	look("apps", "daemonsets", NameLabel+"="+AgentName)
	return sets.List(found)
}

// namespace writes the Namespace itself. It is not a failure if the Namespace does not exist, because one of the names
// is only a guess.
func (c *Collector) namespace(ctx context.Context, name string) {
	r, found := c.find("", "namespaces")
	if !found {
		return
	}
	o, err := again(ctx, c.backoff, func() (*unstructured.Unstructured, error) {
		return c.dynamic.Resource(r.GroupVersionResource).Get(ctx, name, metav1.GetOptions{})
	})
	if apierrors.IsNotFound(err) {
		return
	}
	if err != nil {
		c.out.Failed("namespace "+name, err)
		return
	}
	redact.Object(o)
	c.write(path.Join("namespaces", name, name+".yaml"), o.Object)
}
