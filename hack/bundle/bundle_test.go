package main

import (
	"encoding/json"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/operator-framework/api/pkg/manifests"
	"github.com/operator-framework/api/pkg/operators/v1alpha1"
	"github.com/operator-framework/api/pkg/validation"
	interfaces "github.com/operator-framework/api/pkg/validation/interfaces"
	admissionv1 "k8s.io/api/admissionregistration/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"
)

const mustGather = "quay.io/lvm-storage/lvms-must-gather@sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"

const image = "quay.io/lvm-storage/lvms-operator@sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"

func newBundle(t *testing.T) (string, *manifests.Bundle) {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "bundle")
	o := options{repository: "../..", out: dir, version: "1.2.3", image: image, mustGather: mustGather,
		fipsModule: moduleCertified,
		maintainer: "LVM Storage", mail: "lvm-storage@users.noreply.github.com",
		url: "https://github.com/lvm-storage/lvm-operator"}
	if err := run(o); err != nil {
		t.Fatal(err)
	}
	bundle, err := manifests.GetBundleFromDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	return dir, bundle
}

// The validators of operator-sdk and the catalogs report no errors and no warnings. The validator of architectures is
// omitted, because it pulls images with a container engine.
func TestValidators(t *testing.T) {
	_, bundle := newBundle(t)
	objects := bundle.ObjectsToValidate()
	for _, object := range bundle.Objects {
		objects = append(objects, object)
	}
	for name, validator := range map[string]interfaces.Validator{
		"ClusterServiceVersion":    validation.ClusterServiceVersionValidator,
		"CustomResourceDefinition": validation.CustomResourceDefinitionValidator,
		"Bundle":                   validation.BundleValidator, "OperatorHub": validation.OperatorHubV2Validator,
		"Capabilities": validation.StandardCapabilitiesValidator,
		"Categories":   validation.StandardCategoriesValidator, "Object": validation.ObjectValidator,
		"OperatorGroup":       validation.OperatorGroupValidator,
		"AlphaDeprecatedAPIs": validation.AlphaDeprecatedAPIsValidator,
		"GoodPractices":       validation.GoodPracticesValidator,
	} {
		for _, result := range validator.Validate(objects...) {
			for _, problem := range slices.Concat(result.Errors, result.Warnings) {
				t.Errorf("%s: %v", name, problem)
			}
		}
	}
}

// These are the checks of operator-sdk's scorecard.
func TestScorecard(t *testing.T) {
	_, bundle := newBundle(t)
	var examples []struct {
		Kind     string
		Spec     map[string]any
		Metadata struct{ Name, Namespace string }
	}
	if err := json.Unmarshal([]byte(bundle.CSV.Annotations["alm-examples"]), &examples); err != nil {
		t.Fatal(err)
	}
	for _, owned := range bundle.CSV.Spec.CustomResourceDefinitions.Owned {
		if !slices.ContainsFunc(examples, func(e struct {
			Kind     string
			Spec     map[string]any
			Metadata struct{ Name, Namespace string }
		}) bool {
			return e.Kind == owned.Kind
		}) {
			t.Errorf("%s has no example", owned.Kind)
		}
		if len(owned.Resources) == 0 || owned.DisplayName == "" || owned.Description == "" {
			t.Errorf("%s says too little: %+v", owned.Kind, owned)
		}
		crd := bundle.V1CRDs[slices.IndexFunc(bundle.V1CRDs,
			func(c *apiextensionsv1.CustomResourceDefinition) bool { return c.Spec.Names.Kind == owned.Kind })]
		schema := crd.Spec.Versions[0].Schema.OpenAPIV3Schema
		described := map[string]bool{}
		for _, d := range owned.SpecDescriptors {
			described["spec."+d.Path] = d.DisplayName != "" && d.Description != ""
		}
		for _, d := range owned.StatusDescriptors {
			described["status."+d.Path] = d.DisplayName != "" && d.Description != ""
		}
		for _, part := range []string{"spec", "status"} {
			for name := range schema.Properties[part].Properties {
				if !described[part+"."+name] {
					t.Errorf("%s.%s.%s has no descriptor, or one that says nothing", owned.Kind, part, name)
				}
			}
		}
	}
	for _, e := range examples {
		if e.Kind == "LVMCluster" && (e.Spec == nil || e.Metadata.Namespace != namespace) {
			t.Errorf("example %+v", e)
		}
	}
}

