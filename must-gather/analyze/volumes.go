package analyze

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/lvm-storage/lvm-operator/api/v1alpha1"
	"github.com/lvm-storage/lvm-operator/api/wellknown"
	"github.com/lvm-storage/lvm-operator/internal/verdict"
)

// claimsPending finds claims without a volume, with the reason.
func claimsPending(f *Facts) []Finding {
	var found []Finding
	for i := range f.Claims {
		claim := &f.Claims[i]
		if claim.Status.Phase == corev1.ClaimBound {
			continue
		}
		severity, why := pending(f, claim)
		found = append(found, Finding{Severity: severity,
			Runbook: map[verdict.Severity]string{verdict.Warning: "LVMSProvisioningFailing"}[severity],
			Text: fmt.Sprintf("claim %s/%s (%s, %s) is %s: %s", claim.Namespace, claim.Name, requested(claim),
				className(claim), cmp.Or(string(claim.Status.Phase), "Pending"), why)})
	}
	return shortened(found, "claims have no volume")
}

func requested(claim *corev1.PersistentVolumeClaim) string {
	return claim.Spec.Resources.Requests.Storage().String()
}

func className(claim *corev1.PersistentVolumeClaim) string {
	if claim.Spec.StorageClassName == nil {
		return "no StorageClass"
	}
	return *claim.Spec.StorageClassName
}

// pending returns why a claim has no volume: the latest event, and whether the capacity of the nodes is sufficient.
func pending(f *Facts, claim *corev1.PersistentVolumeClaim) (verdict.Severity, string) {
	if claim.Status.Phase == corev1.ClaimLost {
		return verdict.Critical, "its PersistentVolume " + claim.Spec.VolumeName + " is gone"
	}
	class := classOf(f, claim)
	if class == nil && !whole(f, "storageclasses") {
		return verdict.Warning, "its StorageClass could not be read"
	}
	if class == nil {
		return verdict.Warning, "its StorageClass does not exist"
	}
	var reasons []string
	severity := verdict.Warning
	if capacity := tooSmall(f, class, claim); capacity != "" {
		reasons = append(reasons, capacity)
	}
	failed := lastEvent(f, "PersistentVolumeClaim", claim.Namespace, claim.Name,
		func(e *corev1.Event) bool { return e.Type == corev1.EventTypeWarning })
	if failed != nil {
		reasons = append(reasons, failed.Reason+": "+failed.Message)
	}
	users := podsWith(f, claim)
	reasons = append(reasons, unschedulable(users)...)
	waits := class.VolumeBindingMode != nil && *class.VolumeBindingMode == storagev1.VolumeBindingWaitForFirstConsumer
	if len(users) == 0 && waits {
		if len(reasons) == 0 {
			severity = verdict.Info
		}
		reasons = append(reasons, "no Pod uses it yet; its volume is created for the first Pod that does")
	}
	if len(reasons) == 0 {
		reasons = append(reasons, "no reason reported: see the log of the operator")
	}
	return severity, strings.Join(reasons, "; ")
}

// unschedulable returns why Pods cannot be scheduled.
func unschedulable(pods []*corev1.Pod) (reasons []string) {
	for _, pod := range pods {
		for _, c := range pod.Status.Conditions {
			if c.Type == corev1.PodScheduled && c.Status == corev1.ConditionFalse {
				reasons = append(reasons, fmt.Sprintf("pod %s cannot be scheduled: %s", pod.Name, c.Message))
			}
		}
	}
	return reasons
}

func classOf(f *Facts, claim *corev1.PersistentVolumeClaim) *storagev1.StorageClass {
	for i := range f.StorageClasses {
		if f.StorageClasses[i].Name == className(claim) {
			return &f.StorageClasses[i]
		}
	}
	return nil
}

func podsWith(f *Facts, claim *corev1.PersistentVolumeClaim) []*corev1.Pod {
	var pods []*corev1.Pod
	for i := range f.Pods {
		if f.Pods[i].Namespace == claim.Namespace && slices.ContainsFunc(f.Pods[i].Spec.Volumes,
			func(v corev1.Volume) bool {
				return v.PersistentVolumeClaim != nil && v.PersistentVolumeClaim.ClaimName == claim.Name
			}) {
			pods = append(pods, &f.Pods[i])
		}
	}
	return pods
}

// tooSmall returns a reason if every node offers less capacity than a claim requests, or "".
func tooSmall(f *Facts, class *storagev1.StorageClass, claim *corev1.PersistentVolumeClaim) string {
	key := wellknown.CapacityAnnotationPrefix + cmp.Or(class.Parameters[wellknown.DeviceClassParameter], "00default")
	best := int64(-1)
	where := ""
	for i := range f.Nodes {
		bytes, err := strconv.ParseInt(f.Nodes[i].Annotations[key], 10, 64)
		if err == nil && bytes > best && notReady(f, f.Nodes[i].Name) == nil {
			best = bytes
			where = f.Nodes[i].Name
		}
	}
	want := claim.Spec.Resources.Requests.Storage()
	switch {
	case len(f.Nodes) == 0 || !whole(f, "nodes"):
		return ""
	case best < 0:
		return "no ready node has capacity for its device class"
	case want.Value() > best:
		return fmt.Sprintf("every node has less capacity than %s: the most is %s on node %s", want,
			resource.NewQuantity(best, resource.BinarySI), where)
	}
	return ""
}

