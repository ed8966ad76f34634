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
	"github.com/lvm-storage/lvm-operator/api/wellknown"
	"github.com/lvm-storage/lvm-operator/internal/kube/paging"
	"github.com/lvm-storage/lvm-operator/internal/kube/text"
)

// Users are the objects that use storage.
type Users struct {
	Claims, Volumes, LogicalVolumes []string

	unused    unusedVolumes
	leftovers *rememberedLeftovers
	// one is one of them; nil if there are none.
	one *user
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

// UsersOf returns the users of the device class of an LVMVolumeGroup. It must read from the API server, because a stale
// cache could miss a volume.
func UsersOf(ctx context.Context, live client.Reader, group *lvmv1alpha1.LVMVolumeGroup) (Users, error) {
	return usersOf(ctx, live, scopeOf(group), false)
}

func scopeOf(group *lvmv1alpha1.LVMVolumeGroup) scope {
	return scope{class: group.Name, isDefault: group.Spec.Default}
}

// usersOf returns the users in a scope. With first, it stops at the page that has the first one.
func usersOf(ctx context.Context, live client.Reader, in scope, first bool) (Users, error) {
	classes, err := deviceClassOfStorageClass(ctx, live)
	if err != nil {
		return Users{}, err
	}
	s := &search{in: in, first: first, handles: sets.New[string](), users: Users{unused: newUnusedVolumes(),
		leftovers: &rememberedLeftovers{}},
		ofClass: func(storageClass string) bool {
			class, ours := classes(storageClass)
			return ours && in.has(class)
		}}
	// LogicalVolumes are first, because their volume handles are those of PersistentVolumes in the scope; claims are
	// last: see unusedVolumes.
	err = paging.Until(ctx, live, &topolvmv1.LogicalVolumeList{}, s.addLogicalVolumes)
	if err == nil && !s.done() {
		err = paging.Until(ctx, live, &corev1.PersistentVolumeList{}, s.addPersistentVolumes)
	}
	if err == nil && !s.done() {
		err = paging.Until(ctx, live, &corev1.PersistentVolumeClaimList{}, s.addClaims)
	}
	if err != nil {
		return Users{}, err
	}
	slices.Sort(s.users.LogicalVolumes)
	slices.Sort(s.users.Volumes)
	slices.Sort(s.users.Claims)
	return s.users, nil
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
			return class.Parameters[wellknown.DeviceClassParameter], class.Provisioner == wellknown.DriverName
		}
		return strings.CutPrefix(name, wellknown.StorageClassPrefix)
	}, nil
}

// search finds the users in a scope, page by page. Its methods report whether the search can stop.
type search struct {
	in scope
	// first is whether one user is enough.
	first bool
	// ofClass reports whether a StorageClass is in the scope.
	ofClass func(storageClass string) bool
	// handles are the volume handles of the LogicalVolumes in the scope.
	handles sets.Set[string]
	users   Users
}

func (s *search) done() bool { return s.first && s.users.one != nil }

func (s *search) found(kind string, object client.Object) {
	if s.users.one == nil {
		s.users.one = &user{kind: kind, key: client.ObjectKeyFromObject(object), uid: object.GetUID()}
	}
}

// addLogicalVolumes adds those that are in the scope.
func (s *search) addLogicalVolumes(list *topolvmv1.LogicalVolumeList) bool {
	for i := range list.Items {
		volume := &list.Items[i]
		if !s.in.has(volume.Spec.DeviceClass) {
			continue
		}
		s.found(kindLogicalVolume, volume)
		s.users.unused.addLogicalVolume(volume)
		s.users.LogicalVolumes = append(s.users.LogicalVolumes, volume.Name+" on node "+volume.Spec.NodeName)
		if volume.Status.VolumeID != "" {
			s.handles.Insert(volume.Status.VolumeID)
		}
	}
	return s.done()
}

// addPersistentVolumes adds those of our driver that are in the scope. It names the reclaim policy Retain, because such
// a PersistentVolume stays when its claim is deleted.
func (s *search) addPersistentVolumes(list *corev1.PersistentVolumeList) bool {
	for i := range list.Items {
		volume := &list.Items[i]
		source := volume.Spec.CSI
		if source == nil || source.Driver != wellknown.DriverName ||
			!s.in.all() && !s.handles.Has(source.VolumeHandle) && !s.ofClass(volume.Spec.StorageClassName) {
			continue
		}
		s.found(kindPersistentVolume, volume)
		s.users.unused.addPersistentVolume(volume)
		name := volume.Name
		if volume.Spec.PersistentVolumeReclaimPolicy == corev1.PersistentVolumeReclaimRetain {
			name += " (reclaim policy Retain)"
		}
		s.users.Volumes = append(s.users.Volumes, name)
	}
	return s.done()
}

// addClaims adds those whose StorageClass is in the scope.
func (s *search) addClaims(list *corev1.PersistentVolumeClaimList) bool {
	for i := range list.Items {
		claim := &list.Items[i]
		s.users.unused.addClaim(claim)
		if s.ofClass(storageClassOf(claim)) {
			s.found(kindClaim, claim)
			s.users.Claims = append(s.users.Claims, claim.Namespace+"/"+claim.Name)
		}
	}
	return s.done()
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
