package webhook

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"google.golang.org/grpc/status"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	lvmv1alpha1 "github.com/lvm-storage/lvm-operator/api/v1alpha1"
	"github.com/lvm-storage/lvm-operator/api/wellknown"
	"github.com/lvm-storage/lvm-operator/internal/volume/classspec"
	"github.com/lvm-storage/lvm-operator/internal/volume/service"
)

// This file has the rules for StorageClasses and for the removal of device classes.

// ownParameters are the parameters of a StorageClass that the operator sets from the device class.
var ownParameters = []string{wellknown.DeviceClassParameter, wellknown.FilesystemTypeParameter}

// ownLabels are the labels that the operator sets on all its objects.
var ownLabels = []string{"app.kubernetes.io/managed-by", "app.kubernetes.io/part-of", "app.kubernetes.io/name",
	"app.kubernetes.io/component"}

// ownLabelPrefix is the prefix of the labels that mark the objects of an LVMCluster.
const ownLabelPrefix = "owned-by.topolvm.io/"

// optionsPossible checks that additional parameters and labels are valid for a StorageClass and are not set by the
// operator.
func optionsPossible(classes []lvmv1alpha1.DeviceClass) field.ErrorList {
	var violations field.ErrorList
	for i, class := range classes {
		at := classesPath.Index(i).Child("storageClassOptions")
		violations = append(violations, parametersPossible(classspec.Parameters(class.StorageClassOptions),
			at.Child("additionalParameters"))...)
		violations = append(violations, mkfsOptionsPossible(class, at.Child("additionalParameters"))...)
		violations = append(violations, labelsPossible(classspec.Labels(class.StorageClassOptions),
			at.Child("additionalLabels"))...)
	}
	return violations
}

func parametersPossible(parameters map[string]string, at *field.Path) field.ErrorList {
	var violations field.ErrorList
	for _, key := range slices.Sorted(maps.Keys(parameters)) {
		switch {
		case strings.TrimSpace(key) == "":
			violations = append(violations, field.Invalid(at, key, "a parameter must have a name"))
		case slices.Contains(ownParameters, key):
			violations = append(violations, field.Forbidden(at.Key(key),
				"this parameter is managed by LVMS, which sets it from the device class: remove it"))
		}
	}
	return append(violations, encryptionPossible(parameters, at)...)
}

// mkfsOptionsPossible checks the options of mkfs: no volume could be created with others.
func mkfsOptionsPossible(class lvmv1alpha1.DeviceClass, at *field.Path) field.ErrorList {
	const key = wellknown.MkfsOptionsParameter
	options := classspec.Parameters(class.StorageClassOptions)[key]
	kind := string(cmp.Or(class.FilesystemType, lvmv1alpha1.FilesystemTypeXFS))
	if _, err := service.MkfsOptions(kind, options); err != nil {
		return field.ErrorList{field.Invalid(at.Key(key), options, status.Convert(err).Message())}
	}
	return nil
}

// encryptionPossible checks the parameters for encrypted volumes. Without a Secret, no Pod could use such a volume.
func encryptionPossible(parameters map[string]string, at *field.Path) field.ErrorList {
	var violations field.ErrorList
	method, wanted := parameters[wellknown.EncryptionParameter]
	if wanted && method != wellknown.EncryptionLUKS2 {
		violations = append(violations, field.NotSupported(at.Key(wellknown.EncryptionParameter), method,
			[]string{wellknown.EncryptionLUKS2}))
	}
	discards, set := parameters[wellknown.EncryptionDiscardsParameter]
	if set && discards != "true" && discards != "false" {
		violations = append(violations, field.NotSupported(at.Key(wellknown.EncryptionDiscardsParameter), discards,
			[]string{"true", "false"}))
	}
	for _, key := range []string{wellknown.NodeStageSecretNameParameter,
		wellknown.NodeStageSecretNamespaceParameter} {
		if wanted && parameters[key] == "" {
			violations = append(violations, field.Required(at.Key(key),
				"encrypted volumes need a Secret with their key: set this parameter"))
		}
	}
	return violations
}

