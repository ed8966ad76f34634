package webhook

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	lvmv1alpha1 "github.com/lvm-storage/lvm-operator/api/v1alpha1"

	"github.com/lvm-storage/lvm-operator/test/memory"
)

// upstreamSource is a file of testdata/upstream: the LVMClusters of one source.
type upstreamSource struct {
	// Source is a list of repositories and paths. Versions are those of upstream LVMS that the samples are for.
	Source   string           `json:"source"`
	Versions string           `json:"versions"`
	Samples  []upstreamSample `json:"samples"`
}

// upstreamSample is an LVMCluster with the fields and values of upstream's one.
type upstreamSample struct {
	Name        string            `json:"name"`
	Annotations map[string]string `json:"annotations,omitempty"`
	Spec        json.RawMessage   `json:"spec"`
	// Refused is a part of the message if this version refuses the sample.
	Refused string `json:"refused,omitempty"`
	// UpstreamRefuses is true if upstream refuses the sample too, in all versions.
	UpstreamRefuses bool `json:"upstreamRefuses,omitempty"`
	// Difference is the row of the table in docs/reference/support-matrix.md with the reason if only this version
	// refuses it.
	Difference string `json:"difference,omitempty"`
}

// upstreamSources returns the files of testdata/upstream by name.
func upstreamSources(t *testing.T) map[string]upstreamSource {
	t.Helper()
	files, err := filepath.Glob("testdata/upstream/*.yaml")
	if err != nil || len(files) < 6 {
		t.Fatalf("files %q, %v", files, err)
	}
	sources := map[string]upstreamSource{}
	for _, file := range files {
		source := upstreamSource{}
		text, err := os.ReadFile(file)
		if err == nil {
			err = yaml.UnmarshalStrict(text, &source)
		}
		if err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		if source.Source == "" || source.Versions == "" || len(source.Samples) == 0 {
			t.Errorf("%s: no source, no versions or no samples", file)
		}
		sources[filepath.Base(file)] = source
	}
	return sources
}

// TestChangesOfRefusedSamplesOfUpstreamAreAccepted checks that an LVMCluster that was created before a rule existed, or
// by upstream, can be changed in other fields of the same device class.
func TestChangesOfRefusedSamplesOfUpstreamAreAccepted(t *testing.T) {
	api := memory.Builder().Build()
	validator := &Validator{Live: api, Cached: api, Namespace: "lvms"}
	changed, refusedOnCreate := 0, 0
	for file, source := range upstreamSources(t) {
		for _, sample := range source.Samples {
			before := &lvmv1alpha1.LVMCluster{ObjectMeta: metav1.ObjectMeta{Name: "upstream", Namespace: "lvms"}}
			decoder := json.NewDecoder(bytes.NewReader(sample.Spec))
			decoder.DisallowUnknownFields()
			if err := decoder.Decode(&before.Spec); err != nil {
				t.Errorf("%s: %s: %v", file, sample.Name, err)
			}
			if len(before.Spec.Storage.DeviceClasses) == 0 {
				continue
			}
			after := before.DeepCopy()
			for i := range after.Spec.Storage.DeviceClasses {
				class := &after.Spec.Storage.DeviceClasses[i]
				if class.StorageClassOptions == nil {
					class.StorageClassOptions = &lvmv1alpha1.StorageClassOptions{}
				}
				labels := map[string]string{"rack": "a"}
				maps.Copy(labels, class.StorageClassOptions.AdditionalLabels)
				class.StorageClassOptions.AdditionalLabels = labels
				if class.ThinPoolConfig != nil {
					class.ThinPoolConfig.OverprovisionRatio++
				}
			}
			if _, err := validator.ValidateUpdate(t.Context(), before, after); err != nil {
				t.Errorf("%s: %s: a change is refused: %v", file, sample.Name, err)
			}
			changed++
			if _, err := validator.ValidateCreate(t.Context(), before); err != nil {
				refusedOnCreate++
			}
		}
	}
	if changed < 60 || refusedOnCreate < 10 {
		t.Errorf("%d samples were changed, %d of which cannot be created", changed, refusedOnCreate)
	}
}

