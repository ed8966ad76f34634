package main

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"unicode"

	"github.com/operator-framework/api/pkg/operators/v1alpha1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// kinds are the owned kinds with their texts for the console. The kind that users create first is first.
var kinds = []struct {
	name, displayName, description string
	// resources are the kinds of related objects.
	resources []v1alpha1.APIResourceReference
	// example is for a kind that users do not create. The examples of LVMCluster are in config/samples.
	example map[string]any
}{
	{"LVMCluster", "LVM cluster", "The local storage of the cluster: device classes, each with a volume group on the " +
		"nodes that it selects and a StorageClass.",
		resources("apps/v1 DaemonSet", "storage.k8s.io/v1 StorageClass", "storage.k8s.io/v1 CSIDriver",
			"lvm.topolvm.io/v1alpha1 LVMVolumeGroup", "lvm.topolvm.io/v1alpha1 LVMVolumeGroupNodeStatus"), nil},
	{"LVMVolumeGroup", "LVM volume group",
		"A device class as the node agents read it. The operator creates it from the LVMCluster: change it there.",
		resources("lvm.topolvm.io/v1alpha1 LVMVolumeGroupNodeStatus"),
		map[string]any{"spec": map[string]any{"default": true,
			"thinPoolConfig": map[string]any{"name": "thin-pool-1", "sizePercent": 90, "overprovisionRatio": 10}}}},
	{"LVMVolumeGroupNodeStatus", "LVM volume group node status",
		"The devices and volume groups of one node, as its node agent observes them. It has the name of the node.",
		resources("v1 Node"), map[string]any{}},
	{"LVMRecovery", "LVM recovery", "One action that makes a device class of a node usable again after a failure. It " +
		"lists what is lost, and changes nothing until that is approved.",
		resources("lvm.topolvm.io/v1alpha1 LVMVolumeGroupNodeStatus"), map[string]any{"spec": map[string]any{
			"nodeName": "node1", "deviceClassName": "vg1", "action": "RemoveLostDevices"}}},
	{"VolumeMove", "Volume move", "Moves the volume of a claim to another node while Pods use it, and switches it " +
		"when no Pod does.",
		resources("topolvm.io/v1 LogicalVolume"), map[string]any{"spec": map[string]any{
			"claim": map[string]any{"namespace": "shop", "name": "data"}, "nodeName": "node2"}}},
	{"LVMDeviceApproval", "LVM device approval", "The approval of one device of a node for a device class that " +
		"requires it. It is valid as long as the device is as it was when it was reviewed.",
		resources("lvm.topolvm.io/v1alpha1 LVMVolumeGroupNodeStatus"), map[string]any{"spec": map[string]any{
			"nodeName": "node1", "deviceClassName": "vg1", "device": "/dev/disk/by-id/wwn-0x5000c500a1b2c3d4",
			"fingerprint": "v1-0123456789abcdef0123456789abcdef", "approvedBy": "kube:admin"}}},
	{"LogicalVolume", "Logical volume", "A volume or snapshot on a node. The CSI driver creates it.",
		resources("v1 PersistentVolume"), map[string]any{
			"spec": map[string]any{"name": "pvc-6d2c9bd5-0000-4000-8000-1234567890ab", "nodeName": "node1",
				"deviceClass": "vg1", "size": "1Gi"}}},
}

// resources parses "group/version Kind".
func resources(names ...string) []v1alpha1.APIResourceReference {
	var all []v1alpha1.APIResourceReference
	for _, name := range names {
		groupVersion, kind, _ := strings.Cut(name, " ")
		version := groupVersion[strings.LastIndex(groupVersion, "/")+1:]
		all = append(all, v1alpha1.APIResourceReference{Kind: kind, Version: version})
	}
	return all
}

// newOwned describes the kinds with the fields of their schemas.
func newOwned(s *source) ([]v1alpha1.CRDDescription, error) {
	var owned []v1alpha1.CRDDescription
	for _, kind := range kinds {
		crd, err := crdOf(s, kind.name)
		if err != nil {
			return nil, err
		}
		version := crd.Spec.Versions[0]
		description := v1alpha1.CRDDescription{
			Name: crd.Name, Kind: kind.name, Version: version.Name, DisplayName: kind.displayName,
			Description: kind.description, Resources: kind.resources,
		}
		schema := version.Schema.OpenAPIV3Schema
		for _, f := range fieldsOf(schema.Properties["spec"], "") {
			description.SpecDescriptors = append(description.SpecDescriptors, v1alpha1.SpecDescriptor{
				Path: f.path, DisplayName: f.displayName(), Description: f.description(),
				XDescriptors: f.specControls()})
		}
		for _, f := range fieldsOf(schema.Properties["status"], "") {
			description.StatusDescriptors = append(description.StatusDescriptors, v1alpha1.StatusDescriptor{
				Path: f.path, DisplayName: f.displayName(), Description: f.description(),
				XDescriptors: f.statusControls()})
		}
		owned = append(owned, description)
	}
	return owned, nil
}

func crdOf(s *source, kind string) (*apiextensionsv1.CustomResourceDefinition, error) {
	for _, object := range s.crds {
		crd, err := find[apiextensionsv1.CustomResourceDefinition](s.crds, "CustomResourceDefinition", object.GetName())
		if err != nil {
			return nil, err
		}
		if crd.Spec.Names.Kind == kind {
			return crd, nil
		}
	}
	return nil, fmt.Errorf("config/crd has no kind %s", kind)
}

