package volumeimport

import (
	"os"
	"strings"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"

	"github.com/lvm-storage/lvm-operator/api/v1alpha1"
)

// setEncryption gives the PersistentVolume of an existing volume the encryption and the Secret of the StorageClass of
// its claim, as external-provisioner does for a new one. If the volume is not encrypted like that, the node agent
// refuses to use it, and says why.
func setEncryption(pv *corev1.PersistentVolume, class *storagev1.StorageClass,
	claim *corev1.PersistentVolumeClaim) error {
	if class.Parameters[v1alpha1.EncryptionParameter] == "" {
		return nil
	}
	pv.Spec.CSI.VolumeAttributes = map[string]string{}
	for _, key := range []string{v1alpha1.EncryptionParameter, v1alpha1.EncryptionDiscardsParameter} {
		if value := class.Parameters[key]; value != "" {
			pv.Spec.CSI.VolumeAttributes[key] = value
		}
	}
	var unknown []string
	expand := func(template string) string {
		return os.Expand(template, func(name string) string {
			value, known := secretWord(name, pv, claim)
			if !known {
				unknown = append(unknown, name)
			}
			return value
		})
	}
	secret := &corev1.SecretReference{Name: expand(class.Parameters[v1alpha1.NodeStageSecretNameParameter]),
		Namespace: expand(class.Parameters[v1alpha1.NodeStageSecretNamespaceParameter])}
	if len(unknown) > 0 || secret.Name == "" || secret.Namespace == "" {
		return blocked("volume %s: the Secret of StorageClass %s cannot be named for claim %s/%s (%s): correct %s "+
			"and %s",
			pv.Spec.CSI.VolumeHandle, class.Name, claim.Namespace, claim.Name, strings.Join(unknown, ", "),
			v1alpha1.NodeStageSecretNameParameter, v1alpha1.NodeStageSecretNamespaceParameter)
	}
	pv.Spec.CSI.NodeStageSecretRef = secret
	return nil
}

// secretWord returns the value of a word in the name of a Secret, such as pvc.name (external-provisioner,
// pkg/controller/controller.go, getSecretReference).
func secretWord(name string, pv *corev1.PersistentVolume, claim *corev1.PersistentVolumeClaim) (string, bool) {
	switch name {
	case "pv.name":
		return pv.Name, true
	case "pvc.name":
		return claim.Name, true
	case "pvc.namespace":
		return claim.Namespace, true
	}
	key, is := strings.CutPrefix(name, "pvc.annotations['")
	key, closed := strings.CutSuffix(key, "']")
	value, exists := claim.Annotations[key]
	return value, is && closed && exists
}
