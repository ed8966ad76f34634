// Package podwebhook marks Pods for a scheduler extender: a mutating admission webhook writes the bytes that a Pod
// requests from each device class to its annotations, and adds the extended resource for which kube-scheduler asks the
// extender. It is compatible with the webhook of TopoLVM v0.41, and is off by default.
package podwebhook

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"gomodules.xyz/jsonpatch/v2"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"github.com/lvm-storage/lvm-operator/api/wellknown"
)

// Path is the path of the webhook.
const Path = "/pod/mutate"

// readTimeout limits the reads for a Pod. It is shorter than the timeout of the API server, which would otherwise end
// the call without a warning.
const readTimeout = 5 * time.Second

// Mutator is the admission webhook for Pods.
type Mutator struct {
	reader reader
}

// New returns the webhook. cached may read StorageClasses from a cache; live must read from the API server.
func New(cached, live client.Reader) *Mutator {
	return &Mutator{reader: reader{cached: cached, live: live}}
}

var _ admission.Handler = &Mutator{}

// Handle marks a new Pod. If it cannot read a claim or a StorageClass, it allows the Pod without marks and with a
// warning: kube-scheduler then places the Pod by CSIStorageCapacity, and no Pod has to wait for this webhook.
func (m *Mutator) Handle(ctx context.Context, req admission.Request) admission.Response {
	pod := &corev1.Pod{}
	if err := json.Unmarshal(req.Object.Raw, pod); err != nil {
		return admission.Errored(http.StatusBadRequest, fmt.Errorf("decode the Pod: %w", err))
	}
	if len(pod.Spec.Containers) == 0 || len(pod.Spec.Volumes) == 0 {
		return admission.Allowed("no containers or no volumes")
	}
	reading, cancel := context.WithTimeout(ctx, readTimeout)
	defer cancel()
	requested, err := m.reader.requested(reading, req.Namespace, pod.Spec.Volumes)
	if err != nil {
		log.FromContext(ctx).Error(err, "cannot mark the Pod for the scheduler extender", "namespace", req.Namespace,
			"name", cmp.Or(pod.Name, pod.GenerateName))
		return admission.Allowed("not marked").WithWarnings("LVM Storage has not marked this Pod for the scheduler " +
			"extender, which is not asked where the Pod fits: " + err.Error())
	}
	if len(requested) == 0 {
		return admission.Allowed("no unbound claims of " + wellknown.DriverName)
	}
	return admission.Patched("marked for the scheduler extender", patches(pod, requested)...)
}

// patches returns the changes of a Pod. They are not computed from the decoded Pod, which lacks fields that this
// version of the API does not know.
func patches(pod *corev1.Pod, requested map[string]int64) []jsonpatch.Operation {
	var all []jsonpatch.Operation
	add := func(value any, path ...string) {
		all = append(all, jsonpatch.NewOperation("add", pointer(path...), value))
	}
	if pod.Annotations == nil {
		add(map[string]string{}, "metadata", "annotations")
	}
	for _, class := range slices.Sorted(maps.Keys(requested)) {
		add(strconv.FormatInt(requested[class], 10), "metadata", "annotations",
			wellknown.CapacityAnnotationPrefix+class)
	}
	container := []string{"spec", "containers", "0", "resources"}
	resources := pod.Spec.Containers[0].Resources
	if resources.Requests == nil && resources.Limits == nil && len(resources.Claims) == 0 {
		add(map[string]any{}, container...)
	}
	for name, list := range map[string]corev1.ResourceList{"limits": resources.Limits, "requests": resources.Requests} {
		path := append(slices.Clone(container), name)
		if list == nil {
			add(map[string]any{}, path...)
		}
		add("1", append(path, wellknown.CapacityResource)...)
	}
	return all
}

var escapes = strings.NewReplacer("~", "~0", "/", "~1")

// pointer returns a JSON pointer (RFC 6901).
func pointer(path ...string) string {
	var text strings.Builder
	for _, name := range path {
		text.WriteString("/" + escapes.Replace(name))
	}
	return text.String()
}
