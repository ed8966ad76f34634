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
)

// maxRecords and maxRecordBytes limit a ConfigMap of records: their number, and the bytes of keys and values. A
// ConfigMap is limited to 1 MiB (corev1.MaxSecretSize), and the names of devices and volumes differ in length.
const (
	maxRecords     = 4000
	maxRecordBytes = 900 << 10
)

// labelComponent is the label with the purpose of an object.
const labelComponent = "app.kubernetes.io/component"

// newRecords returns a new ConfigMap for records. It has the labels and the owner of like: the LVMCluster.
func newRecords(namespace, name, component string, like metav1.Object) *corev1.ConfigMap {
	labels := maps.Clone(like.GetLabels())
	if labels == nil {
		labels = map[string]string{}
	}
	labels[labelComponent] = component
	return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{
		Name: name, Namespace: namespace, Labels: labels, OwnerReferences: slices.Clone(like.GetOwnerReferences()),
	}}
}

// addRecords adds records to a ConfigMap, which it creates if it does not exist. If the ConfigMap is full, it drops the
// oldest records. It writes nothing if the ConfigMap has the records already.
func (c *Controller) addRecords(ctx context.Context, object *corev1.ConfigMap, records map[string]string) error {
	err := c.live.Get(ctx, client.ObjectKeyFromObject(object), object)
	missing := apierrors.IsNotFound(err)
	if err != nil && !missing {
		return fmt.Errorf("read ConfigMap %s to add records: %w", object.Name, err)
	}
	if object.Data == nil {
		object.Data = map[string]string{}
	}
	before := maps.Clone(object.Data)
	maps.Copy(object.Data, records)
	if dropped := dropOldest(object.Data); dropped > 0 {
		log.FromContext(ctx).Info("dropped the oldest records, because the ConfigMap is full", "configMap", object.Name,
			"dropped", dropped)
	}
	switch {
	case missing:
		err = c.client.Create(ctx, object)
	case !maps.Equal(before, object.Data):
		err = c.client.Update(ctx, object)
	}
	if err != nil {
		return fmt.Errorf("write records to ConfigMap %s: %w", object.Name, err)
	}
	return nil
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
		r := struct{ Time time.Time }{}
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
