package volumeimport

import (
	"context"
	"fmt"
	"path"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/lvm-storage/lvm-operator/api/wellknown"
	"github.com/lvm-storage/lvm-operator/controllers/volumeimport/legacypv"
	"github.com/lvm-storage/lvm-operator/internal/kube/paging"
	"github.com/lvm-storage/lvm-operator/internal/volume/relocate"
)

// runningTopoLVM tells in one pass whether TopoLVM still runs, on a node or its controller. It reads all Pods, at most
// once.
type runningTopoLVM struct {
	*Controller
	// told has the nodes and Pods that were logged because TopoLVM runs there.
	told              map[string]bool
	isRead, isRunning bool
	err               error
}

// runs reports whether a Pod of TopoLVM's controller exists that has not ended. Its sidecars then create, expand and
// delete the volumes of the earlier driver. They need not have a Lease, so only the Pod shows that they run.
func (t *runningTopoLVM) runs(ctx context.Context) (bool, error) {
	if t.isRead {
		return t.isRunning, t.err
	}
	t.isRead = true
	t.err = paging.Until(ctx, t.live, &corev1.PodList{}, func(list *corev1.PodList) bool {
		for i := range list.Items {
			if pod := &list.Items[i]; relocate.Runs(pod) && hasTopoLVMController(pod) {
				t.isRunning = true
				t.tellOfController(ctx, pod)
				return true
			}
		}
		return false
	})
	if t.err != nil {
		t.err = fmt.Errorf("list Pods to find out whether the controller of TopoLVM runs: %w", t.err)
	}
	return t.isRunning, t.err
}

// hasTopoLVMController reports whether a container runs topolvm-controller, as those of TopoLVM's chart and of LVMS
// before 4.13 do.
func hasTopoLVMController(pod *corev1.Pod) bool {
	return slices.ContainsFunc(pod.Spec.Containers, func(c corev1.Container) bool {
		return slices.ContainsFunc(slices.Concat(c.Command, c.Args),
			func(argument string) bool { return path.Base(argument) == "topolvm-controller" })
	})
}

// tellOfController logs once for each Pod that TopoLVM's controller runs. This is not a problem.
func (t *runningTopoLVM) tellOfController(ctx context.Context, pod *corev1.Pod) {
	name := pod.Namespace + "/" + pod.Name
	if t.told[name] {
		return
	}
	t.told[name] = true
	log.FromContext(ctx).Info("creation, expansion and deletion of volumes of an earlier TopoLVM are left to it",
		"driver", wellknown.EarlierDriverName, "cause", "its controller runs in Pod "+name)
}

// isLeft reports whether TopoLVM still runs, on a node or its controller. "" is an unknown node.
func (t *runningTopoLVM) isLeft(ctx context.Context, node string) (bool, error) {
	if left, err := t.runs(ctx); left || err != nil || node == "" {
		return left, err
	}
	drivers, err := t.driversOf(ctx, node)
	if err != nil || !slices.Contains(drivers, wellknown.EarlierDriverName) {
		return false, err
	}
	t.tellOfNode(ctx, node)
	return true, nil
}

// tellOfNode logs once for each node that TopoLVM serves its volumes itself. This is not a problem.
func (t *runningTopoLVM) tellOfNode(ctx context.Context, node string) {
	if t.told[node] {
		return
	}
	t.told[node] = true
	log.FromContext(ctx).Info("the volumes of an earlier TopoLVM are left to it", "driver", wellknown.EarlierDriverName,
		"node", node, "cause", legacypv.StillRuns(node))
}