// The bundle configures OpenShift's Prometheus. The operator creates the rules, because the address of their runbooks
// is an option of the installation. OLM sets the namespace.
func TestTheBundleBringsItsMonitoring(t *testing.T) {
	_, bundle := newBundle(t)
	for _, annotation := range []string{"operatorframework.io/cluster-monitoring",
		"console.openshift.io/operator-monitoring-default"} {
		if bundle.CSV.Annotations[annotation] != "true" {
			t.Errorf("%s is %q", annotation, bundle.CSV.Annotations[annotation])
		}
	}
	for _, want := range []string{
		"Service lvms-operator-metrics-service",
		"Service vg-manager-metrics-service",
	} {
		at := slices.IndexFunc(bundle.Objects,
			func(o *unstructured.Unstructured) bool { return o.GetKind()+" "+o.GetName() == want })
		if at < 0 {
			t.Errorf("the bundle has no %s", want)
		} else if namespace := bundle.Objects[at].GetNamespace(); namespace != "" {
			t.Errorf("%s is for the namespace %s", want, namespace)
		}
	}
	if slices.ContainsFunc(bundle.Objects,
		func(o *unstructured.Unstructured) bool { return o.GetKind() == "PrometheusRule" }) {
		t.Error("the bundle has a PrometheusRule: its installer and the operator would write the same object")
	}
}

// OLM does not delete a Role or a cluster-scoped object of a bundle, so the operator creates them.
func TestTheBundleHasNothingThatOLMLeaves(t *testing.T) {
	_, bundle := newBundle(t)
	leaves := []string{"Role", "RoleBinding", "ClusterRole", "ClusterRoleBinding", "ConsolePlugin", "ConsoleQuickStart"}
	for _, object := range bundle.Objects {
		if slices.Contains(leaves, object.GetKind()) {
			t.Errorf("the bundle has %s %s", object.GetKind(), object.GetName())
		}
	}
}

// The console offers to enable the plugin, and links to its form.
func TestTheConsoleIsToldOfThePlugin(t *testing.T) {
	_, bundle := newBundle(t)
	csv := bundle.CSV
	plugin, err := os.ReadFile("../../console-plugin/web/plugin.ts")
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	if err := json.Unmarshal([]byte(csv.Annotations["console.openshift.io/plugins"]), &names); err != nil ||
		len(names) != 1 || !strings.Contains(string(plugin), "name: '"+names[0]+"'") {
		t.Errorf("plugins %q, %v", names, err)
	}
	var first struct {
		APIVersion, Kind string
		Metadata         struct{ Namespace string }
	}
	if err := json.Unmarshal([]byte(csv.Annotations["operatorframework.io/initialization-resource"]),
		&first); err != nil {
		t.Fatal(err)
	}
	want := "/k8s/ns/" + first.Metadata.Namespace + "/" + strings.ReplaceAll(first.APIVersion, "/", "~") + "~" +
		first.Kind + "/~new"
	if got := csv.Annotations["operatorframework.io/initialization-link"]; got != want {
		t.Errorf("the link is %q, want %q", got, want)
	}
}

// The console proposes to list the devices first. The examples have an LVMCluster that uses them.
func TestTheFirstLVMClusterUsesNoDevices(t *testing.T) {
	_, bundle := newBundle(t)
	var first unstructured.Unstructured
	annotations := bundle.CSV.Annotations
	if err := json.Unmarshal([]byte(annotations["operatorframework.io/initialization-resource"]),
		&first.Object); err != nil {
		t.Fatal(err)
	}
	if first.GetKind() != "LVMCluster" || first.GetNamespace() != namespace || classesOf(t, first) != 0 {
		t.Errorf("the first object is %v", first.Object)
	}
	var examples []map[string]any
	if err := json.Unmarshal([]byte(annotations["alm-examples"]), &examples); err != nil {
		t.Fatal(err)
	}
	if full := (unstructured.Unstructured{Object: examples[0]}); full.GetKind() != "LVMCluster" ||
		classesOf(t, full) == 0 {
		t.Errorf("the first example is %v", full.Object)
	}
}

// classesOf returns the number of device classes of an LVMCluster.
func classesOf(t *testing.T, cluster unstructured.Unstructured) int {
	t.Helper()
	classes, _, err := unstructured.NestedSlice(cluster.Object, "spec", "storage", "deviceClasses")
	if err != nil {
		t.Fatal(err)
	}
	return len(classes)
}

