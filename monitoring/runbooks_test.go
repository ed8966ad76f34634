package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/util/jsonpath"
	"sigs.k8s.io/yaml"

	"github.com/lvm-storage/lvm-operator/monitoring/rules"
)

var (
	headings = []string{"Meaning", "Impact", "Diagnosis", "Mitigation"}
	heading  = regexp.MustCompile(`(?m)^## (.*)$`)
	fence    = regexp.MustCompile("(?ms)^ *```(\\w*)\n(.*?)^ *```$")
	link     = regexp.MustCompile(`\]\(([^)#]*)(?:#([^)]*))?\)`)
	row      = regexp.MustCompile(`(?m)^\| \[(\w+)\]\((\w+)\.md\) \| (\w+) \| (.+\.) \|$`)
)

// holds maps the time that an alert must be pending to its wording in the pages.
var holds = map[time.Duration]string{
	0: "", time.Minute: "a minute", 5 * time.Minute: "five minutes", 10 * time.Minute: "ten minutes",
	15 * time.Minute: "15 minutes",
	30 * time.Minute: "half an hour", time.Hour: "an hour", 12 * time.Hour: "twelve hours",
}

// pages returns the text of each page by file name.
func pages(t *testing.T) map[string]string {
	t.Helper()
	files, err := filepath.Glob("runbooks/*.md")
	if err != nil || len(files) == 0 {
		t.Fatal("no runbooks", err)
	}
	texts := map[string]string{}
	for _, file := range files {
		texts[filepath.Base(file)] = read(t, file)
	}
	return texts
}

