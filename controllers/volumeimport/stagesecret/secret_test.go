package stagesecret

import (
	"maps"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/lvm-storage/lvm-operator/api/wellknown"
)

func TestAnImportedVolumeHasTheSecretOfItsStorageClass(t *testing.T) {
	claim := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "data",
		Annotations: map[string]string{"example.com/key": "mine", "example.com/path": "../token"}}}
	for name, test := range map[string]struct {
		secret, namespace string
		want              corev1.SecretReference
		says              string
	}{
		"for the StorageClass": {"k", "keys", corev1.SecretReference{Name: "k", Namespace: "keys"}, ""},
		"for the namespace":    {"k", "${pvc.namespace}", corev1.SecretReference{Name: "k", Namespace: "shop"}, ""},
		"for the claim": {"${pvc.name}-key", "${pvc.namespace}",
			corev1.SecretReference{Name: "data-key", Namespace: "shop"}, ""},
		"for the volume": {"${pv.name}", "keys", corev1.SecretReference{Name: "pvc-1", Namespace: "keys"}, ""},
		"from an annotation": {"${pvc.annotations['example.com/key']}", "keys",
			corev1.SecretReference{Name: "mine", Namespace: "keys"}, ""},
		"from an annotation that is not set": {"${pvc.annotations['other']}", "keys", corev1.SecretReference{}, "other"},
		"from something unknown":             {"k", "${pvc.uid}", corev1.SecretReference{}, "pvc.uid"},
		"namespace from an annotation": {"k", "${pvc.annotations['example.com/key']}", corev1.SecretReference{},
			"csi.storage.k8s.io/node-stage-secret-namespace has words that it cannot have"},
		"namespace from the name of the claim": {"k", "${pvc.name}", corev1.SecretReference{}, "(pvc.name)"},
		"namespace for the volume":             {"k", "${pv.name}", corev1.SecretReference{Name: "k", Namespace: "pvc-1"}, ""},
		"another namespace by a path": {"k", "keys/../kube-system", corev1.SecretReference{},
			`results in "keys/../kube-system", which is not a valid name`},
		"a name that is not valid": {"${pvc.annotations['example.com/path']}", "keys", corev1.SecretReference{},
			`results in "../token", which is not a valid name`},
		"none":         {"", "keys", corev1.SecretReference{}, "cannot be named"},
		"no namespace": {"k", "", corev1.SecretReference{}, "cannot be named"},
	} {
		t.Run(name, func(t *testing.T) {
			parameters := map[string]string{wellknown.EncryptionParameter: "luks2",
				wellknown.EncryptionDiscardsParameter:       "true",
				wellknown.NodeStageSecretNameParameter:      test.secret,
				wellknown.NodeStageSecretNamespaceParameter: test.namespace}
			pv := &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: "pvc-1"}}
			pv.Spec.CSI = &corev1.CSIPersistentVolumeSource{VolumeHandle: "8a6e"}
			err := Set(pv, &storagev1.StorageClass{Parameters: parameters}, claim)
			if test.says != "" {
				if err == nil || !strings.Contains(err.Error(), test.says) || pv.Spec.CSI.NodeStageSecretRef != nil {
					t.Errorf("got %v, %v", pv.Spec.CSI.NodeStageSecretRef, err)
				}
				return
			}
			if got := pv.Spec.CSI.NodeStageSecretRef; err != nil || got == nil || *got != test.want {
				t.Errorf("got %v, %v", got, err)
			}
			if got := pv.Spec.CSI.VolumeAttributes; !maps.Equal(got, map[string]string{
				wellknown.EncryptionParameter: "luks2", wellknown.EncryptionDiscardsParameter: "true"}) {
				t.Errorf("got the attributes %v", got)
			}
		})
	}
}

func TestAnImportedVolumeWithoutEncryptionHasNoSecret(t *testing.T) {
	pv := &corev1.PersistentVolume{}
	pv.Spec.CSI = &corev1.CSIPersistentVolumeSource{}
	err := Set(pv, &storagev1.StorageClass{Parameters: map[string]string{
		wellknown.NodeStageSecretNameParameter: "k"}}, &corev1.PersistentVolumeClaim{})
	if err != nil || pv.Spec.CSI.NodeStageSecretRef != nil || pv.Spec.CSI.VolumeAttributes != nil {
		t.Errorf("got %+v, %v", pv.Spec.CSI, err)
	}
}
