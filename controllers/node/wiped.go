package node

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
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

// maxRecords and maxRecordBytes limit the record: the number of devices, and the bytes of keys and values. A ConfigMap
// is limited to 1 MiB (corev1.MaxSecretSize), and the names of devices differ in length.
const (
	maxRecords     = 4000
	maxRecordBytes = 900 << 10
)

// labelComponent is the label with the purpose of an object.
const labelComponent = "app.kubernetes.io/component"

// record is the information about a wipe that stays when its node no longer exists.
type record struct {
	DeviceClass string    `json:"deviceClass"`
	ClassUID    string    `json:"classUID"`
	ID          string    `json:"id"`
	Node        string    `json:"node"`
	Time        time.Time `json:"time"`
}

// +kubebuilder:rbac:groups="",resources=configmaps,namespace=openshift-lvm-storage,verbs=create
// +kubebuilder:rbac:groups="",resources=configmaps,resourceNames=lvms-wiped-devices,namespace=openshift-lvm-storage,verbs=get;update;delete

// keepRecords saves the wiped devices of a node that no longer exists before its node status is deleted. If the node is
// installed again and returns, none of its disks is wiped a second time.
func (c *Controller) keepRecords(ctx context.Context, status *lvmv1alpha1.LVMVolumeGroupNodeStatus,
	groups []lvmv1alpha1.LVMVolumeGroup) error {
	records, err := recordsOf(status, groups)
	if err != nil || len(records) == 0 {
		return err
	}
	object := newRecords(c.namespace, status)
	err = c.live.Get(ctx, client.ObjectKeyFromObject(object), object)
	missing := apierrors.IsNotFound(err)
	if err != nil && !missing {
		return fmt.Errorf("record the wiped devices: read ConfigMap %s to add those of node %s: %w",
			object.Name, status.Name, err)
	}
	if object.Data == nil {
		object.Data = map[string]string{}
	}
	for key, value := range records {
		object.Data[key] = value
	}
	if dropped := dropOldest(object.Data); dropped > 0 {
		log.FromContext(ctx).Info("dropped the oldest records of wiped devices, because the ConfigMap is full",
			"configMap", object.Name, "dropped", dropped)
	}
	if missing {
		err = c.client.Create(ctx, object)
	} else {
		err = c.client.Update(ctx, object)
	}
	if err != nil {
		return fmt.Errorf("record the wiped devices of deleted node %s: %w", status.Name, err)
	}
	return nil
}

// newRecords returns a new ConfigMap for the record. It has the same owner as the node status: the LVMCluster.
func newRecords(namespace string, status *lvmv1alpha1.LVMVolumeGroupNodeStatus) *corev1.ConfigMap {
	labels := maps.Clone(status.Labels)
	if labels == nil {
		labels = map[string]string{}
	}
	labels[labelComponent] = "wiped-devices"
	return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{
		Name: lvmv1alpha1.WipedDevicesConfigMap, Namespace: namespace, Labels: labels,
		OwnerReferences: slices.Clone(status.OwnerReferences),
	}}
}

// recordsOf encodes the wipes of a node. It omits those of device classes that no longer exist: a new device class with
// the same name is a new consent.
func recordsOf(status *lvmv1alpha1.LVMVolumeGroupNodeStatus,
	groups []lvmv1alpha1.LVMVolumeGroup) (map[string]string, error) {
	records := map[string]string{}
	for _, entry := range status.Status.NodeStatus {
		at := slices.IndexFunc(groups, func(g lvmv1alpha1.LVMVolumeGroup) bool { return g.Name == entry.Name })
		if at < 0 {
			continue
		}
		for _, wiped := range entry.WipedDevices {
			value, err := json.Marshal(record{
				DeviceClass: entry.Name, ClassUID: string(groups[at].UID), ID: wiped.ID, Node: status.Name,
				Time: wiped.Time.UTC(),
			})
			if err != nil {
				return nil, err
			}
			records[lvmv1alpha1.WipedDeviceKey(entry.Name, wiped.ID)] = string(value)
		}
	}
	return records, nil
}

// dropOldest removes the oldest records until the limits are met, and returns their number.
func dropOldest(data map[string]string) int {
	size := 0
	for key, value := range data {
		size += len(key) + len(value)
	}
	if len(data) <= maxRecords && size <= maxRecordBytes {
		return 0
	}
	type aged struct {
		key  string
		time time.Time
	}
	var all []aged
	for key, value := range data {
		r := record{}
		// A record that cannot be decoded counts as the oldest.
		_ = json.Unmarshal([]byte(value), &r)
		all = append(all, aged{key, r.Time})
	}
	slices.SortFunc(all, func(a, b aged) int {
		if c := a.time.Compare(b.time); c != 0 {
			return c
		}
		return strings.Compare(a.key, b.key)
	})
	dropped := 0
	for _, old := range all {
		if len(data) <= maxRecords && size <= maxRecordBytes {
			break
		}
		size -= len(old.key) + len(data[old.key])
		delete(data, old.key)
		dropped++
	}
	return dropped
}
