//go:build env

package env

import (
	"context"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/util/retry"
	"sigs.k8s.io/controller-runtime/pkg/client"

	lvmv1alpha1 "github.com/lvm-storage/lvm-operator/api/v1alpha1"
)

// crdOfClusters returns the CRD of LVMClusters on the API server.
func crdOfClusters(t *testing.T) *unstructured.Unstructured {
	t.Helper()
	crd := &unstructured.Unstructured{}
	crd.SetAPIVersion("apiextensions.k8s.io/v1")
	crd.SetKind("CustomResourceDefinition")
	if err := server.Client.Get(context.Background(),
		client.ObjectKey{Name: "lvmclusters.lvm.topolvm.io"}, crd); err != nil {
		t.Fatal(err)
	}
	return crd
}

// withSchema replaces the schema of LVMClusters, and returns the previous one.
func withSchema(t *testing.T, schema map[string]any) map[string]any {
	t.Helper()
	var before map[string]any
	err := retry.RetryOnConflict(retry.DefaultRetry, func() error {
		crd := crdOfClusters(t)
		versions, _, err := unstructured.NestedSlice(crd.Object, "spec", "versions")
		if err != nil {
			return err
		}
		version, _ := versions[0].(map[string]any)
		before, _, _ = unstructured.NestedMap(version, "schema", "openAPIV3Schema")
		if err := unstructured.SetNestedMap(version, schema, "schema", "openAPIV3Schema"); err != nil {
			return err
		}
		if err := unstructured.SetNestedSlice(crd.Object, versions, "spec", "versions"); err != nil {
			return err
		}
		return server.Client.Update(context.Background(), crd)
	})
	if err != nil {
		t.Fatal(err)
	}
	return before
}

// TestWhatOlderVersionsAcceptedCanBeChanged: upstream accepts values that this version refuses. An LVMCluster that has
// them already can be changed in other places, and its status can be written: the API server does not validate what has
// not changed (KEP-4008).
func TestWhatOlderVersionsAcceptedCanBeChanged(t *testing.T) {
	long := "a-name-of-a-device-class-that-is-longer-than-the-sixty-three-characters-of-a-label"
	storage := map[string]string{
		"raid10":  `{deviceClasses: [{name: vg1, raidConfig: {type: raid10, mirrors: 2}}]}`,
		"raid6":   `{deviceClasses: [{name: vg1, raidConfig: {type: raid6, stripes: 2}}]}`,
		"stripes": `{deviceClasses: [{name: vg1, raidConfig: {type: raid5, stripeSize: 8Mi}}]}`,
		"name":    `{deviceClasses: [{name: ` + long + `}]}`,
		"path":    `{deviceClasses: [{name: vg1, deviceSelector: {paths: [/dev/.hidden]}}]}`,
		"copies":  `{deviceClasses: [{name: vg1, raidConfig: {type: raid1, mirrors: 10}}]}`,
		"width":   `{deviceClasses: [{name: vg1, raidConfig: {type: raid5, stripes: 61}}]}`,
		"pool":    `{deviceClasses: [{name: vg1, thinPoolConfig: {name: thin pool, overprovisionRatio: 10}}]}`,
		"ratio":   `{deviceClasses: [{name: vg1, thinPoolConfig: {name: p, overprovisionRatio: 200}}]}`,
		"host": `{deviceClasses: [{name: vg1, thinPoolConfig: {name: p, overprovisionRatio: 10, chunkSize: 64Ki, ` +
			`chunkSizeCalculationPolicy: Host, metadataSize: 1Gi, metadataSizeCalculationPolicy: Host}}]}`,
	}
	ctx := context.Background()
	schema := withSchema(t, map[string]any{"type": "object", "x-kubernetes-preserve-unknown-fields": true})
	restored := false
	restore := func() {
		if !restored {
			withSchema(t, schema)
			restored = true
		}
	}
	t.Cleanup(restore)
	objects := map[string]*lvmv1alpha1.LVMCluster{}
	for name, text := range storage {
		c := cluster(t, text)
		c.Name = "older-" + name
		for end := time.Now().Add(Patience); ; time.Sleep(200 * time.Millisecond) {
			c.ResourceVersion, c.UID = "", ""
			err := server.Client.Create(ctx, c)
			if err == nil {
				break
			}
			if time.Now().After(end) {
				t.Fatal(err)
			}
		}
		objects[name] = c
		t.Cleanup(func() { _ = server.Client.Delete(ctx, c) })
	}
	restore()
	refused := cluster(t, storage["raid10"])
	refused.Name = "newer"
	for end := time.Now().Add(Patience); server.Client.Create(ctx, refused.DeepCopy(), client.DryRunAll) == nil; {
		if time.Now().After(end) {
			t.Fatal("the schema is not in effect again")
		}
		time.Sleep(200 * time.Millisecond)
	}
	for name, c := range objects {
		t.Run(name, func(t *testing.T) {
			changed := c.DeepCopy()
			class := &changed.Spec.Storage.DeviceClasses[0]
			class.Default = true
			class.StorageClassOptions = &lvmv1alpha1.StorageClassOptions{AdditionalLabels: map[string]string{"a": "b"}}
			if class.ThinPoolConfig != nil { // another field of the same object
				class.ThinPoolConfig.HighWaterMarkPercent = 90
			}
			changed.Spec.Storage.DeviceClasses = append(changed.Spec.Storage.DeviceClasses,
				lvmv1alpha1.DeviceClass{Name: "another"})
			if err := server.Client.Update(ctx, changed); err != nil {
				t.Errorf("change: %v", err)
			}
			changed.Status.State = lvmv1alpha1.LVMStatusProgressing
			if err := server.Client.Status().Update(ctx, changed); err != nil {
				t.Errorf("status: %v", err)
			}
			if err := server.Client.Patch(ctx, changed, client.RawPatch("application/merge-patch+json",
				[]byte(`{"metadata":{"finalizers":["example.com/x"]}}`))); err != nil {
				t.Errorf("finalizer: %v", err)
			}
			if err := server.Client.Patch(ctx, changed, client.RawPatch("application/merge-patch+json",
				[]byte(`{"metadata":{"finalizers":null}}`))); err != nil {
				t.Errorf("removal of the finalizer: %v", err)
			}
		})
	}
}
