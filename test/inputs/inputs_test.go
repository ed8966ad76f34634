// Package inputs lists what users write and a node agent reads, and what checks it before it becomes a part of a
// command. docs/reference/inputs.md is generated from the list, and from the schemas of the CRDs. The code is searched
// for what the agent reads, so that nothing is missing.
package inputs

import (
	"flag"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/container-storage-interface/spec/lib/go/csi"
	topolvmv1 "github.com/topolvm/topolvm/api/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"sigs.k8s.io/yaml"

	"github.com/lvm-storage/lvm-operator/test/reference"
)

var update = flag.Bool("update", false, "write the page of docs/reference")

const root = "../.."

// constantName matches the constants of the API whose value users write, or a key of a Secret.
var constantName = regexp.MustCompile(`^[A-Z]\w*(Parameter|Annotation|Label|Key)$`)

// constants returns the values of these constants, by name.
func constants(t *testing.T) map[string]string {
	t.Helper()
	source, err := reference.Parse(root, "api")
	if err != nil {
		t.Fatal(err)
	}
	found := map[string]string{}
	for _, d := range source.Declarations() {
		if constantName.MatchString(d.Name) {
			found[d.Name] = d.Value
		}
	}
	return found
}

// views are the packages with functions that read annotations for others.
var views = []string{"internal/volume/view", "internal/volume/fence"}

// selectors returns the names after a dot in the code of folders, without tests: wellknown.MkfsOptionsParameter has
// MkfsOptionsParameter. If the code calls a function of a view, it has the names in that function too.
func selectors(t *testing.T, folders ...string) map[string]bool {
	t.Helper()
	found := map[string]bool{}
	eachFile(t, folders, func(file *ast.File) { maps.Copy(found, selectorsIn(file)) })
	functions := map[string]map[string]bool{}
	eachFile(t, views, func(file *ast.File) {
		for _, d := range file.Decls {
			if f, is := d.(*ast.FuncDecl); is && f.Recv == nil {
				functions[file.Name.Name+"."+f.Name.Name] = namesIn(file.Name.Name, f)
			}
		}
	})
	for before := -1; before < len(found); {
		before = len(found)
		for name, names := range functions {
			if found[name] {
				maps.Copy(found, names)
			}
		}
	}
	return found
}

// namesIn returns the selectors in a function of a package, and its other identifiers as those of the package.
func namesIn(pkg string, f *ast.FuncDecl) map[string]bool {
	names := selectorsIn(f)
	ast.Inspect(f, func(n ast.Node) bool {
		if i, is := n.(*ast.Ident); is {
			names[pkg+"."+i.Name] = true
		}
		return true
	})
	return names
}

