package webhook

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
)

func TestOptionsOfAStorageClass(t *testing.T) {
	tests := map[string]struct {
		options string
		want    []string
	}{
		"none": {"{}", nil},
		"all": {"{reclaimPolicy: Retain, volumeBindingMode: Immediate, additionalParameters: " +
			"{lvm.topolvm.io/mkfs-options: -K}, additionalLabels: {tier: fast, example.com/tier: \"\"}}", nil},
		"own parameters": {"{additionalParameters: {topolvm.io/device-class: b, csi.storage.k8s.io/fstype: ext4}}",
			[]string{"additionalParameters[csi.storage.k8s.io/fstype]: Forbidden: this parameter is managed by LVMS", "additionalParameters[topolvm.io/device-class]: Forbidden"}},
		"encryption": {"{additionalParameters: {lvm.topolvm.io/encryption: luks2, lvm.topolvm.io/encryption-discards: \"true\", " +
			"csi.storage.k8s.io/node-stage-secret-name: k, csi.storage.k8s.io/node-stage-secret-namespace: ns}}", nil},
		"encryption without a Secret": {"{additionalParameters: {lvm.topolvm.io/encryption: luks2}}",
			[]string{"[csi.storage.k8s.io/node-stage-secret-name]: Required value: encrypted volumes need a Secret",
				"[csi.storage.k8s.io/node-stage-secret-namespace]: Required value"}},
		"another encryption": {"{additionalParameters: {lvm.topolvm.io/encryption: aes, lvm.topolvm.io/encryption-discards: x, " +
			"csi.storage.k8s.io/node-stage-secret-name: k, csi.storage.k8s.io/node-stage-secret-namespace: ns}}",
			[]string{`[lvm.topolvm.io/encryption]: Unsupported value: "aes": supported values: "luks2"`,
				`[lvm.topolvm.io/encryption-discards]: Unsupported value: "x"`}},
		"no name": {"{additionalParameters: {\" \": x}}", []string{"a parameter must have a name"}},
		"own labels": {"{additionalLabels: {app.kubernetes.io/managed-by: me, owned-by.topolvm.io/name: me}}",
			[]string{"additionalLabels[app.kubernetes.io/managed-by]: Forbidden: this label is operator-reserved",
				"owned-by.topolvm.io/name"}},
		"no labels": {"{additionalLabels: {\"a b\": x, ok: \"a b\"}}",
			[]string{"additionalLabels key is not a valid label name", "is not a valid label value"}},
	}
	for name, tt := range tests {
		check(t, name, optionsPossible(classesOf(t, "[{name: a, storageClassOptions: "+tt.options+"}]")), tt.want...)
	}
}

func TestOptionsAreKept(t *testing.T) {
	made := storagev1.StorageClass{ObjectMeta: metav1.ObjectMeta{Name: "lvms-a"},
		ReclaimPolicy:     ptr.To(corev1.PersistentVolumeReclaimRetain),
		VolumeBindingMode: ptr.To(storagev1.VolumeBindingImmediate),
		Parameters: map[string]string{"topolvm.io/device-class": "a",
			"csi.storage.k8s.io/fstype": "xfs", "k": "v"}}
	const as = "{reclaimPolicy: Retain, volumeBindingMode: Immediate, additionalParameters: {k: v}}"
	tests := map[string]struct {
		before, after string
		present       []storagev1.StorageClass
		want          []string
	}{
		"the defaults in words": {"{}",
			"{reclaimPolicy: Delete, volumeBindingMode: WaitForFirstConsumer, additionalParameters: {}}", nil, nil},
		"labels": {"{additionalLabels: {a: b}}", "{additionalLabels: {c: d}}", nil, nil},
		"others": {"{}", as, nil,
			[]string{"reclaimPolicy: Invalid value: \"Retain\": was Delete, and StorageClass lvms-a is immutable",
				"volumeBindingMode", "additionalParameters"}},
		"taken out": {as, "{}", nil,
			[]string{"reclaimPolicy", "volumeBindingMode", "additionalParameters"}},
		"what the StorageClass has": {"{}", as, []storagev1.StorageClass{made}, nil},
		"not what the StorageClass has": {"{}", "{additionalParameters: {k: z}}", []storagev1.StorageClass{made},
			[]string{"additionalParameters"}},
		"as another StorageClass has it": {"{}", as,
			[]storagev1.StorageClass{{ObjectMeta: metav1.ObjectMeta{Name: "lvms-b"}}},
			[]string{"reclaimPolicy", "volumeBindingMode", "additionalParameters"}},
	}
	for name, tt := range tests {
		of := func(options string) string { return "[{name: a, storageClassOptions: " + options + "}]" }
		check(t, name, optionsKept(classesOf(t, of(tt.before)), classesOf(t, of(tt.after)), tt.present), tt.want...)
		check(t, name+", of a new device class", optionsKept(nil, classesOf(t, of(tt.after)), tt.present))
	}
}

func TestDeviceClassesThatGo(t *testing.T) {
	tests := map[string]struct {
		before, after string
		want          []string
	}{
		"one of two": {"[{name: a, default: true}, {name: b}]", "[{name: a, default: true}]", nil},
		"the default": {"[{name: a, default: true}, {name: b}]", "[{name: b}]",
			[]string{`deviceClasses: Forbidden: cannot delete default device class "a"`}},
		"the default, and a new one": {"[{name: a, default: true}, {name: b}]", "[{name: b, default: true}]", nil},
		"the last one": {"[{name: a}]", "[]",
			[]string{"at least one device class must remain: delete the LVMCluster instead"}},
		"none to the first": {"[]", "[{name: a}]", nil},
	}
	for name, tt := range tests {
		check(t, name, classesKept(classesOf(t, tt.before), classesOf(t, tt.after)), tt.want...)
	}
}
