// Package stagesecret gives the PersistentVolume of an existing volume the encryption of its StorageClass.
package stagesecret

import (
	"fmt"
	"os"
	"strings"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/lvm-storage/lvm-operator/api/wellknown"
)

// Set gives the PersistentVolume of an existing volume the encryption and the Secret of the StorageClass of
// its claim, as external-provisioner does for a new one. If the volume is not encrypted like that, the node agent
// refuses to use it, and says why.
func Set(pv *corev1.PersistentVolume, class *storagev1.StorageClass,
	claim *corev1.PersistentVolumeClaim) error {
	if class.Parameters[wellknown.EncryptionParameter] == "" {
		return nil
	}
	pv.Spec.CSI.VolumeAttributes = map[string]string{}
	for _, key := range []string{wellknown.EncryptionParameter, wellknown.EncryptionDiscardsParameter} {
		if value := class.Parameters[key]; value != "" {
			pv.Spec.CSI.VolumeAttributes[key] = value
		}
	}
	secret, err := secretOf(class, pv.Name, claim)
	if err != nil {
		return fmt.Errorf("volume %s: the Secret of StorageClass %s cannot be named for claim %s/%s: %w",
			pv.Spec.CSI.VolumeHandle, class.Name, claim.Namespace, claim.Name, err)
	}
	pv.Spec.CSI.NodeStageSecretRef = secret
	return nil
}

// secretOf returns the Secret that a StorageClass names for a claim, by the rules of external-provisioner
// (pkg/controller/controller.go, getSecretReference, which is not exported): the user of a claim controls its name and
// its annotations, which therefore cannot decide the namespace of the Secret.
func secretOf(class *storagev1.StorageClass, volume string,
	claim *corev1.PersistentVolumeClaim) (*corev1.SecretReference, error) {
	words := map[string]string{"pv.name": volume, "pvc.namespace": claim.Namespace}
	namespace, err := expand(class, wellknown.NodeStageSecretNamespaceParameter, words, validation.IsDNS1123Label)
	if err != nil {
		return nil, err
	}
	words["pvc.name"] = claim.Name
	for key, value := range claim.Annotations {
		words["pvc.annotations['"+key+"']"] = value
	}
	name, err := expand(class, wellknown.NodeStageSecretNameParameter, words, validation.IsDNS1123Subdomain)
	if err != nil {
		return nil, err
	}
	return &corev1.SecretReference{Name: name, Namespace: namespace}, nil
}

// expand replaces the words in a parameter of a StorageClass, and checks the result. isName returns why a text is not a
// name, or nothing.
func expand(class *storagev1.StorageClass, parameter string, words map[string]string,
	isName func(string) []string) (string, error) {
	var unknown []string
	name := os.Expand(class.Parameters[parameter], func(word string) string {
		value, known := words[word]
		if !known {
			unknown = append(unknown, word)
		}
		return value
	})
	if len(unknown) > 0 {
		return "", fmt.Errorf("%s has words that it cannot have or that the claim does not set (%s): correct the "+
			"StorageClass or the claim", parameter, strings.Join(unknown, ", "))
	}
	if problems := isName(name); len(problems) > 0 {
		return "", fmt.Errorf("%s results in %q, which is not a valid name (%s): correct the StorageClass or the claim",
			parameter, name, strings.Join(problems, ", "))
	}
	return name, nil
}