func eachFile(t *testing.T, folders []string, each func(*ast.File)) {
	t.Helper()
	for _, folder := range folders {
		err := filepath.WalkDir(filepath.Join(root, folder), func(path string, entry fs.DirEntry, err error) error {
			if err != nil || entry.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
				return err
			}
			file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
			if err != nil {
				return err
			}
			each(file)
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
}

func selectorsIn(node ast.Node) map[string]bool {
	found := map[string]bool{}
	ast.Inspect(node, func(n ast.Node) bool {
		if s, is := n.(*ast.SelectorExpr); is {
			found[s.Sel.Name] = true
			if x, is := s.X.(*ast.Ident); is {
				found[x.Name+"."+s.Sel.Name] = true
			}
		}
		return true
	})
	return found
}

// requests are what the kubelet passes to an agent. Names and paths in them can come from a PersistentVolume.
var requests = []any{&csi.NodeStageVolumeRequest{}, &csi.NodeUnstageVolumeRequest{}, &csi.NodePublishVolumeRequest{},
	&csi.NodeUnpublishVolumeRequest{}, &csi.NodeExpandVolumeRequest{}, &csi.NodeGetVolumeStatsRequest{},
	&csi.VolumeCapability{}, &csi.VolumeCapability_MountVolume{}, &csi.VolumeCapability_AccessMode{},
	&csi.CapacityRange{}}

// read returns the names of the list for what an agent reads: the constants and the fields of CSI requests that its
// code has, and all fields of LogicalVolumes. Parameters are read by the operator too.
func read(constants map[string]string, used, usedByCSI map[string]bool) []string {
	var names []string
	for name := range constants {
		if used[name] || strings.HasSuffix(name, "Parameter") {
			names = append(names, name)
		}
	}
	for _, request := range requests {
		for method := range reflect.TypeOf(request).Methods() {
			if strings.HasPrefix(method.Name, "Get") && usedByCSI[method.Name] {
				names = append(names, method.Name)
			}
		}
	}
	spec := reflect.TypeFor[topolvmv1.LogicalVolumeSpec]()
	for field := range spec.Fields() {
		names = append(names, "spec."+field.Name)
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// differences returns what is read and not listed, and what is listed and not read.
func differences(read []string, listed ...[]input) (missing, stale []string) {
	names := map[string]bool{}
	for _, i := range slices.Concat(listed...) {
		for _, name := range i.names {
			names[name] = true
			if !slices.Contains(read, name) {
				stale = append(stale, name)
			}
		}
	}
	for _, name := range read {
		if !names[name] {
			missing = append(missing, name)
		}
	}
	return missing, stale
}

func TestEveryInputIsListed(t *testing.T) {
	all := read(constants(t), selectors(t, "vgmanager"), selectors(t, "vgmanager/csinode"))
	missing, stale := differences(all, parameters, objects)
	for _, name := range missing {
		t.Errorf("a node agent reads %s: add it to list_test.go, with the check that keeps free text from "+
			"programs", name)
	}
	for _, name := range stale {
		t.Errorf("no node agent reads %s: remove it from list_test.go", name)
	}
	if len(all) < 60 {
		t.Errorf("%d inputs were found: there are more", len(all))
	}
}

// TestAnInputThatIsNotListedIsFound tests the test before: a second constant, and a second field of a request.
func TestAnInputThatIsNotListedIsFound(t *testing.T) {
	file, err := parser.ParseFile(token.NewFileSet(), "x.go", `package x

func stage(lv *topolvmv1.LogicalVolume, request *csi.NodeStageVolumeRequest) {
	run(lv.Annotations[v1alpha1.SecondAnnotation], request.GetVolumeCapability().GetMount().GetVolumeMountGroup())
}
`, parser.SkipObjectResolution)
	if err != nil {
		t.Fatal(err)
	}
	used := selectorsIn(file)
	all := read(map[string]string{"SecondAnnotation": "a", "ThirdAnnotation": "b", "FourthParameter": "c"}, used, used)
	missing, _ := differences(all, parameters, objects)
	if want := []string{"FourthParameter", "GetVolumeMountGroup", "SecondAnnotation"}; !slices.Equal(missing, want) {
		t.Errorf("got %q, want %q", missing, want)
	}
}

// field is a text in the spec of a CRD. check is what its schema requires, or "".
type field struct{ path, check string }

// specs are the CRDs that users write. The node agents of other CRDs get what the operator has copied from these.
var specs = []struct{ file, prefix string }{{"lvmclusters", ""}, {"lvmrecoveries", "LVMRecovery "},
	{"lvmdeviceapprovals", "LVMDeviceApproval "}, {"volumemoves", "VolumeMove "},
	{"lvmvolumegroupnodestatuses", "LVMVolumeGroupNodeStatus "}}

// fields returns the texts in the specs of the CRDs.
func fields(t *testing.T) []field {
	t.Helper()
	var all []field
	for _, spec := range specs {
		text, err := os.ReadFile(filepath.Join(root, "config/crd/lvm.topolvm.io_"+spec.file+".yaml"))
		if err != nil {
			t.Fatal(err)
		}
		crd := &apiextensionsv1.CustomResourceDefinition{}
		if err := yaml.UnmarshalStrict(text, crd); err != nil {
			t.Fatal(err)
		}
		schema := crd.Spec.Versions[0].Schema.OpenAPIV3Schema.Properties["spec"]
		for _, f := range textsOf(schema, "", nil) {
			f.path = spec.prefix + strings.NewReplacer("storage.", "", "deviceSelectors[].", "deviceSelector.").Replace(
				strings.TrimPrefix(f.path, "."))
			// The operator copies the status there for other programs, and no agent reads it.
			if !strings.Contains(f.path, " nodeStatus[]") && !slices.Contains(all, f) {
				all = append(all, f)
			}
		}
	}
	return all
}

// textsOf returns the texts of a schema. rules are those of the schema that contains it, if they are for its values.
func textsOf(s apiextensionsv1.JSONSchemaProps, path string, rules []string) []field {
	for _, rule := range s.XValidations {
		rules = append(rules, rule.Rule)
	}
	switch {
	case s.XIntOrString:
		return nil
	case s.Type == "string":
		return []field{{path, checkOf(s, rules)}}
	case s.Type == "array":
		return textsOf(*s.Items.Schema, path+"[]", nil)
	}
	var all []field
	for _, name := range slices.Sorted(maps.Keys(s.Properties)) {
		all = append(all, textsOf(s.Properties[name], path+"."+name, nil)...)
	}
	if s.AdditionalProperties != nil && s.AdditionalProperties.Schema != nil {
		all = append(all, textsOf(*s.AdditionalProperties.Schema, path+"{}", rules)...)
	}
	return all
}

// checkOf returns what a schema requires of a text, or "" if the text is free. A rule that only compares the text with
// the one before, or its beginning, requires nothing.
func checkOf(s apiextensionsv1.JSONSchemaProps, rules []string) string {
	switch {
	case len(s.Enum) > 0:
		var values []string
		for _, value := range s.Enum {
			values = append(values, strings.Trim(string(value.Raw), `"`))
		}
		return "one of " + strings.Join(values, ", ")
	case s.Pattern != "":
		return reference.Code(s.Pattern)
	case s.Format != "":
		return "format " + s.Format
	}
	for _, rule := range rules {
		if strings.Contains(rule, "self.matches(") || strings.Contains(rule, "duration(self)") {
			return reference.Code(rule)
		}
	}
	return ""
}

func TestEveryFreeFieldIsListed(t *testing.T) {
	var free []string
	all := fields(t)
	for _, f := range all {
		if f.check == "" {
			free = append(free, f.path)
		}
	}
	missing, stale := differences(free, freeFields)
	for _, path := range missing {
		t.Errorf("the schema allows any text in %s: add a pattern, or add it to freeFields in list_test.go", path)
	}
	for _, path := range stale {
		t.Errorf("%s is not a field, or not free: remove it from freeFields in list_test.go", path)
	}
	if len(all) < 50 {
		t.Errorf("the CRDs have %d texts: there are more", len(all))
	}
}

// TestAFreeFieldIsFound tests the test before.
func TestAFreeFieldIsFound(t *testing.T) {
	text := apiextensionsv1.JSONSchemaProps{Type: "string"}
	kept := text
	kept.XValidations = apiextensionsv1.ValidationRules{{Rule: "self == oldSelf"}}
	matched := text
	matched.XValidations = apiextensionsv1.ValidationRules{{Rule: "self.matches('^a$')"}}
	got := textsOf(apiextensionsv1.JSONSchemaProps{Type: "object",
		Properties: map[string]apiextensionsv1.JSONSchemaProps{
			"a": text, "b": kept, "c": matched, "d": {Type: "array", Items: &apiextensionsv1.JSONSchemaPropsOrArray{
				Schema: &text}}}}, "", nil)
	want := []field{{".a", ""}, {".b", ""}, {".c", "`self.matches('^a$')`"}, {".d[]", ""}}
	if !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

// Each check is held by a test.
func TestEveryCheckHasATest(t *testing.T) {
	for _, i := range slices.Concat(parameters, objects) {
		file, name, _ := strings.Cut(i.test, " ")
		text, err := os.ReadFile(filepath.Join(root, file))
		if err != nil || !strings.Contains(string(text), "\nfunc "+name+"(") {
			t.Errorf("%s: %q is not a test: %v", i.names[0], i.test, err)
		}
	}
}

func TestReferenceOfInputsIsFresh(t *testing.T) {
	if err := reference.Check(filepath.Join(root, "docs/reference/inputs.md"), page(t), *update); err != nil {
		t.Error(err)
	}
}

const introduction = `# What users write and nodes run

Generated by ` + "`make references`" + ` from test/inputs and from the CRDs. A node agent is root on its node. This is
everything that users write and that it reads, with what it becomes a part of, and what checks it. No shell is used.
Tests search the code of the agent for annotations, parameters and fields of CSI requests, and the CRDs for texts
without a pattern: one that is not listed here fails them. "Admission" is the webhook of the LVMCluster, "CreateVolume"
the operator, "node" the agent, which checks again because PersistentVolumes can be written by hand.

## StorageClasses and PersistentVolumes

`

// page returns docs/reference/inputs.md.
func page(t *testing.T) string {
	t.Helper()
	values := constants(t)
	header := []string{"what", "part of", "check", "test"}
	var b strings.Builder
	b.WriteString(introduction + reference.Table(header, rows(parameters, values)))
	b.WriteString("\n## LogicalVolumes\n\nThe operator writes them, and users with permission to patch " +
		"them can too.\n\n" +
		reference.Table(header, rows(objects, values)))
	b.WriteString("\n## Fields of CRDs\n\nTexts in the specs, below `spec.storage` and `spec` of the LVMCluster, " +
		"or with their kind. " +
		"Quantities, numbers and booleans are not listed.\n\n")
	var texts [][]string
	for _, f := range fields(t) {
		check := f.check
		for _, i := range freeFields {
			if slices.Contains(i.names, f.path) {
				check = i.check
			}
		}
		texts = append(texts, []string{reference.Code(f.path), check})
	}
	b.WriteString(reference.Table([]string{"field", "check"}, texts))
	return b.String()
}

func rows(list []input, values map[string]string) [][]string {
	var rows [][]string
	for _, i := range list {
		text := i.text
		if text == "" {
			var shown []string
			for _, name := range i.names {
				shown = append(shown, reference.Code(values[name]))
			}
			text = strings.Join(shown, ", ")
		}
		file, name, _ := strings.Cut(i.test, " ")
		rows = append(rows, []string{text, i.reaches, i.check, fmt.Sprintf("`%s`: `%s`", file, name)})
	}
	return rows
}
