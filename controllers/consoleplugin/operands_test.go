package consoleplugin

import (
	"encoding/json"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus/testutil"
	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/yaml"

	"github.com/lvm-storage/lvm-operator/test/memory"
)

const web = "../../console-plugin/web/"

func contentOf(t *testing.T, name string) string {
	t.Helper()
	data, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

// The console compares the name in the manifest with the name of the ConsolePlugin.
func TestTheNameIsThatInTheManifest(t *testing.T) {
	for file, want := range map[string]string{"plugin.ts": "name: '" + PluginName + "'",
		"manifest.snapshot.json": `"` + PluginName + `"`} {
		if !strings.Contains(contentOf(t, web+file), want) {
			t.Errorf("%s has no %s", file, want)
		}
	}
}

// The server has the build for older consoles in the directory that the ConsolePlugin names, and both builds declare
// the consoles that the operator chooses them for.
func TestThePathsAreThoseOfTheServer(t *testing.T) {
	for file, want := range map[string]string{
		web + "webpack.config.ts":  "'../dist/plugin" + strings.TrimSuffix(legacyPath, "/") + "'",
		web + "../server/files.go": fmt.Sprintf("Legacy = %q", legacyPath),
		web + "plugin.ts":          ">=" + firstCurrent.String() + ".0-0'",
		web + "legacy.ts":          " <" + firstCurrent.String() + ".0-0'"} {
		if !strings.Contains(contentOf(t, file), want) {
			t.Errorf("%s has no %s", file, want)
		}
	}
}

// theirs lists texts of the console itself to which the quick start refers.
var theirs = []string{"Storage", "Administration", "Cluster Settings", "Configuration", "Console",
	"Console plugins", PluginName,
	"Import YAML", "Bound", "Running"}

// The quick start refers only to existing texts: every bold text is a text of the plugin or of the console.
func TestTheQuickStartNamesWhatIsThere(t *testing.T) {
	texts := map[string]string{}
	if err := json.Unmarshal([]byte(contentOf(t, web+"locales/en/plugin__"+PluginName+".json")), &texts); err != nil {
		t.Fatal(err)
	}
	words := regexp.MustCompile(`\*\*(.+?)\*\*`).FindAllStringSubmatch(string(quickStartFile), -1)
	if len(words) < 10 {
		t.Errorf("%d words in bold", len(words))
	}
	for _, word := range words {
		if texts[word[1]] == "" && !slices.Contains(theirs, word[1]) {
			t.Errorf("%q is on no page", word[1])
		}
	}
	spec := struct {
		Description string
		Tasks       []struct{ Title, Description string }
	}{}
	if err := yaml.Unmarshal(quickStartFile, &spec); err != nil || len(spec.Description) > 256 || len(spec.Tasks) == 0 {
		t.Errorf("got %+v, %v", spec, err)
	}
}

func TestMetricsTellWhatIsServed(t *testing.T) {
	deployment := &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: Name},
		Spec:       appsv1.DeploymentSpec{Replicas: ptr.To[int32](2)},
		Status:     appsv1.DeploymentStatus{AvailableReplicas: 1},
	}
	c := NewCollector(memory.Builder().WithObjects(deployment).Build(), "ns")
	want := "# HELP lvms_console_plugin_replicas " + replicasFamily.Help +
		"\n# TYPE lvms_console_plugin_replicas gauge\n" +
		"lvms_console_plugin_replicas{state=\"available\"} 1\nlvms_console_plugin_replicas{state=\"wanted\"} 2\n"
	if err := testutil.CollectAndCompare(c, strings.NewReader(want)); err != nil {
		t.Error(err)
	}
	if n := testutil.CollectAndCount(NewCollector(memory.Builder().Build(), "ns")); n != 0 {
		t.Errorf("%d series without a Deployment", n)
	}
}