// upstreamField is a line of testdata/upstream-schema.yaml. A limit that is not set does not exist.
type upstreamField struct {
	Path          string   `json:"path"`
	Type          string   `json:"type"`
	Since         string   `json:"since,omitempty"`
	Enum          []string `json:"enum,omitempty"`
	Required      []string `json:"required,omitempty"`
	Pattern       string   `json:"pattern,omitempty"`
	Minimum       *float64 `json:"minimum,omitempty"`
	Maximum       *float64 `json:"maximum,omitempty"`
	MinLength     *float64 `json:"minLength,omitempty"`
	MaxLength     *float64 `json:"maxLength,omitempty"`
	MaxProperties *float64 `json:"maxProperties,omitempty"`
}

// schemaNode is the part of a JSON schema that decides what is accepted.
type schemaNode struct {
	Type          string                 `json:"type"`
	IntOrString   bool                   `json:"x-kubernetes-int-or-string"`
	ListType      string                 `json:"x-kubernetes-list-type"`
	Properties    map[string]*schemaNode `json:"properties"`
	Items         *schemaNode            `json:"items"`
	Enum          []string               `json:"enum"`
	Required      []string               `json:"required"`
	Pattern       string                 `json:"pattern"`
	Minimum       *float64               `json:"minimum"`
	Maximum       *float64               `json:"maximum"`
	MinLength     *float64               `json:"minLength"`
	MaxLength     *float64               `json:"maxLength"`
	MinItems      *float64               `json:"minItems"`
	MaxItems      *float64               `json:"maxItems"`
	MinProperties *float64               `json:"minProperties"`
	MaxProperties *float64               `json:"maxProperties"`
	Rules         []struct {
		Rule string `json:"rule"`
		// OptionalOldSelf: the rule also applies to new objects.
		OptionalOldSelf bool   `json:"optionalOldSelf"`
		Message         string `json:"message"`
	} `json:"x-kubernetes-validations"`
}

// at returns the schema of a field, or nil.
func (n *schemaNode) at(path string) *schemaNode {
	for part := range strings.SplitSeq(path, ".") {
		name, isItem := strings.CutSuffix(part, "[]")
		if n = n.Properties[name]; n == nil {
			return nil
		}
		if isItem {
			n = n.Items
		}
	}
	return n
}

// narrower returns what this schema refuses and upstream's accepts, one text for each limit.
func (n *schemaNode) narrower(than upstreamField) []string {
	kind := n.Type
	if n.IntOrString {
		kind = "quantity"
	}
	var all []string
	if kind != than.Type {
		all = append(all, "type "+kind)
	}
	if strings.HasPrefix(than.Path, "status") {
		return all // users do not write it
	}
	if len(n.Enum) > 0 && len(than.Enum) == 0 {
		all = append(all, "enum")
	}
	for _, value := range than.Enum {
		if len(n.Enum) > 0 && !slices.Contains(n.Enum, value) {
			all = append(all, fmt.Sprintf("enum %q", value))
		}
	}
	for _, limit := range []struct {
		name         string
		ours, theirs *float64
		isMinimum    bool
	}{
		{"minimum", n.Minimum, than.Minimum, true}, {"maximum", n.Maximum, than.Maximum, false},
		{"minLength", n.MinLength, than.MinLength, true}, {"maxLength", n.MaxLength, than.MaxLength, false},
		{"minItems", n.MinItems, nil, true}, {"maxItems", n.MaxItems, nil, false},
		{"minProperties", n.MinProperties, nil, true},
		{"maxProperties", n.MaxProperties, than.MaxProperties, false},
	} {
		if limit.ours != nil && (limit.theirs == nil || limit.isMinimum && *limit.ours > *limit.theirs ||
			!limit.isMinimum && *limit.ours < *limit.theirs) {
			all = append(all, fmt.Sprintf("%s %v", limit.name, *limit.ours))
		}
	}
	if n.Pattern != "" && !n.IntOrString && n.Pattern != than.Pattern {
		all = append(all, "pattern")
	}
	for _, name := range n.Required {
		if !slices.Contains(than.Required, name) {
			all = append(all, "required "+name)
		}
	}
	if n.ListType != "" && n.ListType != "atomic" {
		all = append(all, "list type "+n.ListType)
	}
	for _, rule := range n.Rules {
		if rule.OptionalOldSelf || !strings.Contains(rule.Rule, "oldSelf") {
			text, _, _ := strings.Cut(rule.Message, ":")
			all = append(all, "rule: "+text)
		}
	}
	return all
}

