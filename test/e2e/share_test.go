//go:build e2e

package e2e

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	topolvmv1 "github.com/topolvm/topolvm/api/v1"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	lvmv1alpha1 "github.com/lvm-storage/lvm-operator/api/v1alpha1"
	"github.com/lvm-storage/lvm-operator/api/wellknown"
	"github.com/lvm-storage/lvm-operator/test/story"
)

// tenant is a namespace with limits. atOnce is a StorageClass whose volumes are created without a Pod.
const (
	tenant = "tenant"
	atOnce = "at-once"
)

// quota is the ResourceQuota in docs/how-to/share-capacity.md, with a smaller size.
const quota = `
apiVersion: v1
kind: ResourceQuota
metadata: {name: storage, namespace: tenant}
spec: {hard: {lvms-thick-ext4.storageclass.storage.k8s.io/requests.storage: 300Mi}}
`

// bindAtOnce creates a namespace and a StorageClass for thick-ext4 with immediate binding.
func bindAtOnce(ctx context.Context) {
	GinkgoHelper()
	cluster.Run(ctx, "create", "namespace", tenant)
	Expect(cluster.Create(ctx, &storagev1.StorageClass{
		ObjectMeta: metav1.ObjectMeta{Name: atOnce}, Provisioner: wellknown.DriverName,
		VolumeBindingMode: ptr.To(storagev1.VolumeBindingImmediate), AllowVolumeExpansion: ptr.To(true),
		Parameters: map[string]string{wellknown.DeviceClassParameter: "thick-ext4",
			wellknown.FilesystemTypeParameter: "ext4"},
	})).To(Succeed())
	DeferCleanup(func(ctx SpecContext) {
		cluster.Run(ctx, "delete", "namespace", tenant, story.Timeout)
		cluster.Run(ctx, "delete", "storageclass", atOnce)
	})
}

// inTenant returns a volume of the tenant.
func inTenant(name, class, size string) story.Volume {
	return story.Volume{Namespace: tenant, Name: name, Class: class, Size: size}
}

// nodesOf returns the nodes on which claims of the tenant with a prefix have a volume, sorted.
func nodesOf(ctx context.Context, prefix string) []string {
	GinkgoHelper()
	var list topolvmv1.LogicalVolumeList
	Expect(cluster.List(ctx, &list)).To(Succeed())
	var nodes []string
	for _, lv := range list.Items {
		claim := lv.Annotations[wellknown.ClaimAnnotation]
		if strings.HasPrefix(claim, tenant+"/"+prefix) && lv.Status.VolumeID != "" {
			nodes = append(nodes, lv.Spec.NodeName)
		}
	}
	slices.Sort(nodes)
	return nodes
}

// claimsIn returns the claims of the tenant with a prefix that are in a phase.
func claimsIn(ctx context.Context, prefix string, phase corev1.PersistentVolumeClaimPhase) []string {
	GinkgoHelper()
	var list corev1.PersistentVolumeClaimList
	Expect(cluster.List(ctx, &list, client.InNamespace(tenant))).To(Succeed())
	var names []string
	for _, claim := range list.Items {
		if strings.HasPrefix(claim.Name, prefix) && claim.Status.Phase == phase {
			names = append(names, claim.Name)
		}
	}
	return names
}

// onePending waits until one of three claims with a prefix is pending, and the others are bound. It returns both kinds.
func onePending(ctx context.Context, prefix string) (pending string, bound []string) {
	GinkgoHelper()
	Eventually(func() []string { return claimsIn(ctx, prefix, corev1.ClaimBound) }).WithContext(ctx).Should(HaveLen(2))
	waiting := claimsIn(ctx, prefix, corev1.ClaimPending)
	Expect(waiting).To(HaveLen(1))
	return waiting[0], claimsIn(ctx, prefix, corev1.ClaimBound)
}

// events returns the events of a claim of the tenant.
func events(name string) func(context.Context) string {
	return func(ctx context.Context) string {
		GinkgoHelper()
		return cluster.Run(ctx, "get", "events", "-n", tenant, "--field-selector",
			"involvedObject.kind=PersistentVolumeClaim,involvedObject.name="+name, "-o", "jsonpath={.items[*].message}")
	}
}

// resize requests another size for a claim of the tenant, and returns the error of the API server.
func resize(ctx context.Context, name, size string) error {
	_, err := cluster.Kubectl(ctx, nil, "patch", "pvc", "-n", tenant, name, "-p",
		fmt.Sprintf(`{"spec":{"resources":{"requests":{"storage":%q}}}}`, size))
	return err
}

// setLimits sets the limits of thick-ext4, and waits until the agents of both nodes have them.
func setLimits(ctx context.Context, limits ...lvmv1alpha1.NamespaceLimit) {
	GinkgoHelper()
	change(ctx, func(storage *lvmv1alpha1.Storage) {
		at := slices.IndexFunc(storage.DeviceClasses,
			func(c lvmv1alpha1.DeviceClass) bool { return c.Name == "thick-ext4" })
		storage.DeviceClasses[at].NamespaceLimits = limits
	})
	for _, node := range []string{"node1", "node2"} {
		Eventually(func(g Gomega) {
			file := cluster.OnNode(ctx, node, "cat", "/etc/topolvm/lvmd.yaml")
			g.Expect(strings.Contains(file, "namespace-limits")).To(Equal(len(limits) > 0))
			for _, limit := range limits {
				g.Expect(file).To(ContainSubstring(fmt.Sprintf("per-node-bytes: %d", limit.PerNode.Value())))
			}
		}).WithContext(ctx).WithPolling(500 * time.Millisecond).Should(Succeed())
	}
}