// examplesOf returns at least one object of each kind.
func examplesOf(s *source) (string, error) {
	var examples []any
	for _, sample := range s.samples {
		examples = append(examples, sample.Object)
	}
	for _, kind := range kinds {
		if kind.example == nil {
			continue
		}
		crd, err := crdOf(s, kind.name)
		if err != nil {
			return "", err
		}
		example := &unstructured.Unstructured{Object: map[string]any{}}
		for key, value := range kind.example {
			example.Object[key] = value
		}
		example.SetAPIVersion(crd.Spec.Group + "/" + crd.Spec.Versions[0].Name)
		example.SetKind(kind.name)
		example.SetName("example")
		if crd.Spec.Scope == apiextensionsv1.NamespaceScoped {
			example.SetNamespace(namespace)
		}
		examples = append(examples, example.Object)
	}
	return text(examples), nil
}

// field is a field that users set or read.
type field struct {
	path   string
	name   string
	schema apiextensionsv1.JSONSchemaProps
}

// whole are fields with Kubernetes types, which the console knows.
var whole = []string{"nodeSelector", "tolerations", "conditions"}

// fieldsOf returns the fields of a schema. The console addresses the fields of a list's elements with the first one
// (path[0].field).
func fieldsOf(schema apiextensionsv1.JSONSchemaProps, prefix string) []field {
	var fields []field
	for name, property := range schema.Properties {
		f := field{path: prefix + name, name: name, schema: property}
		fields = append(fields, f)
		switch {
		case slices.Contains(whole, name):
		case property.Type == "object":
			fields = append(fields, fieldsOf(property, f.path+".")...)
		case property.Type == "array" && property.Items != nil && property.Items.Schema != nil:
			fields = append(fields, fieldsOf(*property.Items.Schema, f.path+"[0].")...)
		}
	}
	slices.SortFunc(fields, func(a, b field) int { return cmp.Compare(a.path, b.path) })
	return fields
}

// names are the display names that cannot be derived from the name of a field.
var names = map[string]string{
	"fstype": "File system type", "uuid": "UUID", "volumeGroupUUID": "Volume group UUID",
	"pvUUID": "Physical volume UUID", "id": "ID", "volumeID": "Volume ID",
	"deviceID": "Device ID", "wwn": "WWN", "byID": "By-id links", "byPath": "By-path links",
	"raidConfig": "RAID configuration", "raidStatus": "RAID status", "lvHealth": "Health of logical volumes",
}

// displayName returns the name of the field as words: "overprovisionRatio" is "Overprovision ratio".
func (f field) displayName() string {
	if name, ok := names[f.name]; ok {
		return name
	}
	var words strings.Builder
	for i, r := range f.name {
		switch {
		case i == 0:
			words.WriteRune(unicode.ToUpper(r))
		case unicode.IsUpper(r):
			words.WriteRune(' ')
			words.WriteRune(unicode.ToLower(r))
		default:
			words.WriteRune(r)
		}
	}
	return words.String()
}

// description returns the API description of the field, without its name at the beginning. TopoLVM's LogicalVolume has
// the placeholder of the template of a CRD.
func (f field) description() string {
	text := strings.Join(strings.Fields(f.schema.Description), " ")
	if text == "" || strings.HasPrefix(text, "INSERT ADDITIONAL STATUS FIELD") {
		return f.displayName() + "."
	}
	for _, verb := range []string{" is ", " are "} {
		if rest, ok := strings.CutPrefix(text, f.name+verb); ok && rest != "" {
			return strings.ToUpper(rest[:1]) + rest[1:]
		}
	}
	if rest, ok := strings.CutPrefix(text, f.name+" "); ok && rest != "" {
		return f.displayName() + " " + rest
	}
	return text
}

const ui = "urn:alm:descriptor:com.tectonic.ui:"

// specControls returns the descriptors for the field in the console's form.
func (f field) specControls() []string {
	var controls []string
	switch {
	case len(f.schema.Enum) > 0:
		for _, value := range f.schema.Enum {
			controls = append(controls, ui+"select:"+strings.Trim(string(value.Raw), `"`))
		}
	case f.schema.Type == "boolean":
		controls = append(controls, ui+"booleanSwitch")
	case f.schema.Type == "integer":
		controls = append(controls, ui+"number")
	case f.schema.Type == "string":
		controls = append(controls, ui+"text")
	}
	if group, _, nested := strings.Cut(f.path, "[0]."); nested {
		controls = append(controls, ui+"arrayFieldGroup:"+group)
	} else if at := strings.LastIndex(f.path, "."); at > 0 {
		controls = append(controls, ui+"fieldGroup:"+f.path[:at])
	}
	return controls
}

// statusControls returns the descriptors with which the console shows a field.
func (f field) statusControls() []string {
	switch f.path {
	case "conditions":
		return []string{"urn:alm:descriptor:io.kubernetes.conditions"}
	case "state":
		return []string{"urn:alm:descriptor:io.kubernetes.phase"}
	}
	return []string{"urn:alm:descriptor:text"}
}