func labelsPossible(labels map[string]string, at *field.Path) field.ErrorList {
	var violations field.ErrorList
	for _, key := range slices.Sorted(maps.Keys(labels)) {
		for _, message := range validation.IsQualifiedName(key) {
			violations = append(violations, field.Invalid(at.Key(key), key,
				"additionalLabels key is not a valid label name: "+message))
		}
		for _, message := range validation.IsValidLabelValue(labels[key]) {
			violations = append(violations, field.Invalid(at.Key(key), labels[key],
				"is not a valid label value: "+message))
		}
		if slices.Contains(ownLabels, key) || strings.HasPrefix(key, ownLabelPrefix) {
			violations = append(violations, field.Forbidden(at.Key(key),
				"this label is operator-reserved: use another name"))
		}
	}
	return violations
}

// optionsKept refuses to change the options of a StorageClass, whose fields are immutable. It allows a change to the
// values that the existing StorageClass has, which is how the operator takes over one that a user or another version
// created.
func optionsKept(before, after []lvmv1alpha1.DeviceClass, present []storagev1.StorageClass) field.ErrorList {
	var violations field.ErrorList
	for i, class := range after {
		at := slices.IndexFunc(before, func(c lvmv1alpha1.DeviceClass) bool { return c.Name == class.Name })
		if at < 0 {
			continue
		}
		name := wellknown.StorageClassName(class.Name)
		var is *storagev1.StorageClass
		if found := slices.IndexFunc(present,
			func(c storagev1.StorageClass) bool { return c.Name == name }); found >= 0 {
			is = &present[found]
		}
		old := before[at].StorageClassOptions
		options := class.StorageClassOptions
		path := classesPath.Index(i).Child("storageClassOptions")
		if now := classspec.Reclaim(options); now != classspec.Reclaim(old) &&
			(is == nil || is.ReclaimPolicy == nil || *is.ReclaimPolicy != now) {
			violations = append(violations, unchangeable(path.Child("reclaimPolicy"), string(now),
				string(classspec.Reclaim(old)), name))
		}
		if now := classspec.Binding(options); now != classspec.Binding(old) &&
			(is == nil || is.VolumeBindingMode == nil || *is.VolumeBindingMode != now) {
			violations = append(violations, unchangeable(path.Child("volumeBindingMode"), string(now),
				string(classspec.Binding(old)), name))
		}
		if now := classspec.Parameters(options); !maps.Equal(now, classspec.Parameters(old)) &&
			(is == nil || !maps.Equal(now, added(is.Parameters))) {
			violations = append(violations, unchangeable(path.Child("additionalParameters"), now,
				fmt.Sprint(classspec.Parameters(old)), name))
		}
	}
	return violations
}

// added returns the parameters of a StorageClass that the operator does not set from the device class.
func added(parameters map[string]string) map[string]string {
	rest := maps.Clone(parameters)
	maps.DeleteFunc(rest, func(key, _ string) bool { return slices.Contains(ownParameters, key) })
	return rest
}

func unchangeable(at *field.Path, now any, was, storageClass string) *field.Error {
	return field.Invalid(at, now, fmt.Sprintf(
		"was %s, and StorageClass %s is immutable: create a new device class",
		was, storageClass))
}

// classesKept refuses to remove the default device class without another default, because claims without a class would
// have none. It also refuses to remove the last device class: delete the LVMCluster instead.
func classesKept(before, after []lvmv1alpha1.DeviceClass) field.ErrorList {
	if len(before) > 0 && len(after) == 0 {
		return field.ErrorList{field.Required(classesPath,
			"at least one device class must remain: delete the LVMCluster instead, which waits until no volume "+
				"exists")}
	}
	for _, class := range before {
		stays := slices.ContainsFunc(after, func(c lvmv1alpha1.DeviceClass) bool { return c.Name == class.Name })
		if class.Default && !stays && !anyDefault(after) {
			return field.ErrorList{field.Forbidden(classesPath, fmt.Sprintf(
				"cannot delete default device class %q: first set default to true in another device class, or to "+
					"false in this one", class.Name))}
		}
	}
	return nil
}