func read(t *testing.T, file string) string {
	t.Helper()
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

// support is the end of each page.
const support = "\nIf none of this helps, [ask for support](../../docs/how-to/support.md) with what `oc adm " +
	"must-gather` collects. Its first lines name the causes that it finds.\n"

func TestEachAlertHasARunbookAndEachRunbookAnAlert(t *testing.T) {
	texts := pages(t)
	index := map[string]string{}
	for _, m := range row.FindAllStringSubmatch(texts["README.md"], -1) {
		if m[1] != m[2] {
			t.Errorf("the index leads from %s to %s", m[1], m[2])
		}
		index[m[1]] = m[3]
	}
	delete(texts, "README.md")
	for _, g := range rules.Groups() {
		for _, a := range g.Alerts {
			text, ok := texts[a.Name+".md"]
			if !ok {
				t.Errorf("%s has no runbook", a.Name)
				continue
			}
			delete(texts, a.Name+".md")
			if got := firsts(heading.FindAllStringSubmatch(text, -1)); !slices.Equal(got, headings) ||
				!strings.HasPrefix(text, "# "+a.Name+"\n") {
				t.Errorf("%s: headings %q, want %q below its name", a.Name, got, headings)
			}
			if !strings.HasSuffix(text, support) {
				t.Errorf("%s: it does not end with the way to support", a.Name)
			}
			meaning, _, _ := strings.Cut(text, "\n## Impact")
			if words, ok := holds[a.For]; !ok || !strings.Contains(meaning, words) {
				t.Errorf("%s: its meaning does not say that it has to hold for %s (%q)", a.Name, a.For, words)
			}
			if index[a.Name] != a.Severity {
				t.Errorf("%s: severity %q in the index, want %q", a.Name, index[a.Name], a.Severity)
			}
			delete(index, a.Name)
		}
	}
	if len(texts) > 0 || len(index) > 0 {
		t.Errorf("of no alert: pages %v, rows of the index %v", reflect.ValueOf(texts).MapKeys(), index)
	}
}

func firsts(matches [][]string) []string {
	var all []string
	for _, m := range matches {
		all = append(all, m[1])
	}
	return all
}

func TestLinksOfRunbooksLeadSomewhere(t *testing.T) {
	for name, text := range pages(t) {
		for _, m := range link.FindAllStringSubmatch(text, -1) {
			target := filepath.Join("runbooks", m[1])
			if m[1] == "" {
				target = filepath.Join("runbooks", name)
			}
			content, err := os.ReadFile(target)
			if err != nil {
				t.Errorf("%s: %v", name, err)
			} else if m[2] != "" && !slices.Contains(anchors(string(content)), m[2]) {
				t.Errorf("%s: %s has no heading #%s", name, target, m[2])
			}
		}
	}
}

// anchors returns the anchors that GitHub creates for headings.
func anchors(text string) []string {
	var all []string
	for _, m := range regexp.MustCompile(`(?m)^#+ (.*)$`).FindAllStringSubmatch(text, -1) {
		kept := regexp.MustCompile(`[^a-z0-9 _-]`).ReplaceAllString(strings.ToLower(m[1]), "")
		all = append(all, strings.ReplaceAll(kept, " ", "-"))
	}
	return all
}

func TestCommandsOfRunbooksExist(t *testing.T) {
	c := newChecker(t)
	expressions := map[string]string{}
	commands := 0
	for name, text := range pages(t) {
		for _, at := range fence.FindAllStringSubmatchIndex(text, -1) {
			language := text[at[2]:at[3]]
			block := text[at[4]:at[5]]
			before := text[:at[0]]
			var err error
			switch language {
			case "sh":
				err = c.shell(block, before)
				commands += strings.Count(block, "\n")
			case "yaml":
				err = c.manifest(block)
			case "promql":
				for i, line := range strings.Split(strings.TrimSpace(block), "\n") {
					expressions[fmt.Sprintf("%s %d %d", name, at[0], i)] = strings.TrimSpace(line)
					if wrong := unknown(line, c.metrics); len(wrong) > 0 {
						err = errors.Join(err, fmt.Errorf("%s: %v", line, wrong))
					}
				}
			default:
				err = fmt.Errorf("a block of %q: sh, yaml or promql", language)
			}
			if err != nil {
				t.Errorf("%s: %v", name, err)
			}
		}
	}
	if commands < 100 {
		t.Errorf("%d commands: the pages have more", commands)
	}
	mustParse(t, expressions)
}

// kind is a kind of the API. Its schema is a node of a CRD, a Go type, or nil if no command reads its fields.
type kind struct {
	namespaced bool
	schema     any
}

// kinds of Kubernetes, OpenShift and OLM in the pages.
var kinds = map[string]kind{
	"node": {false, nil}, "pv": {false, nil}, "csistoragecapacities": {true, nil},
	"pod": {true, nil}, "pods": {true, nil}, "pvc": {true, reflect.TypeFor[corev1.PersistentVolumeClaim]()},
	"events": {true, nil}, "secret": {true, nil}, "secrets": {true, nil},
	"services":   {true, reflect.TypeFor[corev1.Service]()},
	"deployment": {true, nil}, "daemonset": {true, nil}, "endpointslices": {true, nil},
	"volumesnapshot": {true, nil}, "csv": {true, nil},
}

// verbs are the kubectl commands in the pages. The value is whether the command needs a kind.
var verbs = map[string]bool{"get": true, "describe": true, "delete": true, "edit": true, "patch": true, "logs": false, "exec": false,
	"rollout": false, "debug": false}

// valued are the kubectl flags with their value in the next word. plain are the others, without what follows =.
var (
	valued = []string{"-n", "-o", "-l", "--field-selector", "--type", "--patch"}
	plain  = []string{"-A", "-it", "--previous", "--since", "--tail", "--prefix"}
)

// lvmCommands are links to lvm. base are programs that every node has, or that the page describes as optional.
var (
	lvmCommands = []string{"lvs", "vgs", "pvs", "lvextend", "lvchange", "vgchange", "vgreduce", "vgremove"}
	base        = []string{"cat", "chroot", "dmesg", "dmsetup", "e2fsck", "journalctl", "ps",
		"systemctl", "timeout", "udevadm", "xfs_repair"}
	// Before a destructive command, a sentence in bold must say what is lost.
	destructive = regexp.MustCompile(`\b(vgremove|vgreduce|lvremove|lvreduce|pvremove|wipefs|vgcfgrestore|lvconvert)\b`)
	// asks matches commands that ask for confirmation. Without a terminal, LVM assumes no.
	asks   = regexp.MustCompile(`\b(vgremove|lvremove|lvconvert)\b`)
	warned = regexp.MustCompile(`\*\*[^*]*(for good|had back|lost)[^*]*\*\*`)
)

// enterHost is the command with which the product enters the node's namespaces (vgmanager/machine/host).
var enterHost = []string{"nsenter", "-t", "1", "-m", "-u", "-i", "-n", "--"}

// inContainer are programs of the operator's image that run in the agent's container and not on the node.
var inContainer = []string{"smartctl"}

type checker struct {
	kinds    map[string]kind
	programs []string
	metrics  map[string][]string
	class    any
}

func newChecker(t *testing.T) checker {
	t.Helper()
	c := checker{kinds: map[string]kind{}, metrics: knownMetrics(t),
		programs: append(slices.Clone(lvmCommands), base...)}
	for name, k := range kinds {
		c.kinds[name] = k
	}
	files, err := filepath.Glob("../config/crd/*_*.yaml")
	if err != nil || len(files) == 0 {
		t.Fatal("no CRDs", err)
	}
	for _, file := range files {
		c.addCRD(t, read(t, file))
	}
	for _, m := range regexp.MustCompile(`"/usr/s?bin/(\w+)"`).FindAllStringSubmatch(sources(t), -1) {
		if !slices.Contains(inContainer, m[1]) {
			c.programs = append(c.programs, m[1])
		}
	}
	for _, program := range inContainer {
		if !strings.Contains(read(t, "../hack/rootfs/main.go"), `"`+program+`"`) {
			t.Errorf("the image has no %s", program)
		}
	}
	if way := `"` + strings.Join(enterHost[1:], `", "`) +
		`"`; !strings.Contains(read(t, "../vgmanager/machine/host/host.go"), way) {
		t.Errorf("vgmanager/machine/host does not go to the node by %s", way)
	}
	return c
}

// sources returns the files of the node agent that name programs of the node.
func sources(t *testing.T) string {
	t.Helper()
	var text strings.Builder
	err := filepath.WalkDir("../vgmanager", func(file string, _ os.DirEntry, err error) error {
		if err == nil && strings.HasSuffix(file, ".go") && !strings.HasSuffix(file, "_test.go") {
			text.WriteString(read(t, file))
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return text.String()
}

func (c *checker) addCRD(t *testing.T, text string) {
	t.Helper()
	var crd struct {
		Spec struct {
			Scope string
			Names struct {
				Kind, Plural, Singular string
				ShortNames             []string
			}
			Versions []struct {
				Schema struct{ OpenAPIV3Schema map[string]any }
			}
		}
	}
	if err := yaml.Unmarshal([]byte(text), &crd); err != nil || len(crd.Spec.Versions) == 0 {
		t.Fatal("a CRD cannot be read:", err)
	}
	k := kind{namespaced: crd.Spec.Scope == "Namespaced", schema: crd.Spec.Versions[0].Schema.OpenAPIV3Schema}
	for _, name := range append(crd.Spec.Names.ShortNames, crd.Spec.Names.Plural, crd.Spec.Names.Singular) {
		c.kinds[name] = k
	}
	if crd.Spec.Names.Kind == "LVMCluster" {
		class, err := walk(k.schema, "spec", "storage", "deviceClasses", "*")
		if err != nil {
			t.Fatal(err)
		}
		c.class = class
	}
}

// shell checks each line of a block.
func (c *checker) shell(block, before string) error {
	var errs []error
	if destructive.MatchString(block) && !warned.MatchString(before[max(0, len(before)-600):]) {
		errs = append(errs, errors.New("a command that destroys data, and nothing in bold before it says what is lost"))
	}
	for line := range strings.Lines(block) {
		if err := c.line(strings.TrimSpace(line)); err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", strings.TrimSpace(line), err))
		}
	}
	return errors.Join(errs...)
}

var (
	assignments  = regexp.MustCompile(`^([A-Z]+=[\w-]+ ?)+$`)
	substitution = regexp.MustCompile(`^[A-Z]+=\$\((.*)\)$`)
)

func (c *checker) line(line string) error {
	if assignments.MatchString(line) {
		return nil
	}
	if m := substitution.FindStringSubmatch(line); m != nil {
		line = m[1]
	}
	words, err := split(line)
	if err != nil {
		return err
	}
	if words[0] != "kubectl" && words[0] != "oc" {
		return fmt.Errorf("%s is neither kubectl nor oc", words[0])
	}
	if i := slices.Index(words, "--"); i >= 0 {
		if err := c.onNode(words[i+1:]); err != nil {
			return err
		}
		if slices.Contains(words, "exec") && asks.MatchString(line) && !slices.Contains(words[:i], "-it") {
			return errors.New("the command asks a question, which exec shows only with -it")
		}
		words = words[:i]
	}
	return c.cluster(words)
}

// escape matches a backslash outside of quotes. A shell removes it and keeps the next character.
var escape = regexp.MustCompile(`\\(.)`)

// split splits a line without pipes into words like a shell, with 'quotes'.
func split(line string) ([]string, error) {
	var words []string
	for i, part := range strings.Split(line, "'") {
		if i%2 == 1 {
			words[len(words)-1] += part
			continue
		}
		if strings.ContainsAny(part, "|;&<>`\"") {
			return nil, errors.New("one command a line, with single quotes")
		}
		part = escape.ReplaceAllString(part, "$1")
		fields := strings.Fields(part)
		if i > 0 && len(fields) > 0 && !strings.HasPrefix(part, " ") {
			words[len(words)-1] += fields[0]
			fields = fields[1:]
		}
		words = append(words, fields...)
		if strings.HasSuffix(part, " ") {
			words = append(words, "")
		}
	}
	return slices.DeleteFunc(words, func(w string) bool { return w == "" }), nil
}

// onNode checks a command that runs on the node.
func (c *checker) onNode(words []string) error {
	switch {
	case len(words) > 2 && words[0] == "chroot" && words[1] == "/host":
		words = words[2:]
	case len(words) > len(enterHost) && slices.Equal(words[:len(enterHost)], enterHost):
		words = words[len(enterHost):]
	case slices.Contains(inContainer, words[0]):
		return nil
	default:
		return fmt.Errorf("%v does not run on the node", words)
	}
	if words[0] == "timeout" && len(words) > 2 {
		words = words[2:]
	}
	if !slices.Contains(c.programs, words[0]) {
		return fmt.Errorf("program %s is not known", words[0])
	}
	return nil
}

func (c *checker) cluster(words []string) error {
	flags, rest, err := parseFlags(words[1:])
	if err != nil {
		return err
	}
	if len(rest) == 0 {
		return errors.New("no verb")
	}
	needsKind, ok := verbs[rest[0]]
	if !ok || (rest[0] == "debug" && words[0] != "oc") {
		return fmt.Errorf("%s has no verb %s that is known here", words[0], rest[0])
	}
	if rest[0] == "rollout" {
		if rest = rest[1:]; len(rest) == 0 || !slices.Contains([]string{"restart", "status"}, rest[0]) {
			return errors.New("rollout restart or status")
		}
	}
	if len(rest) == 1 {
		if flags["-l"] == "" {
			return errors.New("no object")
		}
		return nil
	}
	objects := rest[1:]
	if objects[0] == "$AGENT" {
		objects[0] = "pod/NAME"
	}
	if name, inKind := strings.CutPrefix(objects[0], "POD"); inKind && name == "" && !needsKind {
		objects[0] = "pod/POD"
	}
	return c.objects(objects, flags)
}

func parseFlags(words []string) (map[string]string, []string, error) {
	flags := map[string]string{}
	rest := []string(nil)
	for i := 0; i < len(words); i++ {
		name, value, _ := strings.Cut(words[i], "=")
		switch {
		case !strings.HasPrefix(words[i], "-"):
			rest = append(rest, words[i])
		case slices.Contains(valued, words[i]) && i+1 < len(words):
			i++
			flags[name] = words[i]
		case slices.Contains(plain, name):
			flags[name] = "true" + value
		default:
			return nil, nil, fmt.Errorf("flag %s is not known here", words[i])
		}
	}
	return flags, rest, nil
}

func (c *checker) objects(objects []string, flags map[string]string) error {
	for name := range strings.SplitSeq(objects[0], ",") {
		name, object, _ := strings.Cut(name, "/")
		k, ok := c.kinds[name]
		if !ok {
			return fmt.Errorf("kind %s is not known", name)
		}
		if k.namespaced != (flags["-n"] != "" || flags["-A"] != "") {
			return fmt.Errorf("%s: -n or -A, if and only if it is in a namespace", name)
		}
		if err := output(k.schema, object != "" || len(objects) > 1, flags["-o"]); err != nil {
			return err
		}
	}
	return nil
}

// output checks the paths of -o.
func output(schema any, one bool, format string) error {
	style, text, _ := strings.Cut(format, "=")
	switch style {
	case "", "name", "wide", "yaml":
		return nil
	case "jsonpath":
		if !one {
			schema = map[string]any{"properties": map[string]any{"items": map[string]any{"items": schema}}}
		}
		return template(schema, text)
	case "custom-columns":
		var errs []error
		for column := range strings.SplitSeq(text, ",") {
			_, path, _ := strings.Cut(column, ":")
			errs = append(errs, template(schema, "{"+path+"}"))
		}
		return errors.Join(errs...)
	}
	return fmt.Errorf("-o %s is not known here", style)
}

// template resolves the fields of a JSON path in a schema.
func template(schema any, text string) error {
	parsed, err := jsonpath.Parse("path", text)
	if err != nil {
		return err
	}
	contexts := []any{schema}
	for _, n := range parsed.Root.Nodes {
		action, ok := n.(*jsonpath.ListNode)
		if !ok || len(action.Nodes) == 0 {
			continue
		}
		word, ok := action.Nodes[0].(*jsonpath.IdentifierNode)
		if ok && word.Name == "end" {
			contexts = contexts[:len(contexts)-1]
			continue
		}
		at, err := resolve(contexts[len(contexts)-1], action.Nodes)
		if err != nil {
			return err
		}
		if ok {
			contexts = append(contexts, at)
		}
	}
	return nil
}

func resolve(at any, nodes []jsonpath.Node) (any, error) {
	var err error
	for _, n := range nodes {
		switch n := n.(type) {
		case *jsonpath.IdentifierNode, *jsonpath.TextNode:
		case *jsonpath.FieldNode:
			at, err = walk(at, n.Value)
		case *jsonpath.ArrayNode:
			at, err = walk(at, "*")
		case *jsonpath.FilterNode:
			if at, err = walk(at, "*"); err == nil {
				_, err = resolve(at, n.Left.Nodes)
			}
		case *jsonpath.ListNode:
			at, err = resolve(at, n.Nodes)
		default:
			err = fmt.Errorf("%T of a path is not known here", n)
		}
		if err != nil {
			return nil, err
		}
	}
	return at, nil
}

// walk resolves names in an OpenAPI schema or a Go type; * is the element of a list.
func walk(at any, names ...string) (any, error) {
	for _, name := range names {
		next, err := step(at, name)
		if err != nil {
			return nil, err
		}
		at = next
	}
	return at, nil
}

func step(at any, name string) (any, error) {
	switch s := at.(type) {
	case map[string]any:
		if name == "metadata" && s["type"] == "object" {
			return reflect.TypeFor[metav1.ObjectMeta](), nil
		}
		if name == "*" {
			if items, ok := s["items"]; ok {
				return items, nil
			}
		} else if properties, ok := s["properties"].(map[string]any); ok && properties[name] != nil {
			return properties[name], nil
		}
	case reflect.Type:
		switch {
		case s.Kind() == reflect.Slice && name == "*", s.Kind() == reflect.Map:
			return s.Elem(), nil
		case s.Kind() == reflect.Struct:
			for i := range s.NumField() {
				f := s.Field(i)
				if tag, _, _ := strings.Cut(f.Tag.Get("json"), ","); tag == name {
					return f.Type, nil
				}
				if f.Anonymous {
					if found, err := step(f.Type, name); err == nil {
						return found, nil
					}
				}
			}
		}
	}
	return nil, fmt.Errorf("there is no field %s", name)
}

// manifest checks an LVMRecovery, or a list of device classes.
func (c *checker) manifest(block string) error {
	var object map[string]any
	if err := yaml.Unmarshal([]byte(block), &object); err != nil {
		return c.deviceClasses(block)
	}
	if object["kind"] != "LVMRecovery" {
		return fmt.Errorf("a manifest of the kind %v: only LVMRecoveries and device classes are checked", object["kind"])
	}
	return fits(c.kinds["lvmrecovery"].schema, object)
}

// deviceClasses checks that each key of a block is one of spec.storage.deviceClasses.
func (c *checker) deviceClasses(block string) error {
	var entries []any
	if err := yaml.Unmarshal([]byte(block), &entries); err != nil {
		return err
	}
	for _, e := range entries {
		if err := fits(c.class, e); err != nil {
			return err
		}
	}
	return nil
}

func fits(schema, value any) error {
	switch v := value.(type) {
	case map[string]any:
		for key, below := range v {
			s, err := walk(schema, key)
			if err != nil {
				return err
			}
			if err := fits(s, below); err != nil {
				return err
			}
		}
	case []any:
		s, err := walk(schema, "*")
		if err != nil {
			return err
		}
		for _, below := range v {
			if err := fits(s, below); err != nil {
				return err
			}
		}
	default:
		// The fields of metadata have Go types instead of schemas.
		properties, _ := schema.(map[string]any)
		if allowed, ok := properties["enum"].([]any); ok && !slices.Contains(allowed, value) {
			return fmt.Errorf("%v is none of %v", value, allowed)
		}
	}
	return nil
}

func TestWrongCommandsAreFound(t *testing.T) {
	c := newChecker(t)
	for block, want := range map[string]string{
		"kubectl -n x get lvmvgns NODE -o jsonpath='{.status.nodeStatus[*].nam}'": "no field nam",
		"kubectl -n x get lvmcluster -o jsonpath='{.status.state}'":               "no field status",
		"kubectl get pods": "if and only if",
		`kubectl get logicalvolumes -o custom-columns=A:.metadata.annotations.lvm\.topolvm\.io/claim`:   "no field",
		`kubectl get logicalvolumes -o 'custom-columns=A:.metadata.annotations.lvm\.topolvm\.io/claim'`: "",
		"kubectl -n x get logicalvolumes":                  "if and only if",
		"kubectl -n x get volumegroups":                    "kind volumegroups",
		"kubectl -n x apply pod NAME":                      "no verb apply",
		"kubectl -n x get pods --watch":                    "flag --watch",
		"kubectl -n x exec POD -- lvs":                     "does not run on the node",
		"kubectl -n x exec POD -- smartctl --all /dev/sdX": "",
		"oc debug node/N -- chroot /host smartctl --all":   "program smartctl",
		"oc debug node/N -- chroot /host lvsx":             "program lvsx",
		"oc debug node/N -- chroot /host lvs":              "",
		"oc debug node/N -- chroot /host wipefs /dev/sdX":  "destroys data",
		"lvs":                            "neither kubectl nor oc",
		"kubectl -n x get pods | grep y": "one command a line",
	} {
		err := c.shell(block+"\n", "")
		if (err == nil) != (want == "") || (err != nil && !strings.Contains(err.Error(), want)) {
			t.Errorf("%s: got %v, want %q", block, err, want)
		}
	}
	for block, want := range map[string]string{
		"- name: vg1\n  deviceRequest: []":                          "no field deviceRequest",
		"- deviceRequests:\n  - {node: a, action: Destroy}":         "none of",
		"- name: vg1\n  deviceRequests: [{node: a, action: Drain}]": "",
	} {
		err := c.deviceClasses(block)
		if (err == nil) != (want == "") || (err != nil && !strings.Contains(err.Error(), want)) {
			t.Errorf("%s: got %v, want %q", block, err, want)
		}
	}
}
