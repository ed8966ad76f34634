package nodeprobe

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"hash/fnv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/lvm-storage/lvm-operator/api/v1alpha1"
	"github.com/lvm-storage/lvm-operator/api/wellknown"
	"github.com/lvm-storage/lvm-operator/internal/csi/supply"
	"github.com/lvm-storage/lvm-operator/internal/kube/paging"
	"github.com/lvm-storage/lvm-operator/internal/volume/classspec"
)

const (
	component = "node-probe"
	// prefix is that of the names of all objects of probes.
	prefix    = "lvms-probe-"
	mountPath = "/probe"
	// user is that of the image, and group has access to the volume.
	user int64 = 65532
	// selectedNode is the annotation with which the scheduler chooses the node of a volume (external-provisioner).
	// With volumeBindingMode Immediate, the scheduler sets none.
	selectedNode = "volume.kubernetes.io/selected-node"
)

// The Pods of probes run in the operator's namespace, without a token of a ServiceAccount.
// +kubebuilder:rbac:groups="",namespace=openshift-lvm-storage,resources=pods,verbs=list;create;delete
// +kubebuilder:rbac:groups="",resources=persistentvolumes,verbs=get;patch

var probeLabels = client.MatchingLabels{
	"app.kubernetes.io/component":  component,
	"app.kubernetes.io/managed-by": "lvms-operator",
}

// nameOf returns the name of the objects of a probe.
func nameOf(node, class string) string {
	hash := fnv.New64a()
	_, _ = hash.Write([]byte(node + "/" + class))
	return prefix + hex.EncodeToString(hash.Sum(nil))
}

// isName reports whether nameOf can have returned a name.
func isName(name string) bool {
	hash, err := hex.DecodeString(strings.TrimPrefix(name, prefix))
	return strings.HasPrefix(name, prefix) && err == nil && len(hash) == 8
}

// targets returns the device classes on nodes that are to be probed, by the names of their objects. A node that is not
// ready or is cordoned, and a volume group that is not ready, are known not to provide volumes.
func (p *Prober) targets(ctx context.Context) (map[string]*target, error) {
	clusters := &v1alpha1.LVMClusterList{}
	if err := p.client.List(ctx, clusters, client.InNamespace(p.Namespace)); err != nil {
		return nil, fmt.Errorf("list LVMClusters: %w", err)
	}
	if p.Interval == 0 || len(clusters.Items) == 0 || clusters.Items[0].DeletionTimestamp != nil {
		return nil, nil
	}
	nodes, statuses := &corev1.NodeList{}, &v1alpha1.LVMVolumeGroupNodeStatusList{}
	if err := p.client.List(ctx, nodes, client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("list Nodes: %w", err)
	}
	err := p.client.List(ctx, statuses, client.InNamespace(p.Namespace), client.UnsafeDisableDeepCopy)
	if err != nil {
		return nil, fmt.Errorf("list LVMVolumeGroupNodeStatuses: %w", err)
	}
	return targetsOf(&clusters.Items[0], nodes.Items, statuses.Items), nil
}

func targetsOf(cluster *v1alpha1.LVMCluster, nodes []corev1.Node,
	statuses []v1alpha1.LVMVolumeGroupNodeStatus) map[string]*target {
	ready := map[string]bool{}
	for i := range nodes {
		ready[nodes[i].Name] = !nodes[i].Spec.Unschedulable && !supply.IsNotReady(&nodes[i])
	}
	targets := map[string]*target{}
	for i := range statuses {
		s := &statuses[i]
		for j := range s.Status.NodeStatus {
			group := &s.Status.NodeStatus[j]
			class := classOf(cluster, group.Name)
			works := group.Status == v1alpha1.VGStatusReady || group.Status == v1alpha1.VGStatusDegraded
			if class != nil && ready[s.Name] && works {
				targets[nameOf(s.Name, class.Name)] = &target{node: s.Name, class: class, status: s}
			}
		}
	}
	return targets
}

