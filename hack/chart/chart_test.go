package main

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"io"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"helm.sh/helm/v3/pkg/chart/loader"
	"helm.sh/helm/v3/pkg/chartutil"
	"helm.sh/helm/v3/pkg/engine"
	"helm.sh/helm/v3/pkg/lint"
	"helm.sh/helm/v3/pkg/lint/support"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/kustomize/api/krusty"
	"sigs.k8s.io/kustomize/kyaml/filesys"
	sigsyaml "sigs.k8s.io/yaml"
)

const (
	repository = "../.."
	operator   = "lvms-operator"
	minKube    = "1.30.0"
	// elsewhere is the namespace of the releases in tests.
	elsewhere = "elsewhere"
	testImage = "registry.example.com:5000/lvms-operator"
	digest    = "sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"
)

// newChart generates the chart, and returns its directory.
func newChart(t *testing.T) string {
	t.Helper()
	folder := filepath.Join(t.TempDir(), operator)
	o := options{repository: repository, out: folder, config: t.TempDir(),
		reference: filepath.Join(t.TempDir(), "helm.md"), version: "1.2.3", image: testImage + ":v1.2.3"}
	if err := run(o); err != nil {
		t.Fatal(err)
	}
	return folder
}

// setsOf returns the values of a YAML document.
func setsOf(t *testing.T, text string) map[string]any {
	t.Helper()
	values := map[string]any{}
	if err := sigsyaml.UnmarshalStrict([]byte(text), &values); err != nil {
		t.Fatal(err)
	}
	return values
}

// render returns the output of the templates, or the error of Helm.
func render(t *testing.T, folder, values string) (map[string]string, error) {
	t.Helper()
	loaded, err := loader.Load(folder)
	if err != nil {
		t.Fatal(err)
	}
	release := chartutil.ReleaseOptions{Name: "lvms", Namespace: elsewhere, Revision: 1, IsInstall: true}
	all, err := chartutil.ToRenderValues(loaded, setsOf(t, values), release, chartutil.DefaultCapabilities)
	if err != nil {
		return nil, err
	}
	return engine.Render(loaded, all)
}

// objectsOf renders the chart with values and returns its objects.
func objectsOf(t *testing.T, folder, values string) []*unstructured.Unstructured {
	t.Helper()
	files, err := render(t, folder, values)
	if err != nil {
		t.Fatal(err)
	}
	var objects []*unstructured.Unstructured
	for _, name := range slices.Sorted(maps.Keys(files)) {
		if strings.HasSuffix(name, ".yaml") {
			objects = append(objects, decode(t, files[name])...)
		}
	}
	return objects
}

func decode(t *testing.T, text string) []*unstructured.Unstructured {
	t.Helper()
	var objects []*unstructured.Unstructured
	for decoder := yaml.NewYAMLOrJSONDecoder(strings.NewReader(text), len(text)); ; {
		object := &unstructured.Unstructured{}
		err := decoder.Decode(object)
		if errors.Is(err, io.EOF) {
			return objects
		}
		if err != nil {
			t.Fatalf("%v in\n%s", err, text)
		}
		if len(object.Object) > 0 {
			objects = append(objects, object)
		}
	}
}

// deployed returns the objects that `make deploy` applies, by the same replacement of texts as hack/deploy, without the
// namespace.
func deployed(t *testing.T, kustomizations ...string) []*unstructured.Unstructured {
	t.Helper()
	var objects []*unstructured.Unstructured
	for _, folder := range kustomizations {
		resources, err := krusty.MakeKustomizer(krusty.MakeDefaultOptions()).Run(filesys.MakeFsOnDisk(),
			filepath.Join(repository, folder))
		if err != nil {
			t.Fatal(err)
		}
		data, err := resources.AsYaml()
		if err != nil {
			t.Fatal(err)
		}
		objects = append(objects, decode(t, strings.NewReplacer("openshift-lvm-storage", elsewhere,
			"image: lvms-operator:latest", "image: "+testImage+":v1.2.3").Replace(string(data)))...)
	}
	return slices.DeleteFunc(objects, func(o *unstructured.Unstructured) bool { return o.GetKind() == "Namespace" })
}