// sharesCapacity limits a namespace by ResourceQuota and namespaceLimits.
func sharesCapacity(ctx SpecContext) {
	bindAtOnce(ctx)
	By("exceeding a ResourceQuota for a StorageClass")
	Expect(cluster.ApplyManifest(ctx, quota)).To(Succeed())
	Eventually(func() string {
		return cluster.Run(ctx, "get", "resourcequota", "-n", tenant, "storage", "-o", "jsonpath={.status.hard}")
	}).WithContext(ctx).Should(ContainSubstring("300Mi"))
	Expect(cluster.Claim(ctx, inTenant("quota-large", "lvms-thick-ext4", "400Mi"))).To(
		MatchError(ContainSubstring("exceeded quota: storage")))
	cluster.Run(ctx, "delete", "resourcequota", "-n", tenant, "storage")

	By("exceeding the limit on each node")
	setLimits(ctx, lvmv1alpha1.NamespaceLimit{Namespace: tenant, PerNode: resource.MustParse("200Mi")},
		lvmv1alpha1.NamespaceLimit{PerNode: resource.MustParse("4Gi")})
	DeferCleanup(func(ctx SpecContext) { setLimits(ctx) })
	for _, name := range []string{"limit-a", "limit-b", "limit-c"} {
		Expect(cluster.Claim(ctx, inTenant(name, atOnce, "128Mi"))).To(Succeed())
	}
	pending, bound := onePending(ctx, "limit-")
	Expect(nodesOf(ctx, "limit-")).To(Equal([]string{"node1", "node2"}), "one on each node")
	message := And(ContainSubstring("namespace tenant has 128Mi"), ContainSubstring("limit of 200Mi"),
		MatchRegexp("node node[12]: "))
	Eventually(events(pending)).WithContext(ctx).Should(message)

	By("expanding a volume")
	Expect(resize(ctx, bound[0], "240Mi")).To(Succeed())
	Eventually(events(bound[0])).WithContext(ctx).Should(message)
	Expect(resize(ctx, bound[0], "160Mi")).To(Succeed())
	Eventually(func() string {
		return cluster.Run(ctx, "get", "pv", cluster.Run(ctx, "get", "pvc", "-n", tenant, bound[0], "-o",
			"jsonpath={.spec.volumeName}"), "-o", "jsonpath={.spec.capacity.storage}")
	}).WithContext(ctx).Should(Equal("160Mi"))

	By("raising the limit")
	setLimits(ctx, lvmv1alpha1.NamespaceLimit{PerNode: resource.MustParse("400Mi")})
	Eventually(func() int { return len(nodesOf(ctx, "limit-")) }).WithContext(ctx).
		Should(Equal(3))
}

// spread returns a volume of the tenant in a spread group.
func spread(name, class, group, policy string) story.Volume {
	v := inTenant(name, class, "64Mi")
	v.Labels = map[string]string{wellknown.SpreadGroupLabel: group, wellknown.SpreadLabel: wellknown.SpreadNode,
		wellknown.SpreadPolicyLabel: policy}
	return v
}

// apart is a Pod that the scheduler keeps away from the node of the Pod "first".
const apart = `
apiVersion: v1
kind: Pod
metadata: {name: second, namespace: tenant}
spec:
  terminationGracePeriodSeconds: 1
  affinity:
    podAntiAffinity:
      requiredDuringSchedulingIgnoredDuringExecution:
      - {topologyKey: kubernetes.io/hostname, labelSelector: {matchLabels: {app: db}}}
  containers:
  - {name: main, image: REGISTRY/busybox:1, command: [sh, -c, "trap exit TERM; sleep 86400 & wait"], volumeMounts: [{name: data, mountPath: /data}]}
  volumes: [{name: data, persistentVolumeClaim: {claimName: second}}]
`

// spreadsOverNodes refuses the node that the scheduler selected, and accepts another one.
func spreadsOverNodes(ctx SpecContext) {
	bindAtOnce(ctx)
	const class = "lvms-thick-ext4"
	first := spread("first", class, "db", wellknown.SpreadRequired)
	second := spread("second", class, "db", wellknown.SpreadRequired)
	third := spread("third", class, "db", wellknown.SpreadPreferred)
	for _, v := range []*story.Volume{&first, &second, &third} {
		v.Node = "node1"
		Expect(cluster.Claim(ctx, *v)).To(Succeed())
	}
	Expect(cluster.StartPod(ctx, first, "first")).To(Succeed())
	cluster.Run(ctx, "label", "pod", "-n", tenant, "first", "app=db")

	By("refusing the same node")
	Expect(cluster.CreatePod(ctx, second, "second")).To(Succeed())
	Eventually(events("second")).WithContext(ctx).Should(And(
		ContainSubstring("ResourceExhausted"), ContainSubstring("node node1 has volume"),
		ContainSubstring("of claim tenant/first"), ContainSubstring("topologySpreadConstraints")))
	Expect(nodesOf(ctx, "second")).To(BeEmpty())
	Expect(cluster.StopPod(ctx, tenant, "second")).To(Succeed())

	By("selecting another node")
	Expect(cluster.ApplyManifest(ctx, strings.ReplaceAll(apart, "REGISTRY", cluster.Lab.Registry()))).To(Succeed())
	Expect(cluster.WaitRunning(ctx, tenant, "second")).To(Succeed())
	Expect(nodesOf(ctx, "second")).To(Equal([]string{"node2"}))
	Expect(cluster.OnNode(ctx, "node2", "lvs", "--noheadings", "-o", "lv_tags", "thick-ext4")).To(
		ContainSubstring("lvms.spread=node:required:tenant/db"))

	By("only preferring another node")
	Expect(cluster.StartPod(ctx, third, "third")).To(Succeed())
	Expect(nodesOf(ctx, "third")).To(Equal([]string{"node1"}))
}