// classOf returns the device class of an LVMCluster with a name, or nil.
func classOf(cluster *v1alpha1.LVMCluster, name string) *v1alpha1.DeviceClass {
	for i := range cluster.Spec.Storage.DeviceClasses {
		if class := &cluster.Spec.Storage.DeviceClasses[i]; class.Name == name {
			return class
		}
	}
	return nil
}

// probes returns the objects of all probes, by name.
func (p *Prober) probes(ctx context.Context) (map[string]probe, error) {
	probes := map[string]probe{}
	options := []client.ListOption{client.InNamespace(p.Namespace), probeLabels}
	// What somebody else labels like a probe is not deleted.
	err := paging.Each(ctx, p.live, &corev1.PersistentVolumeClaimList{}, func(l *corev1.PersistentVolumeClaimList) {
		for i := range l.Items {
			if isName(l.Items[i].Name) {
				probes[l.Items[i].Name] = probe{claim: &l.Items[i]}
			}
		}
	}, options...)
	if err != nil {
		return nil, fmt.Errorf("list the claims of probes: %w", err)
	}
	err = paging.Each(ctx, p.live, &corev1.PodList{}, func(l *corev1.PodList) {
		for i := range l.Items {
			// A Pod whose claim is gone is deleted with it: its owner is the claim.
			if found, ok := probes[l.Items[i].Name]; ok {
				found.pod = &l.Items[i]
				probes[l.Items[i].Name] = found
			}
		}
	}, options...)
	if err != nil {
		return nil, fmt.Errorf("list the Pods of probes: %w", err)
	}
	return probes, nil
}

func (p *Prober) create(ctx context.Context, o client.Object) error {
	if err := p.client.Create(ctx, o); err != nil && !apierrors.IsAlreadyExists(err) {
		return fmt.Errorf("create %T %s for a probe: %w", o, o.GetName(), err)
	}
	return nil
}

// remove deletes the objects of a probe. Before that, it changes the reclaim policy of the volume: a volume of a probe
// is never retained.
func (p *Prober) remove(ctx context.Context, found probe) error {
	if err := p.reclaim(ctx, found.claim.Spec.VolumeName, found.claim.UID); err != nil {
		return err
	}
	var errs []error
	if found.pod != nil && found.pod.DeletionTimestamp == nil {
		errs = append(errs, p.deleteOne(ctx, found.pod))
	}
	if found.claim.DeletionTimestamp == nil {
		errs = append(errs, p.deleteOne(ctx, found.claim))
	}
	return errors.Join(errs...)
}

// reclaimReleased sets the reclaim policy Delete for volumes of claims of probes that no longer exist. The provisioner
// may have created such a volume when its claim was already deleted.
func (p *Prober) reclaimReleased(ctx context.Context) error {
	volumes := &corev1.PersistentVolumeList{}
	if err := p.active.List(ctx, volumes, client.UnsafeDisableDeepCopy); err != nil {
		return fmt.Errorf("list the released PersistentVolumes: %w", err)
	}
	var errs []error
	for i := range volumes.Items {
		pv := &volumes.Items[i]
		ref := pv.Spec.ClaimRef
		if pv.Status.Phase == corev1.VolumeReleased && ref != nil && ref.Namespace == p.Namespace && isName(ref.Name) {
			errs = append(errs, p.reclaim(ctx, pv.Name, ref.UID))
		}
	}
	return errors.Join(errs...)
}

// reclaim sets the reclaim policy Delete for the volume of the claim with a UID. name may be "".
func (p *Prober) reclaim(ctx context.Context, name string, claim types.UID) error {
	if name == "" {
		return nil
	}
	pv := &corev1.PersistentVolume{}
	if err := p.live.Get(ctx, client.ObjectKey{Name: name}, pv); err != nil {
		if apierrors.IsNotFound(err) {
			return nil
		}
		return fmt.Errorf("read PersistentVolume %s of a probe: %w", name, err)
	}
	ref := pv.Spec.ClaimRef
	if ref == nil || ref.UID != claim ||
		pv.Spec.PersistentVolumeReclaimPolicy != corev1.PersistentVolumeReclaimRetain {
		return nil
	}
	before := pv.DeepCopy()
	pv.Spec.PersistentVolumeReclaimPolicy = corev1.PersistentVolumeReclaimDelete
	if err := p.client.Patch(ctx, pv, client.MergeFrom(before)); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("change the reclaim policy of PersistentVolume %s of a probe: %w", name, err)
	}
	return nil
}

