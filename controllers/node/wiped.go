package node

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	lvmv1alpha1 "github.com/lvm-storage/lvm-operator/api/v1alpha1"
)

// maxRecords is how many devices the record holds: about 250 bytes each, in an object that may have 1 MiB.
const maxRecords = 4000

// record is what is kept of a wipe when its node is gone.
type record struct {
	DeviceClass string    `json:"deviceClass"`
	ClassUID    string    `json:"classUID"`
	ID          string    `json:"id"`
	Node        string    `json:"node"`
	Time        time.Time `json:"time"`
}

// +kubebuilder:rbac:groups="",resources=configmaps,namespace=openshift-lvm-storage,verbs=create
// +kubebuilder:rbac:groups="",resources=configmaps,resourceNames=lvms-wiped-devices,namespace=openshift-lvm-storage,verbs=get;update;delete

// keepRecords saves what was wiped on a node that is gone, before its node status goes too: if the node comes back, installed anew,
// nothing on its disks is wiped a second time.
func (c *Controller) keepRecords(ctx context.Context, status *lvmv1alpha1.LVMVolumeGroupNodeStatus, groups []lvmv1alpha1.LVMVolumeGroup) error {
	records, err := recordsOf(status, groups)
	if err != nil || len(records) == 0 {
		return err
	}
	object := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: lvmv1alpha1.WipedDevicesConfigMap, Namespace: c.namespace}}
	err = c.live.Get(ctx, client.ObjectKeyFromObject(object), object)
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("record of wiped devices: %w", err)
	}
	missing := apierrors.IsNotFound(err)
	if object.Data == nil {
		object.Data = map[string]string{}
	}
	for key, value := range records {
		object.Data[key] = value
	}
	if dropped := dropOldest(object.Data); dropped > 0 {
		log.FromContext(ctx).Info("The record of wiped devices is full: the oldest were dropped", "dropped", dropped, "limit", maxRecords)
	}
	if missing {
		err = c.client.Create(ctx, object)
	} else {
		err = c.client.Update(ctx, object)
	}
	if err != nil {
		return fmt.Errorf("record of wiped devices: save those of node %s, which is gone: %w", status.Name, err)
	}
	return nil
}

// recordsOf words the wipes of a node. Those of a device class that is gone are not needed: the next of its name is another consent.
func recordsOf(status *lvmv1alpha1.LVMVolumeGroupNodeStatus, groups []lvmv1alpha1.LVMVolumeGroup) (map[string]string, error) {
	records := map[string]string{}
	for _, entry := range status.Status.NodeStatus {
		at := slices.IndexFunc(groups, func(g lvmv1alpha1.LVMVolumeGroup) bool { return g.Name == entry.Name })
		if at < 0 {
			continue
		}
		for _, wiped := range entry.WipedDevices {
			value, err := json.Marshal(record{
				DeviceClass: entry.Name, ClassUID: string(groups[at].UID), ID: wiped.ID, Node: status.Name, Time: wiped.Time.UTC(),
			})
			if err != nil {
				return nil, err
			}
			records[lvmv1alpha1.WipedDeviceKey(entry.Name, wiped.ID)] = string(value)
		}
	}
	return records, nil
}

// dropOldest keeps the object within its limit, and returns how many it dropped.
func dropOldest(data map[string]string) int {
	excess := len(data) - maxRecords
	if excess <= 0 {
		return 0
	}
	type aged struct {
		key  string
		time time.Time
	}
	var all []aged
	for key, value := range data {
		r := record{}
		// One that cannot be read counts as the oldest.
		_ = json.Unmarshal([]byte(value), &r)
		all = append(all, aged{key, r.Time})
	}
	slices.SortFunc(all, func(a, b aged) int {
		if c := a.time.Compare(b.time); c != 0 {
			return c
		}
		return strings.Compare(a.key, b.key)
	})
	for _, old := range all[:excess] {
		delete(data, old.key)
	}
	return excess
}
