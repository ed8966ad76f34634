package encryption

import (
	"bytes"
	"context"
	"errors"
	"fmt"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/lvm-storage/lvm-operator/api/wellknown"
	"github.com/lvm-storage/lvm-operator/vgmanager/csinode/volume"
	"github.com/lvm-storage/lvm-operator/vgmanager/machine/luks"
)

// Keys provides the keys of encrypted volumes. SecretKeys reads them from the Secret of a call; a key management
// service would use the Secret to log in. The keys of a volume must be the same for each copy of it.
type Keys interface {
	// Key returns the key of a volume: luks.MinimumKey to luks.MaximumKey bytes. An error says why there is none.
	Key(ctx context.Context, volumeID string, secrets map[string]string) ([]byte, error)
	// Previous returns the key that Key has replaced, or nil if there is none. After an error, it is unknown.
	Previous(ctx context.Context, volumeID string, secrets map[string]string) ([]byte, error)
}

// SecretKeys are the keys in the Secret that the kubelet passes to NodeStageVolume.
type SecretKeys struct{}

// Key implements Keys.
func (SecretKeys) Key(_ context.Context, _ string, secrets map[string]string) ([]byte, error) {
	key, exists := secrets[wellknown.EncryptionKey]
	switch {
	case len(secrets) == 0:
		return nil, status.Errorf(codes.FailedPrecondition, "the PersistentVolume names no Secret "+
			"(nodeStageSecretRef), or an empty one: restore the Secret; if the PersistentVolume was recreated by "+
			"hand, it must name the Secret that it named before; if the claim is new, set %s and %s in the "+
			"StorageClass. Do not delete the claim of a volume that was used: that deletes its data",
			wellknown.NodeStageSecretNameParameter, wellknown.NodeStageSecretNamespaceParameter)
	case !exists:
		return nil, status.Errorf(codes.FailedPrecondition, "the Secret that the PersistentVolume names "+
			"(nodeStageSecretRef) has no %s: restore it", wellknown.EncryptionKey)
	}
	return checkKey(wellknown.EncryptionKey, key)
}

// Previous implements Keys.
func (SecretKeys) Previous(_ context.Context, _ string, secrets map[string]string) ([]byte, error) {
	key, exists := secrets[wellknown.EncryptionPreviousKey]
	if !exists {
		return nil, nil
	}
	return checkKey(wellknown.EncryptionPreviousKey, key)
}

func checkKey(name, key string) ([]byte, error) {
	if len(key) < luks.MinimumKey || len(key) > luks.MaximumKey {
		return nil, status.Errorf(codes.FailedPrecondition, "%s in the Secret that the PersistentVolume names "+
			"(nodeStageSecretRef) has %d bytes: it must have %d to %d random bytes", name, len(key), luks.MinimumKey,
			luks.MaximumKey)
	}
	return []byte(key), nil
}

// volumeKeys are the keys of a volume. previous is nil if there is none.
type volumeKeys struct{ key, previous []byte }

// refused says which keys do not open a volume.
func (k volumeKeys) refused() string {
	if k.previous == nil {
		return "its key is not " + wellknown.EncryptionKey
	}
	return "its key is neither " + wellknown.EncryptionKey + " nor " + wellknown.EncryptionPreviousKey
}

// keysOf returns the keys of an encrypted volume. A previous key that is the same as the present one is none: it must
// not be removed.
func (e *Encryption) keysOf(ctx context.Context, v volume.Volume,
	secrets map[string]string) (keys volumeKeys, err error) {
	if keys.key, err = e.Keys.Key(ctx, v.ID, secrets); err == nil {
		keys.previous, err = e.Keys.Previous(ctx, v.ID, secrets)
	}
	if err != nil {
		return volumeKeys{}, status.Errorf(status.Code(err), "encrypted volume %s (%s) on node %s has no key: %s; "+
			"without its key, the data of the volume is lost", v.ID, v.LV.Path, e.Node, status.Convert(err).Message())
	}
	if bytes.Equal(keys.key, keys.previous) {
		keys.previous = nil
	}
	return keys, nil
}

// replacePrevious replaces the previous key of a container by the present one. It adds the present key first, and
// removes the previous one last: if the agent ends in between, both open the container, and the next call removes the
// previous one. It returns luks.ErrWrongKey if neither opens it. If only the removal fails, this is only logged,
// because a user waits for the data.
func (k volumeKeys) replacePrevious(ctx context.Context, slots Keyslots, v volume.Volume) error {
	path := v.LV.Path
	fits, err := slots.Fits(ctx, path, k.key)
	if err == nil && !fits {
		fits, err = k.addTo(ctx, slots, path)
	}
	if err != nil {
		return fmt.Errorf("replace its previous key: %w", err)
	}
	if !fits {
		return luks.ErrWrongKey
	}
	logger := log.FromContext(ctx).WithValues("volume", v.ID, "device", path)
	switch removed, err := k.removePrevious(ctx, slots, path); {
	case err != nil:
		logger.Info("cannot remove the previous key of an encrypted volume", "cause", err.Error())
	case removed:
		logger.Info("removed the previous key of an encrypted volume")
	}
	return nil
}

// removePrevious removes the key slot of the previous key, and returns whether there was one. It never removes the only
// key slot: two keys that differ only by zero bytes at the end are the same for PBKDF2, because HMAC pads a key with
// zeros (RFC 2104, section 2).
func (k volumeKeys) removePrevious(ctx context.Context, slots Keyslots, path string) (bool, error) {
	used, err := slots.Slots(ctx, path)
	if err != nil || used < 2 {
		return false, err
	}
	err = slots.RemoveKey(ctx, path, k.previous)
	if errors.Is(err, luks.ErrWrongKey) {
		return false, nil // It was removed before.
	}
	return err == nil, err
}

// addTo adds the present key to a container if the previous key opens it, and returns whether the present key then
// opens it.
func (k volumeKeys) addTo(ctx context.Context, slots Keyslots, path string) (bool, error) {
	fits, err := slots.Fits(ctx, path, k.previous)
	if err != nil || !fits {
		return false, err
	}
	if err := slots.AddKey(ctx, path, k.previous, k.key); err != nil {
		return false, err
	}
	return slots.Fits(ctx, path, k.key)
}