// acceptedOnlyByUpstream is what the schema of upstream accepts and that of this version refuses, with the reason.
var acceptedOnlyByUpstream = func() map[string]string {
	const classes = "spec.storage.deviceClasses"
	const class = classes + "[]"
	const upstreamToo = "upstream's webhook refuses it too"
	const ownField = "concerns fields that upstream does not have"
	const cost = "the API server evaluates the rules of a schema only if lists are limited"
	list := map[string]string{
		classes + ": maxItems 24":                                                                 cost,
		classes + ": list type map":                                                               "two device classes with one name would have one volume group",
		classes + ": rule: only one device class can be the default":                              upstreamToo,
		class + ": required name":                                                                 "a volume group needs a name",
		class + ": rule: raidConfig and thinPoolConfig are mutually exclusive":                    upstreamToo,
		class + ": rule: eraseOnDelete Zero cannot be set together with thinPoolConfig":           ownField,
		class + ": rule: thinPoolConfig.discards cannot be set together with existingVolumeGroup": ownField,
		class + ": rule: trim.poolUsageThresholdPercent requires thinPoolConfig":                  ownField,
		class + ": rule: deviceSelector and deviceSelectors are mutually exclusive":               ownField,
		class + ".thinPoolConfig: rule: stripeSize requires stripes":                              ownField,
		class + ": rule: deviceSelector, deviceSelectors, deviceDiscoveryPolicy, raidConfig, deviceRequests, adopt, adoptClusters and deletedVolumeRetention cannot be set together with existingVolumeGroup": ownField,
		class + ": rule: autoExtend, chunkSize, metadataSize, stripes and metadataSizeCalculationPolicy Static cannot be set together with existingVolumeGroup":                                               ownField,
		class + ": rule: deviceResizePolicy cannot be set together with existingVolumeGroup":                                                                                                                  ownField,
		class + ": rule: approval cannot be set together with existingVolumeGroup":                                                                                                                            ownField,
		class + ": rule: existingVolumeGroupConfig requires existingVolumeGroup":                                                                                                                              ownField,
		class + ": rule: thickConfig cannot be set together with thinPoolConfig, raidConfig or existingVolumeGroup":                                                                                           ownField,
		class + ": rule: allocation, stripes and lvcreateOptions of existingVolumeGroupConfig cannot be set together with thinPoolConfig":                                                                     ownField,
		class + ".name: rule: name can have at most 63 characters":                                                                                                                                            "TopoLVM allows 63 characters",
		class + `.fstype: enum ""`: upstreamToo,
		class + ".deviceSelector: rule: set paths, optionalPaths or at least one property of devices, or remove deviceSelector to use every unused device": upstreamToo,
		class + ".deviceSelector: rule: forceWipeDevicesAndDestroyAllData requires paths or optionalPaths":                                                 upstreamToo,
		class + ".deviceSelector: rule: wipeVolumeGroups requires paths or optionalPaths":                                                                  ownField,
		class + ".thinPoolConfig: rule: autoExtend.thresholdPercent must not be greater than highWaterMarkPercent":                                         ownField,
		class + ".thinPoolConfig.name: minLength 1":                                                                                                        "a logical volume needs a name",
		class + ".thinPoolConfig.name: maxLength 107":                                                                                                      "LVM adds up to 20 characters to the name of a thin pool",
		class + ".thinPoolConfig.name: pattern":                                                                                                            "the characters that LVM allows",
		class + ".thinPoolConfig.overprovisionRatio: maximum 100":                                                                                          "the limit of newer versions of upstream",
		class + ".raidConfig: rule: mirrors can only be set for raid1 and raid10":                                                                          upstreamToo,
		class + ".raidConfig: rule: mirrors must be 1 for raid10":                                                                                          "LVM supports no more",
		class + ".raidConfig: rule: stripes cannot be set for raid1":                                                                                       upstreamToo,
		class + ".raidConfig: rule: raid6 requires at least 3 stripes":                                                                                     "LVM does not support fewer",
		class + ".raidConfig: rule: stripeSize cannot be set for raid1":                                                                                    upstreamToo,
		class + ".raidConfig.mirrors: maximum 9":                                                                                                           "LVM supports ten copies",
		class + ".raidConfig.stripes: maximum 60":                                                                                                          "LVM supports 64 devices for a volume, some of them for redundancy",
		"status.deviceClassStatuses[].nodeStatus[].deviceDiscoveryPolicy: missing": "it is in spec.nodeStatus of the " +
			"LVMVolumeGroupNodeStatus, where upstream's users read it",
	}
	for _, paths := range []string{class + ".deviceSelector.paths", class + ".deviceSelector.optionalPaths"} {
		list[paths+": maxItems 128"] = cost
		list[paths+": list type set"] = upstreamToo
		list[paths+"[]: maxLength 512"] = "longer than any path of udev"
		list[paths+"[]: pattern"] = "a part that begins with a dot could lead out of /dev"
	}
	return list
}()