// podsWaiting finds users' Pods that do not start, with the latest event. It omits Pods whose claim has no volume.
func podsWaiting(f *Facts) []Finding {
	unbound := sets.New[string]()
	for i := range f.Claims {
		if f.Claims[i].Status.Phase != corev1.ClaimBound {
			unbound.Insert(f.Claims[i].Namespace + "/" + f.Claims[i].Name)
		}
	}
	var found []Finding
	for i := range f.Pods {
		pod := &f.Pods[i]
		claims := claimsIn(pod)
		if pod.Status.Phase != corev1.PodPending || len(claims) == 0 || unbound.HasAny(claims...) {
			continue
		}
		last := lastEvent(f, "Pod", pod.Namespace, pod.Name,
			func(e *corev1.Event) bool { return e.Type == corev1.EventTypeWarning })
		if last != nil {
			found = append(found, Finding{Severity: verdict.Warning,
				Text: fmt.Sprintf("pod %s/%s (claims %s; node %s) does not start: %s: %s", pod.Namespace, pod.Name,
					some(claims, 3), cmp.Or(pod.Spec.NodeName, "none yet"), last.Reason, last.Message)})
		}
	}
	return shortened(found, "Pods do not start")
}

// claimsIn returns the claims of a Pod, as NAMESPACE/NAME.
func claimsIn(pod *corev1.Pod) []string {
	var claims []string
	for _, v := range pod.Spec.Volumes {
		if v.PersistentVolumeClaim != nil {
			claims = append(claims, pod.Namespace+"/"+v.PersistentVolumeClaim.ClaimName)
		}
	}
	return claims
}

// maxOfARule is the maximum number of findings of a rule that may find thousands.
const maxOfARule = 20

func shortened(found []Finding, what string) []Finding {
	if len(found) <= maxOfARule {
		return found
	}
	return append(found[:maxOfARule:maxOfARule],
		Finding{Severity: found[0].Severity, Text: fmt.Sprintf("%d more %s", len(found)-maxOfARule, what)})
}

// patience is the duration of a deletion from which there is a finding.
const patience = 10 * time.Minute

// deletionsStuck finds objects whose deletion takes too long.
func deletionsStuck(f *Facts) []Finding {
	var found []Finding
	look := func(kind string, o *metav1.ObjectMeta, why string) {
		if o.DeletionTimestamp != nil && f.Now.Sub(o.DeletionTimestamp.Time) > patience {
			found = append(found, Finding{Severity: verdict.Warning,
				Text: fmt.Sprintf("%s %s has been terminating since %s, blocked by %s%s", kind, o.Name,
					at(o.DeletionTimestamp.Time), some(o.Finalizers, 3), why)})
		}
	}
	for i := range f.Clusters {
		why := ""
		c := meta.FindStatusCondition(f.Clusters[i].Status.Conditions, v1alpha1.ConditionResourcesAvailable)
		if c != nil {
			why = ": " + c.Message
		}
		look("LVMCluster", &f.Clusters[i].ObjectMeta, why)
	}
	for i := range f.VolumeGroups {
		look("LVMVolumeGroup", &f.VolumeGroups[i].ObjectMeta, "")
	}
	for i := range f.LogicalVolumes {
		look("LogicalVolume", &f.LogicalVolumes[i].ObjectMeta, " (node "+f.LogicalVolumes[i].Spec.NodeName+")")
	}
	return shortened(found, "objects are blocked in deletion")
}

// alerts returns one finding for each name of a firing alert.
func alerts(f *Facts) []Finding {
	names := map[string][]string{}
	severities := map[string]verdict.Severity{}
	for _, a := range f.Alerts {
		name := a.Labels["alertname"]
		if a.State != "firing" {
			continue
		}
		names[name] = append(names[name], strings.Trim(a.Labels["device_class"]+" "+a.Labels["node"], " "))
		severities[name] = map[string]verdict.Severity{"critical": verdict.Critical,
			"warning": verdict.Warning}[a.Labels["severity"]]
	}
	var found []Finding
	for _, name := range sets.List(sets.KeySet(names)) {
		slices.Sort(names[name])
		found = append(found, Finding{Severity: cmp.Or(severities[name], verdict.Info), Runbook: name,
			Text: strings.TrimSuffix(fmt.Sprintf("firing alert %s: %s", name, some(names[name], 6)), ": ")})
	}
	return found
}

// gaps lists what could not be read, so that its state is unknown.
func gaps(f *Facts) []Finding {
	var found []Finding
	if f.Timings.Interrupted != "" {
		found = append(found, Finding{Severity: verdict.Info,
			Text: "the collection was interrupted before all data was read: " + f.Timings.Interrupted})
	}
	for _, failure := range f.Failures.Failures {
		found = append(found, Finding{Severity: verdict.Info,
			Text: fmt.Sprintf("could not be read: %s: %s", failure.What, failure.Error)})
	}
	for _, name := range f.Unreadable {
		found = append(found, Finding{Severity: verdict.Info, Text: "could not be parsed: " + name})
	}
	for _, node := range sets.List(sets.KeySet(f.Collected)) {
		for _, r := range f.Collected[node].Results {
			if r.Error != "" {
				found = append(found, Finding{Severity: verdict.Info,
					Text: fmt.Sprintf("node %s: %s could not be read: %s", node, r.File, r.Error)})
			}
		}
	}
	if f.Failures.Omitted > 0 {
		found = append(found, Finding{Severity: verdict.Info,
			Text: fmt.Sprintf("%d more failures are not listed", f.Failures.Omitted)})
	}
	return found
}