func keyOf(object *unstructured.Unstructured) string {
	return object.GetKind() + " " + object.GetNamespace() + "/" + object.GetName()
}

// ownObjects are the objects that only the chart has: those that refuse to uninstall it.
var ownObjects = []string{"ConfigMap elsewhere/lvms-helm-uninstall",
	"ValidatingAdmissionPolicy /lvms-helm-uninstall", "ValidatingAdmissionPolicyBinding /lvms-helm-uninstall"}

// A release has the objects of `make deploy NAMESPACE=elsewhere`. The CRDs have an annotation for Helm.
func TestTheReleaseIsWhatMakeDeployApplies(t *testing.T) {
	folder := newChart(t)
	for name, tt := range map[string]struct {
		values  string
		folders []string
	}{
		"Kubernetes": {"{}", []string{"config/default"}},
		"OpenShift":  {"{openshift: true}", []string{"config/openshift"}},
		"OpenShift with monitoring": {"{openshift: true, monitoring: {enabled: true}}",
			[]string{"config/openshift"}},
		"Prometheus Operator": {"{monitoring: {enabled: true}}",
			[]string{"config/default", "monitoring/prometheus-operator"}},
		"a part of another chart": {"{global: {a: b}}", []string{"config/default"}},
	} {
		t.Run(name, func(t *testing.T) {
			rendered := map[string]*unstructured.Unstructured{}
			for _, object := range objectsOf(t, folder, tt.values) {
				if rendered[keyOf(object)] != nil {
					t.Errorf("%s is rendered twice", keyOf(object))
				}
				rendered[keyOf(object)] = object
			}
			for _, want := range deployed(t, tt.folders...) {
				got := rendered[keyOf(want)]
				delete(rendered, keyOf(want))
				if got == nil {
					t.Errorf("the chart has no %s", keyOf(want))
				} else if got = withoutKeep(t, got); !reflect.DeepEqual(got.Object, want.Object) {
					t.Errorf("%s is\n%s\nwant\n%s", keyOf(want), asYAML(t, got), asYAML(t, want))
				}
			}
			if rest := slices.Sorted(maps.Keys(rendered)); !slices.Equal(rest, ownObjects) {
				t.Errorf("only the chart has %q", rest)
			}
		})
	}
}

// withoutKeep removes the annotation that CRDs must have, and others must not.
func withoutKeep(t *testing.T, object *unstructured.Unstructured) *unstructured.Unstructured {
	t.Helper()
	annotations := object.GetAnnotations()
	want := ""
	if object.GetKind() == "CustomResourceDefinition" {
		want = "keep"
	}
	if annotations[keep] != want {
		t.Errorf("%s has the resource policy %q, want %q", keyOf(object), annotations[keep], want)
	}
	delete(annotations, keep)
	object.SetAnnotations(annotations)
	return object
}

