package observe

import (
	"context"
	"fmt"
	"time"

	topolvmv1 "github.com/topolvm/topolvm/api/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	lvmv1alpha1 "github.com/lvm-storage/lvm-operator/api/v1alpha1"
)

const (
	// deletionLookInterval and classLookInterval are the times between two looks at the known user of storage that is
	// to be deleted. Somebody waits for the deletion of an LVMCluster; the last volume of a removed device class may
	// stay for weeks.
	deletionLookInterval = 10 * time.Second
	classLookInterval    = time.Minute
	// shortestListing is the shortest time between two listings of all users in a scope, longestListing the time after
	// which the list is outdated although the known user remains.
	shortestListing = time.Minute
	longestListing  = 10 * time.Minute
)

// The kinds of users.
const (
	kindLogicalVolume    = "LogicalVolume"
	kindPersistentVolume = "PersistentVolume"
	kindClaim            = "PersistentVolumeClaim"
)

// user identifies an object that uses storage.
type user struct {
	kind string
	key  client.ObjectKey
	uid  types.UID
}

// remains reports whether the object still exists. It reads only its metadata.
func (u *user) remains(ctx context.Context, live client.Reader) (bool, error) {
	gvk := corev1.SchemeGroupVersion.WithKind(u.kind)
	if u.kind == kindLogicalVolume {
		gvk = topolvmv1.GroupVersion.WithKind(u.kind)
	}
	object := &metav1.PartialObjectMetadata{}
	object.SetGroupVersionKind(gvk)
	err := live.Get(ctx, u.key, object)
	if apierrors.IsNotFound(err) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("read %s %s: %w", u.kind, u.key, err)
	}
	return object.UID == u.uid, nil
}

// Use remembers what uses storage that is to be deleted, because a list of all volumes and claims of a large cluster is
// expensive, and one user is enough to keep the storage. As long as the user that it knows exists, Use reads only this
// one, and not more often than the interval. If it no longer exists, Use searches until it finds another one. The list
// of all users, which people read, may therefore be some minutes old. That nothing uses the storage is remembered only
// while it is being deleted, when nothing is decided by it. The zero value is ready for use.
type Use struct {
	known map[scope]*knownUse
	// unused has the times at which nothing used storage that is being deleted.
	unused map[scope]time.Time
}

// knownUse is the use of a scope.
type knownUse struct {
	users Users
	one   *user
	// looked is the time of the last look at the known user, and listed that of the last list of all.
	looked, listed time.Time
}

// OfAll returns the users of the storage. begun is whether volume groups are being deleted already.
func (u *Use) OfAll(ctx context.Context, live client.Reader, now time.Time, begun bool) (Users, error) {
	return u.unless(begun, scope{}, now, func() (Users, error) {
		return u.of(ctx, live, scope{}, now, deletionLookInterval)
	})
}

// OfClass returns the users of the device class of an LVMVolumeGroup.
func (u *Use) OfClass(ctx context.Context, live client.Reader, group *lvmv1alpha1.LVMVolumeGroup,
	now time.Time) (Users, error) {
	in := scopeOf(group)
	return u.unless(!group.DeletionTimestamp.IsZero(), in, now, func() (Users, error) {
		return u.of(ctx, live, in, now, classLookInterval)
	})
}

// unless looks for users unless the deletion has begun and there were none a short time ago.
func (u *Use) unless(begun bool, in scope, now time.Time, look func() (Users, error)) (Users, error) {
	if last, unused := u.unused[in]; begun && unused && now.Sub(last) < classLookInterval {
		return Users{}, nil
	}
	delete(u.unused, in)
	users, err := look()
	if err == nil && begun && users.None() {
		if u.unused == nil {
			u.unused = map[scope]time.Time{}
		}
		u.unused[in] = now
	}
	return users, err
}

func (u *Use) of(ctx context.Context, live client.Reader, in scope, now time.Time,
	interval time.Duration) (Users, error) {
	known := u.known[in]
	if known == nil {
		return u.list(ctx, live, in, now)
	}
	if now.Sub(known.looked) < interval {
		return known.users, nil
	}
	remains, err := known.one.remains(ctx, live)
	if err != nil {
		return Users{}, err
	}
	age := now.Sub(known.listed)
	if remains && age < longestListing {
		known.looked = now
		return known.users, nil
	}
	if age >= shortestListing {
		return u.list(ctx, live, in, now)
	}
	found, err := usersOf(ctx, live, in, true)
	if err != nil {
		return Users{}, err
	}
	if found.None() {
		delete(u.known, in)
		return found, nil
	}
	known.one = found.one
	known.looked = now
	return known.users, nil
}

// list returns all users in a scope, and remembers them.
func (u *Use) list(ctx context.Context, live client.Reader, in scope, now time.Time) (Users, error) {
	users, err := usersOf(ctx, live, in, false)
	if err != nil {
		return Users{}, err
	}
	if users.None() {
		delete(u.known, in)
		return users, nil
	}
	if u.known == nil {
		u.known = map[scope]*knownUse{}
	}
	u.known[in] = &knownUse{users: users, one: users.one, looked: now, listed: now}
	return users, nil
}