// TestFIPSIsDeclaredOnlyForAnImageThatHasTheModule: the image of `make image` has none.
func TestFIPSIsDeclaredOnlyForAnImageThatHasTheModule(t *testing.T) {
	for module, want := range map[string]string{moduleOff: "false", moduleCertified: "true", "": "-fips-module",
		"latest": "-fips-module"} {
		dir := filepath.Join(t.TempDir(), "bundle")
		err := run(options{repository: "../..", out: dir, version: "1.2.3", image: image, fipsModule: module})
		if err != nil {
			if !strings.Contains(err.Error(), want) {
				t.Errorf("module %q: %v", module, err)
			}
			continue
		}
		bundle, err := manifests.GetBundleFromDir(dir)
		if err != nil {
			t.Fatal(err)
		}
		if got := bundle.CSV.Annotations["features.operators.openshift.io/fips-compliant"]; got != want {
			t.Errorf("module %q: declared %q, want %q", module, got, want)
		}
	}
}

// The CSV has what users see first, and what the certification requires.
func TestTheCSVSaysWhatItIs(t *testing.T) {
	dir, bundle := newBundle(t)
	csv := bundle.CSV
	if csv.Name != "lvms-operator.v1.2.3" || csv.Annotations["olm.skipRange"] != ">=1.1.0 <1.2.3" ||
		bundle.DefaultChannel != "stable-1.2" || !slices.Equal(bundle.Channels, []string{"stable-1.2", "candidate"}) {
		t.Errorf("%s %s %s %v", csv.Name, csv.Annotations["olm.skipRange"], bundle.DefaultChannel, bundle.Channels)
	}
	if csv.Spec.DisplayName != "LVM Storage (community)" || len(csv.Spec.Icon) != 1 ||
		csv.Spec.Icon[0].MediaType != "image/svg+xml" {
		t.Errorf("the tile has the name %q and %d icons", csv.Spec.DisplayName, len(csv.Spec.Icon))
	}
	for _, feature := range []string{"disconnected", "fips-compliant", "proxy-aware", "tls-profiles", "token-auth-aws",
		"token-auth-azure", "token-auth-gcp", "csi", "cni", "cnf"} {
		if answer := csv.Annotations["features.operators.openshift.io/"+feature]; answer != "true" &&
			answer != "false" {
			t.Errorf("feature %s is answered %q", feature, answer)
		}
	}
	if answer := csv.Annotations["features.operators.openshift.io/fips-compliant"]; answer != "true" {
		t.Errorf("an image with the certified module is declared FIPS-compliant: %q", answer)
	}
	for _, mode := range csv.Spec.InstallModes {
		if supported := mode.Type != v1alpha1.InstallModeTypeMultiNamespace; mode.Supported != supported {
			t.Errorf("install mode %+v", mode)
		}
	}
	var suggested struct {
		Metadata struct {
			Name                string
			Labels, Annotations map[string]string
		}
	}
	if err := json.Unmarshal([]byte(csv.Annotations["operatorframework.io/suggested-namespace-template"]),
		&suggested); err != nil {
		t.Fatal(err)
	}
	if suggested.Metadata.Name != namespace ||
		suggested.Metadata.Annotations["workload.openshift.io/allowed"] != "management" ||
		suggested.Metadata.Labels["pod-security.kubernetes.io/enforce"] != "privileged" {
		t.Errorf("suggested namespace %+v", suggested)
	}
	var internal []string
	if err := json.Unmarshal([]byte(csv.Annotations["operators.operatorframework.io/internal-objects"]),
		&internal); err != nil {
		t.Fatal(err)
	}
	created := []string{"LVMCluster", "LVMRecovery", "LVMDeviceApproval", "VolumeMove"}
	for _, owned := range csv.Spec.CustomResourceDefinitions.Owned {
		if hidden := slices.Contains(internal, owned.Name); hidden == slices.Contains(created, owned.Kind) {
			t.Errorf("%s: hidden from people: %v", owned.Name, hidden)
		}
	}
	if csv.Annotations["operators.openshift.io/must-gather-image"] != mustGather || len(csv.Spec.RelatedImages) != 2 ||
		csv.Spec.RelatedImages[1].Image != mustGather {
		t.Errorf("must-gather: %q, related images %v", csv.Annotations["operators.openshift.io/must-gather-image"],
			csv.Spec.RelatedImages)
	}
	// Every image is in relatedImages, with its digest.
	err := filepath.WalkDir(dir, func(path string, _ os.DirEntry, err error) error {
		data, readErr := os.ReadFile(path)
		if err != nil || readErr != nil || !strings.Contains(path, "manifests") {
			return err
		}
		var object map[string]any
		if err := yaml.Unmarshal(data, &object); err != nil {
			return err
		}
		for _, found := range imagesIn(object) {
			if !slices.ContainsFunc(csv.Spec.RelatedImages,
				func(r v1alpha1.RelatedImage) bool { return r.Image == found }) ||
				!strings.Contains(found, "@sha256:") {
				t.Errorf("%s names the image %s, which is not in relatedImages", filepath.Base(path), found)
			}
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
}

// imagesIn returns the values of all fields with the name image.
func imagesIn(value any) []string {
	var images []string
	switch v := value.(type) {
	case map[string]any:
		for key, inner := range v {
			if text, ok := inner.(string); ok && key == "image" {
				images = append(images, text)
			}
			images = append(images, imagesIn(inner)...)
		}
	case []any:
		for _, inner := range v {
			images = append(images, imagesIn(inner)...)
		}
	}
	return images
}

// The permissions in the bundle are those of config/rbac, the webhook is that of config/webhook, and the operator reads
// OLM's certificate.
func TestTheInstallationIsThatOfTheManifests(t *testing.T) {
	_, bundle := newBundle(t)
	details := bundle.CSV.Spec.InstallStrategy.StrategySpec
	for _, permissions := range [][]v1alpha1.StrategyDeploymentPermissions{details.Permissions,
		details.ClusterPermissions} {
		if len(permissions) != 2 || permissions[0].ServiceAccountName != operator ||
			permissions[1].ServiceAccountName != agent {
			t.Fatalf("got %+v, want permissions of %s and %s", permissions, operator, agent)
		}
		if of, ofAgent := len(permissions[0].Rules), len(permissions[1].Rules); of < 5 || ofAgent < 3 {
			t.Errorf("got %d and %d rules", of, ofAgent)
		}
	}
	container := details.DeploymentSpecs[0].Spec.Template.Spec.Containers[0]
	if container.Image != image || !slices.Contains(container.Args, "--webhook-cert-dir="+olmCertificates) {
		t.Errorf("got %s %v", container.Image, container.Args)
	}
	webhooks := bundle.CSV.Spec.WebhookDefinitions
	if len(webhooks) != 3 {
		t.Fatalf("got %+v", webhooks)
	}
	for i, path := range []string{"/validate-lvm-topolvm-io-v1alpha1-lvmcluster",
		"/validate-lvm-topolvm-io-v1alpha1-lvmdeviceapproval", "/validate-lvm-topolvm-io-v1alpha1-lvmrecovery"} {
		if *webhooks[i].WebhookPath != path || len(webhooks[i].Rules) != 1 || webhooks[i].TargetPort.IntVal != 9443 {
			t.Errorf("got %+v", webhooks[i])
		}
	}
	// OLM has no conditions, so this webhook is called for all recoveries: they must not need the operator.
	if policy := webhooks[2].FailurePolicy; policy == nil || *policy != admissionv1.Ignore {
		t.Errorf("got %+v", webhooks[2])
	}
}

// Red Hat's release policy (Conforma, olm.required_network_policy_rbac_for_operands) requires one rule of the operator
// with these verbs.
func TestTheOperatorMayManageNetworkPoliciesAsTheReleasePolicyRequires(t *testing.T) {
	_, bundle := newBundle(t)
	details := bundle.CSV.Spec.InstallStrategy.StrategySpec
	for _, permissions := range slices.Concat(details.Permissions, details.ClusterPermissions) {
		for _, rule := range permissions.Rules {
			if slices.Contains(rule.APIGroups, "networking.k8s.io") && slices.Contains(rule.Resources, "networkpolicies") &&
				slices.Contains(rule.Verbs, "create") && slices.Contains(rule.Verbs, "delete") &&
				(slices.Contains(rule.Verbs, "patch") || slices.Contains(rule.Verbs, "update")) {
				return
			}
		}
	}
	t.Error("no rule of the CSV permits create, delete, and patch or update of networkpolicies")
}

// The labels let OperatorHub hide the operator from clusters on whose nodes it cannot run.
func TestTheBundleIsForTheArchitecturesOfTheImage(t *testing.T) {
	dev, err := os.ReadFile("../dev/artifacts.go")
	if err != nil {
		t.Fatal(err)
	}
	want := []string{"amd64", "arm64", "ppc64le", "s390x"}
	if built := `architectures = []string{"` + strings.Join(want, `", "`) + `"}`; !strings.Contains(string(dev), built) {
		t.Errorf("hack/dev has no %q", built)
	}
	_, bundle := newBundle(t)
	labels := map[string]string{"operatorframework.io/os.linux": "supported"}
	for _, arch := range want {
		labels["operatorframework.io/arch."+arch] = "supported"
	}
	if !maps.Equal(bundle.CSV.Labels, labels) {
		t.Errorf("got labels %v, want %v", bundle.CSV.Labels, labels)
	}
	pod := bundle.CSV.Spec.InstallStrategy.StrategySpec.DeploymentSpecs[0].Spec.Template.Spec
	terms := pod.Affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution.NodeSelectorTerms
	if len(terms) != 1 || len(terms[0].MatchExpressions) != 2 ||
		!slices.Equal(terms[0].MatchExpressions[0].Values, want) ||
		!slices.Equal(terms[0].MatchExpressions[1].Values, []string{"linux"}) {
		t.Errorf("got %+v", terms)
	}
}

// A mirror contains the images of relatedImages. It would lack any other string that looks like an image.
func TestEveryImageIsARelatedOne(t *testing.T) {
	dir, bundle := newBundle(t)
	related := map[string]bool{}
	for _, r := range bundle.CSV.Spec.RelatedImages {
		related[r.Image] = true
	}
	found := 0
	files, err := filepath.Glob(filepath.Join(dir, "manifests", "*.yaml"))
	if err != nil || len(files) == 0 {
		t.Fatal(files, err)
	}
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range regexp.MustCompile(
			`\b[a-z0-9-]+(\.[a-z0-9-]+)+(:[0-9]+)?/[a-z0-9._/-]+(@sha256:[0-9a-f]+|:v?[0-9][0-9a-z.-]*)`).FindAllString(
			string(data), -1) {
			if found++; !related[name] {
				t.Errorf("%s names %s, which is not among the related images", filepath.Base(file), name)
			}
		}
	}
	if found == 0 {
		t.Error("no image was found")
	}
}

func TestBadInput(t *testing.T) {
	for name, tc := range map[string]struct {
		change func(*options)
		says   string
	}{
		"no version":    {func(o *options) { o.version = "" }, `-version ""`},
		"not a version": {func(o *options) { o.version = "v1" }, `-version "v1"`},
		"no image":      {func(o *options) { o.image = "" }, "-image"},
		"no repository": {func(o *options) { o.repository = t.TempDir() }, "has no files"},
	} {
		o := options{repository: "../..", out: filepath.Join(t.TempDir(), "bundle"), version: "1.2.3", image: image,
			fipsModule: moduleOff}
		tc.change(&o)
		if err := run(o); err == nil || !strings.Contains(err.Error(), tc.says) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestNames(t *testing.T) {
	for name, want := range map[string]string{"overprovisionRatio": "Overprovision ratio", "fstype": "File system type",
		"name": "Name"} {
		if got := (field{name: name}).displayName(); got != want {
			t.Errorf("%s is %q", name, got)
		}
	}
}

// An image that is built with a container engine has the labels of the bundle.
func TestDockerfileHasTheBundlesLabels(t *testing.T) {
	dockerfile, err := os.ReadFile("../../bundle.Dockerfile")
	if err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile("../../bundle/metadata/annotations.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var metadata struct {
		Annotations map[string]string `json:"annotations"`
	}
	if err := yaml.UnmarshalStrict(data, &metadata); err != nil {
		t.Fatal(err)
	}
	labels := map[string]string{}
	for line := range strings.Lines(string(dockerfile)) {
		if label, ok := strings.CutPrefix(strings.TrimSpace(line), "LABEL "); ok {
			key, value, _ := strings.Cut(label, "=")
			labels[key] = value
		}
	}
	if !maps.Equal(labels, metadata.Annotations) {
		t.Errorf("bundle.Dockerfile has %v, the bundle %v", labels, metadata.Annotations)
	}
	for _, folder := range []string{"manifests", "metadata", "tests/scorecard"} {
		if !strings.Contains(string(dockerfile), "COPY bundle/"+folder+" /"+folder+"/\n") {
			t.Errorf("bundle.Dockerfile does not copy %s", folder)
		}
	}
}