func asYAML(t *testing.T, object *unstructured.Unstructured) string {
	t.Helper()
	data, err := sigsyaml.Marshal(object.Object)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

// deploymentOf returns the Deployment of a release with values.
func deploymentOf(t *testing.T, folder, values string) *appsv1.Deployment {
	t.Helper()
	for _, object := range objectsOf(t, folder, values) {
		if object.GetKind() == "Deployment" {
			typed := &appsv1.Deployment{}
			if err := runtime.DefaultUnstructuredConverter.FromUnstructuredWithValidation(object.Object, typed,
				true); err != nil {
				t.Fatal(err)
			}
			return typed
		}
	}
	t.Fatal("no Deployment")
	return nil
}

// values returns the values of the chart.
func values(t *testing.T) []value {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(repository, folder, valuesFile))
	if err != nil {
		t.Fatal(err)
	}
	all, err := valuesOf(string(data))
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// Each value changes what it names in the Pod of the operator.
func TestValues(t *testing.T) {
	folder := newChart(t)
	hasArgument := func(want string) func(corev1.PodSpec) bool {
		return func(pod corev1.PodSpec) bool { return slices.Contains(pod.Containers[0].Args, want) }
	}
	hasImage := func(want string) func(corev1.PodSpec) bool {
		return func(pod corev1.PodSpec) bool { return pod.Containers[0].Image == want }
	}
	tests := map[string]func(corev1.PodSpec) bool{
		"{}":                                 hasImage(testImage + ":v1.2.3"),
		"image: {repository: example.com/a}": hasImage("example.com/a:v1.2.3"),
		"image: {tag: dev}":                  hasImage(testImage + ":dev"),
		"image: {tag: dev, digest: '" + digest + "'}": hasImage(testImage + "@" + digest),
		"imagePullSecrets: [{name: registry}]": func(pod corev1.PodSpec) bool {
			return len(pod.ImagePullSecrets) == 1 && pod.ImagePullSecrets[0].Name == "registry"
		},
		"resources: {requests: {cpu: 100m}, limits: {memory: 1Gi}}": func(pod corev1.PodSpec) bool {
			r := pod.Containers[0].Resources
			return r.Requests.Cpu().String() == "100m" && r.Limits.Memory().String() == "1Gi"
		},
		"nodeSelector: {node-role.kubernetes.io/control-plane: ''}": func(pod corev1.PodSpec) bool {
			value, found := pod.NodeSelector["node-role.kubernetes.io/control-plane"]
			return found && value == ""
		},
		"tolerations: [{key: infra, operator: Exists}]": func(pod corev1.PodSpec) bool {
			return len(pod.Tolerations) == 1 && pod.Tolerations[0].Key == "infra"
		},
		"affinity: {nodeAffinity: {requiredDuringSchedulingIgnoredDuringExecution: {nodeSelectorTerms: [" +
			"{matchExpressions: [{key: a, operator: Exists}]}]}}}": func(pod corev1.PodSpec) bool {
			return len(pod.Affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution.NodeSelectorTerms) == 1
		},
		"standbys: 0":                                   hasArgument("--standbys=0"),
		"logLevel: debug":                               hasArgument("--zap-log-level=debug"),
		"smartInterval: 12h":                            hasArgument("--smart-interval=12h"),
		"nodeProbeInterval: 30m":                        hasArgument("--node-probe-interval=30m"),
		"volumeMetrics: 0":                              hasArgument("--volume-metrics=0"),
		"kubeletRootDir: /var/lib/k0s/kubelet":          hasArgument("--kubelet-root-dir=/var/lib/k0s/kubelet"),
		"hostPath: /run/current-system/sw/bin:/usr/bin": hasArgument("--host-path=/run/current-system/sw/bin:/usr/bin"),
		"clusterID: site-7":                             hasArgument("--cluster-id=site-7"),
		"runbookBaseURL: https://example.com/a?b=c":     hasArgument("--runbook-base-url=https://example.com/a?b=c"),
		"podWebhook: {enabled: true}":                   hasArgument("--pod-webhook"),
		"openshift: true":                               hasArgument("--webhook-cert-dir=/var/run/secrets/webhook"),
	}
	for values, check := range tests {
		if deployment := deploymentOf(t, folder, values); !check(deployment.Spec.Template.Spec) {
			t.Errorf("%s: got %+v", values, deployment.Spec.Template.Spec)
		}
	}
	names := slices.Collect(maps.Keys(tests))
	for _, v := range values(t) {
		if top := v.path[0]; top != "monitoring" && top != "scheduler" && !slices.ContainsFunc(names,
			func(n string) bool {
				return strings.HasPrefix(n, top+":")
			}) {
			t.Errorf("%s is not tested", top)
		}
	}
}

// The chart omits flags with the operator's default, and has no flag that the operator lacks.
func TestTheFlagsAreThoseOfTheOperator(t *testing.T) {
	data, err := os.ReadFile(filepath.Join(repository, "docs/reference/flags.md"))
	if err != nil {
		t.Fatal(err)
	}
	defaults := map[string]string{}
	for _, v := range values(t) {
		defaults[v.path[0]] = v.standard
	}
	for flag, standard := range map[string]string{
		"zap-log-level": "", "runbook-base-url": "", "smart-interval": "`0s`",
		"node-probe-interval": "`0s`",
		"cluster-id":          "", "pod-webhook": "`false`", "kubelet-root-dir": "`/var/lib/kubelet`", "host-path": "`/usr/sbin:/usr/bin:/sbin:/bin`",
		"standbys": "`" + defaults["standbys"] + "`", "volume-metrics": "`" + defaults["volumeMetrics"] + "`",
	} {
		row := regexp.MustCompile("(?m)^\\| `--" + flag + "` \\| [^|]+ \\| " + regexp.QuoteMeta(standard))
		if !row.Match(data) {
			t.Errorf("the operator has no flag --%s with the default %q", flag, standard)
		}
	}
}

// The node agents pull the image too: their Pods get the secrets of their ServiceAccount.
func TestBothServiceAccountsHaveThePullSecrets(t *testing.T) {
	found := 0
	for _, object := range objectsOf(t, newChart(t), "imagePullSecrets: [{name: registry}]") {
		if object.GetKind() != "ServiceAccount" {
			continue
		}
		account := &corev1.ServiceAccount{}
		if err := runtime.DefaultUnstructuredConverter.FromUnstructuredWithValidation(object.Object, account,
			true); err != nil {
			t.Fatal(err)
		}
		if found++; len(account.ImagePullSecrets) != 1 || account.ImagePullSecrets[0].Name != "registry" {
			t.Errorf("%s has %v", account.Name, account.ImagePullSecrets)
		}
	}
	if found != 2 {
		t.Errorf("%d ServiceAccounts", found)
	}
}

func TestPrometheusIsTheOneOfTheValues(t *testing.T) {
	found := 0
	for _, object := range objectsOf(t, newChart(t),
		"monitoring: {enabled: true, serviceAccount: {name: p, namespace: q}}") {
		subjects, _, err := unstructured.NestedSlice(object.Object, "subjects")
		if err != nil {
			t.Fatal(err)
		}
		want := map[string]any{"kind": "ServiceAccount", "name": "p", "namespace": "q"}
		if strings.HasPrefix(object.GetName(), "lvms-metrics") && subjects != nil {
			if found++; !reflect.DeepEqual(subjects, []any{want}) {
				t.Errorf("%s has %v", keyOf(object), subjects)
			}
		}
	}
	if found != 2 {
		t.Errorf("%d bindings", found)
	}
}

func TestWrongValuesAreRefused(t *testing.T) {
	folder := newChart(t)
	for values, want := range map[string]string{
		"image: {repositry: a}":                    "repositry",
		"image: registry.example.com/a":            "image",
		"image: {repository: 'a@sha256:b'}":        "repository",
		"image: {repository: ''}":                  "repository",
		"image: {digest: 'sha256:b'}":              "digest",
		"image: {tag: 1.2}":                        "tag",
		"imagePullSecrets: [registry]":             "imagePullSecrets",
		"tolerations: {key: a}":                    "tolerations",
		"nodeSelector: {a: 1}":                     "nodeSelector",
		"standbys: 3":                              "standbys",
		"standbys: one":                            "standbys",
		"logLevel: loud":                           "logLevel",
		"smartInterval: 12 hours":                  "smartInterval",
		"nodeProbeInterval: hourly":                "nodeProbeInterval",
		"volumeMetrics: -1":                        "volumeMetrics",
		"kubeletRootDir: kubelet":                  "kubeletRootDir",
		"hostPath: bin":                            "hostPath",
		"clusterID: site 7":                        "clusterID",
		"runbookBaseURL: example.com":              "runbookBaseURL",
		"openshift: 'yes'":                         "openshift",
		"monitoring: true":                         "monitoring",
		"scheduler: {enabled: 'true'}":             "enabled",
		"scheduler: {port: 0}":                     "port",
		"scheduler: {defaultDivisor: 0}":           "defaultDivisor",
		"scheduler: {divisors: {ssd: 0}}":          "ssd",
		"scheduler: {listen: ':8000'}":             "listen",
		"podWebhook: true":                         "podWebhook",
		"monitoring: {serviceAccount: {name: ''}}": "name",
		"replicas: 2":                              "replicas",
	} {
		if _, err := render(t, folder, values); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want an error with %q", values, err, want)
		}
	}
}