// TestTheSchemaAcceptsWhatUpstreamAccepts compares each field, enum value and limit with those of upstream.
func TestTheSchemaAcceptsWhatUpstreamAccepts(t *testing.T) {
	var fields []upstreamField
	text, err := os.ReadFile("testdata/upstream-schema.yaml")
	if err == nil {
		err = yaml.UnmarshalStrict(text, &fields)
	}
	if err != nil || len(fields) < 70 {
		t.Fatalf("%d fields, %v", len(fields), err)
	}
	crd := struct {
		Spec struct {
			Versions []struct {
				Schema struct {
					OpenAPI *schemaNode `json:"openAPIV3Schema"`
				} `json:"schema"`
			} `json:"versions"`
		} `json:"spec"`
	}{}
	if text, err = os.ReadFile("../../../config/crd/lvm.topolvm.io_lvmclusters.yaml"); err == nil {
		err = yaml.Unmarshal(text, &crd)
	}
	if err != nil || len(crd.Spec.Versions) != 1 {
		t.Fatalf("%d versions, %v", len(crd.Spec.Versions), err)
	}
	unused := maps.Clone(acceptedOnlyByUpstream)
	for _, field := range fields {
		differences := []string{"missing"}
		if node := crd.Spec.Versions[0].Schema.OpenAPI.at(field.Path); node != nil {
			differences = node.narrower(field)
		}
		for _, difference := range differences {
			key := field.Path + ": " + difference
			if acceptedOnlyByUpstream[key] == "" {
				t.Errorf("upstream accepts more, and no reason is listed: %s", key)
			}
			delete(unused, key)
		}
	}
	for key := range unused {
		t.Errorf("listed, but not a difference: %s", key)
	}
}

// TestDifferencesFromUpstreamAreDocumented compares the samples with the tables in docs/reference/support-matrix.md.
func TestDifferencesFromUpstreamAreDocumented(t *testing.T) {
	page, err := os.ReadFile("../../../docs/reference/support-matrix.md")
	if err != nil {
		t.Fatal(err)
	}
	for file, source := range upstreamSources(t) {
		accepted, both := 0, 0
		for _, sample := range source.Samples {
			only := sample.Refused != "" && !sample.UpstreamRefuses
			if only != (sample.Difference != "") {
				t.Errorf("%s: %s: a difference is needed exactly if only this version refuses it", file, sample.Name)
			}
			if only && !bytes.Contains(page, []byte("\n| "+sample.Difference+" | ")) {
				t.Errorf("%s: %s: the page has no row %q", file, sample.Name, sample.Difference)
			}
			switch {
			case sample.Refused == "":
				accepted++
			case sample.UpstreamRefuses:
				both++
			}
		}
		row := fmt.Sprintf("\n| [%s](../../internal/admission/webhook/testdata/upstream/%s) | %s | %d | %d | %d |\n",
			strings.TrimSuffix(file, ".yaml"), file, source.Versions, accepted, both,
			len(source.Samples)-accepted-both)
		if !bytes.Contains(page, []byte(row)) {
			t.Errorf("the page does not have the row%s", row)
		}
	}
}
