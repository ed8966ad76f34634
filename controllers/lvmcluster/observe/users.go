package observe

import (
	"context"
	"fmt"
	"slices"
	"strings"

	topolvmv1 "github.com/topolvm/topolvm/api/v1"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"sigs.k8s.io/controller-runtime/pkg/client"

	lvmv1alpha1 "github.com/lvm-storage/lvm-operator/api/v1alpha1"
	"github.com/lvm-storage/lvm-operator/internal/paging"
	"github.com/lvm-storage/lvm-operator/internal/text"
)

// Users are the objects that use storage.
type Users struct {
	Claims, Volumes, LogicalVolumes []string

	unused unusedVolumes
}

// None reports whether there are no users.
func (u Users) None() bool {
	return len(u.Claims)+len(u.Volumes)+len(u.LogicalVolumes) == 0
}

// String lists the users, the first few of each kind.
func (u Users) String() string {
	var parts []string
	for _, kind := range []struct {
		name  string
		names []string
	}{
		{"PersistentVolumeClaim", u.Claims},
		{"PersistentVolume", u.Volumes},
		{"LogicalVolume", u.LogicalVolumes},
	} {
		if len(kind.names) > 0 {
			parts = append(parts, text.List(kind.name, kind.names))
		}
	}
	return strings.Join(parts, "; ")
}

// scope limits users to one device class; without a class it includes all users.
type scope struct {
	class     string
	isDefault bool
}

func (s scope) all() bool { return s.class == "" }

// has reports whether a volume with a device class is in the scope. A volume without one is in the default device
// class.
func (s scope) has(class string) bool {
	return s.all() || class == s.class || class == "" && s.isDefault
}

// AllUsers returns the users of the storage. Like UsersOf it must read from the API server, because a stale cache could
// miss a volume.
func AllUsers(ctx context.Context, live client.Reader) (Users, error) {
	return usersOf(ctx, live, scope{})
}

// UsersOf returns the users of the device class of an LVMVolumeGroup.
func UsersOf(ctx context.Context, live client.Reader, group *lvmv1alpha1.LVMVolumeGroup) (Users, error) {
	return usersOf(ctx, live, scope{class: group.Name, isDefault: group.Spec.Default})
}

func usersOf(ctx context.Context, live client.Reader, in scope) (Users, error) {
	classes, err := deviceClassOfStorageClass(ctx, live)
	if err != nil {
		return Users{}, err
	}
	ofClass := func(storageClass string) bool {
		class, ours := classes(storageClass)
		return ours && in.has(class)
	}
	users := Users{unused: newUnusedVolumes()}
	handles := sets.New[string]()
	if users.LogicalVolumes, err = logicalVolumes(ctx, live, in, handles, users.unused); err != nil {
		return Users{}, err
	}
	if users.Volumes, err = persistentVolumes(ctx, live,
		func(source *corev1.CSIPersistentVolumeSource, storageClass string) bool {
			return in.all() || handles.Has(source.VolumeHandle) || ofClass(storageClass)
		}, users.unused); err != nil {
		return Users{}, err
	}
	if users.Claims, err = claims(ctx, live, ofClass, users.unused); err != nil {
		return Users{}, err
	}
	return users, nil
}

// deviceClassOfStorageClass returns a function that maps the name of a StorageClass to its device class, and reports
// whether the StorageClass is of our driver. For a StorageClass that does not exist, the name decides.
func deviceClassOfStorageClass(ctx context.Context, live client.Reader) (func(string) (string, bool), error) {
	list := &storagev1.StorageClassList{}
	if err := live.List(ctx, list); err != nil {
		return nil, fmt.Errorf("list StorageClasses: %w", err)
	}
	known := map[string]storagev1.StorageClass{}
	for _, class := range list.Items {
		known[class.Name] = class
	}
	return func(name string) (string, bool) {
		if class, ok := known[name]; ok {
			return class.Parameters[lvmv1alpha1.DeviceClassParameter], class.Provisioner == lvmv1alpha1.DriverName
		}
		return strings.CutPrefix(name, lvmv1alpha1.StorageClassPrefix)
	}, nil
}

// logicalVolumes returns the names of the LogicalVolumes in a scope, and adds their volume handles to handles.
func logicalVolumes(ctx context.Context, live client.Reader, in scope, handles sets.Set[string],
	unused unusedVolumes) ([]string, error) {
	var names []string
	err := paging.Each(ctx, live, &topolvmv1.LogicalVolumeList{}, func(list *topolvmv1.LogicalVolumeList) {
		for i := range list.Items {
			volume := &list.Items[i]
			if in.has(volume.Spec.DeviceClass) {
				unused.addLogicalVolume(volume)
				names = append(names, volume.Name+" on node "+volume.Spec.NodeName)
				handles.Insert(volume.Status.VolumeID)
			}
		}
	})
	handles.Delete("")
	return sorted(names), err
}

// persistentVolumes returns the names of our driver's PersistentVolumes for which matches returns true. It names the
// reclaim policy Retain, because such a PersistentVolume stays when its claim is deleted.
func persistentVolumes(ctx context.Context, live client.Reader,
	matches func(source *corev1.CSIPersistentVolumeSource, storageClass string) bool, unused unusedVolumes,
) ([]string, error) {
	var names []string
	err := paging.Each(ctx, live, &corev1.PersistentVolumeList{}, func(list *corev1.PersistentVolumeList) {
		for _, volume := range list.Items {
			source := volume.Spec.CSI
			if source != nil && source.Driver == lvmv1alpha1.DriverName && matches(source,
				volume.Spec.StorageClassName) {
				unused.addPersistentVolume(&volume)
				name := volume.Name
				if volume.Spec.PersistentVolumeReclaimPolicy == corev1.PersistentVolumeReclaimRetain {
					name += " (reclaim policy Retain)"
				}
				names = append(names, name)
			}
		}
	})
	return sorted(names), err
}

// claims returns the names of the claims for whose StorageClass matches returns true.
func claims(ctx context.Context, live client.Reader, matches func(storageClass string) bool,
	unused unusedVolumes) ([]string, error) {
	var names []string
	err := paging.Each(ctx, live, &corev1.PersistentVolumeClaimList{}, func(list *corev1.PersistentVolumeClaimList) {
		for _, claim := range list.Items {
			unused.addClaim(&claim)
			if matches(storageClassOf(&claim)) {
				names = append(names, claim.Namespace+"/"+claim.Name)
			}
		}
	})
	return sorted(names), err
}

// storageClassOf returns the StorageClass name of a claim. Old claims have it in an annotation.
func storageClassOf(claim *corev1.PersistentVolumeClaim) string {
	if class, ok := claim.Annotations[corev1.BetaStorageClassAnnotation]; ok {
		return class
	}
	if claim.Spec.StorageClassName != nil {
		return *claim.Spec.StorageClassName
	}
	return ""
}

func sorted(names []string) []string {
	slices.Sort(names)
	return names
}