// `helm lint` reports at most that the chart has no icon.
func TestLint(t *testing.T) {
	folder := newChart(t)
	for _, values := range []string{"{}", "{openshift: true, monitoring: {enabled: true}}"} {
		linter := lint.AllWithKubeVersion(folder, setsOf(t, values), elsewhere,
			&chartutil.KubeVersion{Version: "v" + minKube, Major: "1", Minor: "30"})
		for _, message := range linter.Messages {
			if message.Severity != support.InfoSev || !strings.Contains(message.Err.Error(), "icon") {
				t.Errorf("%s: %v", values, message)
			}
		}
	}
}

// Helm stores a release with its chart in a Secret, which must have less than 1 MiB.
func TestTheReleaseFitsIntoASecret(t *testing.T) {
	folder := newChart(t)
	loaded, err := loader.Load(folder)
	if err != nil {
		t.Fatal(err)
	}
	files, err := render(t, folder, "{}")
	if err != nil {
		t.Fatal(err)
	}
	data, err := json.Marshal(map[string]any{"chart": loaded, "manifest": files})
	if err != nil {
		t.Fatal(err)
	}
	var packed bytes.Buffer
	writer := gzip.NewWriter(&packed)
	if _, err := writer.Write(data); err != nil {
		t.Fatal(err)
	}
	if err := writer.Close(); err != nil {
		t.Fatal(err)
	}
	// Base64 is used twice: by Helm, and by the API for the data of a Secret.
	if size := packed.Len() * 16 / 9; size > 512<<10 {
		t.Errorf("a release has %d KiB", size>>10)
	}
}

