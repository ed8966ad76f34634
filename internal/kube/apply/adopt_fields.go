package apply

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"
)

// adoptFields takes over the ownership of fields below spec from the predecessors, so that the following apply removes
// those that are no longer desired. The API server keeps a field as long as any manager owns it (Kubernetes,
// server-side apply, "Transferring ownership"). adoptFields does not take over metadata: other writers with the
// predecessor's name may have added finalizers.
func (a *Applier) adoptFields(ctx context.Context, ref reference, object client.Object) error {
	entries, changed, err := takeOver(object.GetManagedFields(), a.predecessors, string(a.owner))
	if err != nil {
		return fmt.Errorf("%s: read fields of the previous field manager: %w", ref, err)
	}
	if !changed {
		return nil
	}
	// The resource version prevents the loss of fields that others set meanwhile.
	patch, err := json.Marshal([]map[string]any{
		{"op": "replace", "path": "/metadata/managedFields", "value": entries},
		{"op": "replace", "path": "/metadata/resourceVersion", "value": object.GetResourceVersion()},
	})
	if err != nil {
		return fmt.Errorf("%s: read fields of the previous field manager: %w", ref, err)
	}
	target := &metav1.PartialObjectMetadata{}
	target.SetGroupVersionKind(ref.GroupVersionKind)
	target.SetName(ref.Name)
	target.SetNamespace(ref.Namespace)
	if err := a.client.Patch(ctx, target, client.RawPatch(types.JSONPatchType, patch), a.owner); err != nil {
		return fmt.Errorf("%s: take over from %v: %w", ref, a.predecessors, err)
	}
	return nil
}

// takeOver moves the predecessors' fields below spec to the entry of the owner, and reports whether there were any.
func takeOver(entries []metav1.ManagedFieldsEntry, predecessors []string,
	owner string) ([]metav1.ManagedFieldsEntry, bool, error) {
	entries = slices.Clone(entries)
	taken := fieldpath.NewSet()
	version := ""
	for i := range entries {
		e := &entries[i]
		if e.Operation != metav1.ManagedFieldsOperationUpdate || e.Subresource != "" ||
			!slices.Contains(predecessors, e.Manager) {
			continue
		}
		fields, err := decode(e)
		if err != nil {
			return nil, false, err
		}
		spec := below(fields, "spec")
		if spec.Empty() {
			continue
		}
		taken = taken.Union(spec)
		version = e.APIVersion
		if e.FieldsV1, err = encodeFields(fields.Difference(spec)); err != nil {
			return nil, false, err
		}
	}
	if taken.Empty() {
		return nil, false, nil
	}
	at := slices.IndexFunc(entries, func(e metav1.ManagedFieldsEntry) bool {
		return e.Manager == owner && e.Operation == metav1.ManagedFieldsOperationApply && e.Subresource == "" &&
			e.APIVersion == version
	})
	if at < 0 {
		now := metav1.Now()
		entries = append(entries, metav1.ManagedFieldsEntry{
			Manager: owner, Operation: metav1.ManagedFieldsOperationApply, APIVersion: version, Time: &now,
			FieldsType: "FieldsV1", FieldsV1: metav1.NewFieldsV1("{}")})
		at = len(entries) - 1
	}
	own, err := decode(&entries[at])
	if err != nil {
		return nil, false, err
	}
	if entries[at].FieldsV1, err = encodeFields(own.Union(taken)); err != nil {
		return nil, false, err
	}
	return slices.DeleteFunc(entries, func(
		e metav1.ManagedFieldsEntry) bool {
		return e.FieldsV1.GetRawString() == "{}"
	}), true, nil
}

// below returns the fields whose path starts with a name.
func below(all *fieldpath.Set, name string) *fieldpath.Set {
	found := fieldpath.NewSet()
	all.Iterate(func(p fieldpath.Path) {
		if len(p) > 0 && p[0].FieldName != nil && *p[0].FieldName == name {
			found.Insert(p.Copy())
		}
	})
	return found
}

func decode(e *metav1.ManagedFieldsEntry) (*fieldpath.Set, error) {
	fields := fieldpath.NewSet()
	if e.FieldsV1 == nil {
		return fields, nil
	}
	return fields, fields.FromJSON(e.FieldsV1.GetRawReader())
}

func encodeFields(fields *fieldpath.Set) (*metav1.FieldsV1, error) {
	raw, err := fields.ToJSON()
	return metav1.NewFieldsV1(string(raw)), err
}