func (p *Prober) deleteOne(ctx context.Context, o client.Object) error {
	err := p.client.Delete(ctx, o, client.Preconditions{UID: ptr.To(o.GetUID())})
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("delete %T %s of a probe: %w", o, o.GetName(), err)
	}
	return nil
}

// newClaim returns the claim of a probe. Its size is rounded up to the minimum of its file system.
func (p *Prober) newClaim(name string, t *target) *corev1.PersistentVolumeClaim {
	var annotations map[string]string
	if classspec.Binding(t.class.StorageClassOptions) == storagev1.VolumeBindingImmediate {
		annotations = map[string]string{selectedNode: t.node}
	}
	return &corev1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{Namespace: p.Namespace, Name: name, Labels: probeLabels,
			Annotations: annotations},
		Spec: corev1.PersistentVolumeClaimSpec{
			AccessModes:      []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
			StorageClassName: ptr.To(wellknown.StorageClassName(t.class.Name)),
			Resources: corev1.VolumeResourceRequirements{
				Requests: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Mi")}},
		},
	}
}

// newPod returns the Pod of a probe, for the Pod Security Standard "restricted" and the SecurityContextConstraints
// restricted-v2, which sets user and group itself.
func (p *Prober) newPod(claim *corev1.PersistentVolumeClaim, t *target) *corev1.Pod {
	security := &corev1.PodSecurityContext{RunAsNonRoot: ptr.To(true),
		SeccompProfile: &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault}}
	if !p.SCC {
		security.RunAsUser, security.RunAsGroup, security.FSGroup = ptr.To(user), ptr.To(user), ptr.To(user)
	}
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: claim.Namespace, Name: claim.Name, Labels: probeLabels,
			Annotations: map[string]string{"openshift.io/required-scc": "restricted-v2"},
			OwnerReferences: []metav1.OwnerReference{{APIVersion: "v1", Kind: "PersistentVolumeClaim",
				Name: claim.Name, UID: claim.UID}}},
		Spec: corev1.PodSpec{
			AutomountServiceAccountToken:  ptr.To(false),
			EnableServiceLinks:            ptr.To(false),
			RestartPolicy:                 corev1.RestartPolicyNever,
			ActiveDeadlineSeconds:         ptr.To(int64(limit.Seconds())),
			TerminationGracePeriodSeconds: ptr.To(int64(1)),
			SecurityContext:               security,
			Affinity:                      &corev1.Affinity{NodeAffinity: onNode(t.node)},
			Tolerations:                   []corev1.Toleration{{Operator: corev1.TolerationOpExists}},
			Volumes: []corev1.Volume{{Name: "volume", VolumeSource: corev1.VolumeSource{
				PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: claim.Name}}}},
			Containers: []corev1.Container{p.newContainer()},
		},
	}
}

func (p *Prober) newContainer() corev1.Container {
	return corev1.Container{
		Name: "probe", Image: p.Image, ImagePullPolicy: corev1.PullIfNotPresent,
		Args:         []string{"probe", mountPath},
		VolumeMounts: []corev1.VolumeMount{{Name: "volume", MountPath: mountPath}},
		Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{
			corev1.ResourceCPU: resource.MustParse("1m"), corev1.ResourceMemory: resource.MustParse("16Mi")}},
		TerminationMessagePolicy: corev1.TerminationMessageFallbackToLogsOnError,
		SecurityContext: &corev1.SecurityContext{
			AllowPrivilegeEscalation: ptr.To(false), ReadOnlyRootFilesystem: ptr.To(true),
			Capabilities: &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}}},
	}
}

func onNode(name string) *corev1.NodeAffinity {
	return &corev1.NodeAffinity{RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{
		NodeSelectorTerms: []corev1.NodeSelectorTerm{{MatchFields: []corev1.NodeSelectorRequirement{
			{Key: metav1.ObjectNameField, Operator: corev1.NodeSelectorOpIn, Values: []string{name}}}}}}}
}