func TestPackage(t *testing.T) {
	loaded, err := loader.Load(newChart(t))
	if err != nil {
		t.Fatal(err)
	}
	archive, err := chartutil.Save(loaded, t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	if name := filepath.Base(archive); name != "lvms-operator-1.2.3.tgz" {
		t.Errorf("the archive is %s", name)
	}
	again, err := loader.Load(archive)
	if err != nil || again.Metadata.KubeVersion != ">=1.30.0-0" || again.Schema == nil ||
		len(again.Templates) != len(loaded.Templates) {
		t.Errorf("the archive has %+v, %v", again.Metadata, err)
	}
}

// The notes name the namespace.
func TestNotes(t *testing.T) {
	files, err := render(t, newChart(t), "{}")
	if err != nil {
		t.Fatal(err)
	}
	notes := files[operator+"/templates/NOTES.txt"]
	if !strings.Contains(notes, "LVM Storage 1.2.3 is installed in namespace elsewhere") ||
		strings.Contains(notes, "pod-security") {
		t.Errorf("got %s", notes)
	}
}

// A text of the manifests that looks like a template is rendered as it is.
func TestTemplatesOfUnusualManifests(t *testing.T) {
	object := &unstructured.Unstructured{Object: map[string]any{"data": "{{ .Name }} of openshift-lvm-storage"}}
	text, err := textOf(object)
	if want := `data: '{{ "{{" }} .Name }} of {{ .Release.Namespace }}'` + "\n"; err != nil || text != want {
		t.Errorf("got %q, %v", text, err)
	}
}

// A chart in which the version, a comment or the schema of a value is missing is not written.
func TestBadCharts(t *testing.T) {
	if err := (chart{chartFile: "name: a\n"}).release("1.2.3", image{}); err == nil ||
		!strings.Contains(err.Error(), `0 lines "version"`) {
		t.Errorf("got %v", err)
	}
	if _, err := valuesOf("# A.\na: 1\nb: 2\n"); err == nil || !strings.Contains(err.Error(), "b has no comment") {
		t.Errorf("got %v", err)
	}
	if _, err := described(`{"properties": {"a": {}}}`, []value{{path: []string{"a", "b"}}}); err == nil ||
		!strings.Contains(err.Error(), "a.b") {
		t.Errorf("got %v", err)
	}
}

// Each property in the schema is a value, which has the description.
func TestTheSchemaHasNoOtherValues(t *testing.T) {
	known := map[string]string{}
	for _, v := range values(t) {
		known[strings.Join(v.path, ".")] = v.help
	}
	data, err := os.ReadFile(filepath.Join(newChart(t), schemaFile))
	if err != nil {
		t.Fatal(err)
	}
	var walk func(path []string, schema map[string]any)
	walk = func(path []string, schema map[string]any) {
		name := strings.Join(path, ".")
		if help, found := known[name]; found {
			if schema["description"] != help {
				t.Errorf("%s has the description %q, want %q", name, schema["description"], help)
			}
			delete(known, name)
			return
		}
		properties, _ := schema["properties"].(map[string]any)
		if len(properties) == 0 && name != "global" {
			t.Errorf("%s is not in values.yaml", name)
		}
		if name != "global" && schema["additionalProperties"] != false {
			t.Errorf("%q accepts other properties", name)
		}
		for key, inner := range properties {
			walk(append(path[:len(path):len(path)], key), inner.(map[string]any))
		}
	}
	var schema map[string]any
	if err := json.Unmarshal(data, &schema); err != nil {
		t.Fatal(err)
	}
	walk(nil, schema)
	if len(known) > 0 {
		t.Errorf("the schema does not have %q", slices.Sorted(maps.Keys(known)))
	}
}

func TestBadInput(t *testing.T) {
	for name, tt := range map[string]struct {
		change func(*options)
		want   string
	}{
		"no version":    {func(o *options) { o.version = "" }, `-version ""`},
		"not a version": {func(o *options) { o.version = "v1" }, `-version "v1"`},
		"no image":      {func(o *options) { o.image = "" }, "-image"},
		"no tag":        {func(o *options) { o.image = "example.com:5000/a" }, "-image"},
		"no repository": {func(o *options) { o.repository = t.TempDir() }, "config/default"},
	} {
		o := options{repository: repository, out: filepath.Join(t.TempDir(), "x"), version: "1.2.3", image: "a:b",
			config: t.TempDir(), reference: filepath.Join(t.TempDir(), "y")}
		tt.change(&o)
		if err := run(o); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: %v", name, err)
		}
		if _, err := os.Stat(o.out); err == nil {
			t.Errorf("%s: the chart is written", name)
		}
	}
}

// A release is installed by digest.
func TestTheDefaultImage(t *testing.T) {
	for name, want := range map[string]image{
		"example.com:5000/a:v1.2.3":    {repository: "example.com:5000/a"},
		"example.com:5000/a:dev":       {repository: "example.com:5000/a", tag: "dev"},
		"example.com:5000/a@" + digest: {repository: "example.com:5000/a", digest: digest},
	} {
		if got, err := parseImage(name, "1.2.3"); err != nil || got != want {
			t.Errorf("%s: got %+v, %v", name, got, err)
		}
	}
}
