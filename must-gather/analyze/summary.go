package analyze

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/lvm-storage/lvm-operator/api/v1alpha1"
	"github.com/lvm-storage/lvm-operator/internal/verdict"
	"github.com/lvm-storage/lvm-operator/must-gather/archive"
)

// Verdict says whether the storage is healthy.
type Verdict string

// Unknown means that no problem was found, but that something necessary could not be read.
const (
	Healthy   Verdict = "healthy"
	Unhealthy Verdict = "not healthy"
	Unknown   Verdict = "unknown"
)

// Summary is the content of summary.json.
type Summary struct {
	Verdict Verdict `json:"verdict"`
	// Unread lists what was necessary for a verdict but could not be read.
	Unread    []string   `json:"unread,omitempty"`
	Collected time.Time  `json:"collected"`
	Versions  Versions   `json:"versions"`
	Critical  int        `json:"critical"`
	Warnings  int        `json:"warnings"`
	Findings  []Finding  `json:"findings"`
	Groups    []Group    `json:"volumeGroups"`
	Excluded  []Excluded `json:"excluded,omitempty"`
	// Certificates lists the certificates in the product's namespaces by expiry.
	Certificates []Certificate `json:"certificates,omitempty"`
	// hasRunbooks reports whether the archive has the runbooks.
	hasRunbooks bool
}

// Certificate is a certificate in a Secret.
type Certificate struct {
	Secret string    `json:"secret"`
	Ends   time.Time `json:"ends"`
}

// Versions are the versions of the installed software.
type Versions struct {
	// Gather is the content of the file version.
	Gather     string   `json:"gather,omitempty"`
	OpenShift  string   `json:"openshift,omitempty"`
	Kubernetes []string `json:"kubernetes,omitempty"`
	Kernels    []string `json:"kernels,omitempty"`
	CSVs       []string `json:"csvs,omitempty"`
	// Images are the images of the operator and of the agents.
	Images []string `json:"images,omitempty"`
}

// Group is a volume group on a node.
type Group struct {
	DeviceClass string `json:"deviceClass"`
	Node        string `json:"node"`
	State       string `json:"state"`
	Size        string `json:"size,omitempty"`
	Free        string `json:"free,omitempty"`
	Devices     int    `json:"devices"`
	Volumes     int    `json:"volumes"`
	// DataPercent and MetadataPercent are the usage of a thin pool.
	DataPercent     *int32 `json:"dataPercent,omitempty"`
	MetadataPercent *int32 `json:"metadataPercent,omitempty"`
}

// Excluded is the number of devices that are not used for a reason.
type Excluded struct {
	Reason  string `json:"reason"`
	Devices int    `json:"devices"`
	// Examples lists at most three of them, as NODE:DEVICE.
	Examples []string `json:"examples"`
}

// Summarize evaluates the facts.
func Summarize(f *Facts) *Summary {
	s := &Summary{Collected: f.Now.UTC(), Versions: versions(f), Findings: Find(f), Groups: groups(f),
		Excluded: excluded(f), Certificates: certificateDates(f), Unread: notRead(f),
		hasRunbooks: len(f.Runbooks) > 0}
	for _, finding := range s.Findings {
		switch finding.Severity {
		case verdict.Critical:
			s.Critical++
		case verdict.Warning:
			s.Warnings++
		}
	}
	switch {
	case s.Critical+s.Warnings > 0:
		s.Verdict = Unhealthy
	case len(s.Unread) > 0:
		s.Verdict = Unknown
	default:
		s.Verdict = Healthy
	}
	return s
}

// needed lists the prefixes of failures after which the storage cannot be called healthy.
var needed = []string{everything, "nodes", "logicalvolumes", "lvmclusters", "lvmvolumegroupnodestatuses",
	"lvmrecoveries", "pods of namespace", "deployments", "daemonsets", "persistentvolumeclaims", "objects"}

// notRead lists what was necessary but could not be read. It includes broken files.
func notRead(f *Facts) []string {
	var missing []string
	for _, failure := range f.Failures.Failures {
		if slices.ContainsFunc(needed, func(prefix string) bool { return strings.HasPrefix(failure.What, prefix) }) {
			missing = append(missing, failure.What)
		}
	}
	for _, step := range f.Timings.Steps {
		if step.Name == "objects" && step.Unfinished {
			missing = append(missing, "objects of the API: the collection ended before they were read")
		}
	}
	if len(f.Nodes) == 0 {
		missing = append(missing, "nodes: there are none in the archive")
	}
	return append(missing, f.Unreadable...)
}

func versions(f *Facts) Versions {
	kubernetes := sets.New[string]()
	kernels := sets.New[string]()
	images := sets.New[string]()
	for i := range f.Nodes {
		kubernetes.Insert(f.Nodes[i].Status.NodeInfo.KubeletVersion)
		kernels.Insert(f.Nodes[i].Status.NodeInfo.KernelVersion)
	}
	for _, pod := range slices.Concat(podsOf(f, operatorName), podsOf(f, agentName)) {
		for _, c := range pod.Spec.Containers {
			images.Insert(c.Image)
		}
	}
	v := Versions{
		Gather: strings.Join(strings.Fields(f.Version), " "), OpenShift: f.OpenShift,
		Kubernetes: sets.List(kubernetes.Delete("")), Kernels: sets.List(kernels.Delete("")), Images: sets.List(images),
	}
	for i := range f.CSVs {
		v.CSVs = append(v.CSVs, f.CSVs[i].Name)
	}
	return v
}

func groups(f *Facts) []Group {
	volumes := map[string]int{}
	for i := range f.LogicalVolumes {
		volumes[f.LogicalVolumes[i].Spec.NodeName+"/"+f.LogicalVolumes[i].Spec.DeviceClass]++
	}
	found := []Group{}
	for i := range f.NodeStatuses {
		node := f.NodeStatuses[i].Name
		for _, vg := range f.NodeStatuses[i].Status.NodeStatus {
			g := Group{DeviceClass: vg.Name, Node: node, State: string(vg.Status), Devices: len(vg.Devices),
				Volumes: volumes[node+"/"+vg.Name]}
			if notReady(f, node) != nil {
				g.State = "Node not ready; was " + g.State
			}
			if vg.Size != nil {
				g.Size = vg.Size.String()
			}
			if vg.Free != nil {
				g.Free = vg.Free.String()
			}
			if vg.ThinPool != nil {
				g.DataPercent = &vg.ThinPool.DataPercent
				g.MetadataPercent = &vg.ThinPool.MetadataPercent
			}
			found = append(found, g)
		}
	}
	return found
}

func excluded(f *Facts) []Excluded {
	byReason := map[string]*Excluded{}
	for i := range f.NodeStatuses {
		for _, d := range f.NodeStatuses[i].Status.Devices {
			if d.State != v1alpha1.DeviceExcluded && d.State != v1alpha1.DeviceUnknown {
				continue
			}
			for _, r := range d.Reasons {
				e := byReason[r.Code]
				if e == nil {
					e = &Excluded{Reason: r.Code}
					byReason[r.Code] = e
				}
				if e.Devices++; len(e.Examples) < 3 {
					e.Examples = append(e.Examples, f.NodeStatuses[i].Name+":"+d.Name)
				}
			}
		}
	}
	var found []Excluded
	for _, e := range byReason {
		found = append(found, *e)
	}
	slices.SortFunc(found, func(a, b Excluded) int {
		return cmp.Or(b.Devices-a.Devices, strings.Compare(a.Reason, b.Reason))
	})
	return found
}

func certificateDates(f *Facts) []Certificate {
	var found []Certificate
	for i := range f.Secrets {
		if leaf, err := parse(f.Secrets[i].Data["tls.crt"]); err == nil {
			found = append(found, Certificate{f.Secrets[i].Namespace + "/" + f.Secrets[i].Name, leaf.NotAfter.UTC()})
		}
	}
	slices.SortFunc(found, func(a, b Certificate) int { return a.Ends.Compare(b.Ends) })
	return found
}

// JSON returns the content of summary.json.
func (s *Summary) JSON() ([]byte, error) {
	content, err := json.MarshalIndent(s, "", "  ")
	return append(content, '\n'), err
}

const (
	// maxLine is the maximum length of a line in the list, in bytes.
	maxLine = 600
	// ofARule is the maximum number of findings of one rule at the top, so that one cause does not hide others.
	ofARule = 4
	// maxTop is the maximum number of lines at the top.
	maxTop = 24
	// maxGroups is the maximum number of volume groups in the table.
	maxGroups = 100
)

// Markdown returns the content of summary.md: the verdict and the causes first.
func (s *Summary) Markdown() string {
	var b strings.Builder
	printf := func(format string, args ...any) { fmt.Fprintf(&b, format, args...) }
	printf("# LVM Storage: %s: %d critical, %d warnings\n\n", s.Verdict, s.Critical, s.Warnings)
	printf("Collected %s. %s\n\n", at(s.Collected), s.Versions)
	top, rest := s.top()
	for i, line := range top {
		printf("%d. %s\n", i+1, line)
	}
	if len(top) == 0 {
		printf("No problems were found.\n")
	}
	if len(s.Unread) > 0 {
		printf("\nUnknown, because it could not be read: %s\n", clipped(some(s.Unread, 10), maxLine))
	}
	s.tables(printf)
	if len(rest) > 0 {
		printf("\n## Further\n\n")
	}
	for _, f := range rest {
		printf("- %s\n", f.line())
	}
	printf("\nRunbooks of all alerts: %s. All findings in full: summary.json. Data that could not be read: "+
		"errors.json.\n", s.runbooks())
	return b.String()
}

// runbooks returns where the runbooks are.
func (s *Summary) runbooks() string {
	if s.hasRunbooks {
		return fmt.Sprintf("[%s](%[1]s/README.md)", archive.RunbookFolder)
	}
	return archive.RunbookFolder + " of the product's sources"
}

// top returns the lines of the list at the top, and the findings that are not in it.
func (s *Summary) top() (lines []string, rest []Finding) {
	count := map[string]int{}
	more := map[string]int{}
	var rules []string
	for _, f := range s.Findings {
		if f.Severity == verdict.Info || len(lines) >= maxTop {
			rest = append(rest, f)
			continue
		}
		key := f.Rule + string(f.Severity)
		if count[key]++; count[key] > ofARule {
			if more[key]++; more[key] == 1 {
				rules = append(rules, key)
			}
			rest = append(rest, f)
			continue
		}
		lines = append(lines, f.line())
	}
	for _, key := range rules {
		if len(lines) < maxTop+4 {
			lines = append(lines, fmt.Sprintf("%d more of the rule %s: see Further", more[key],
				strings.TrimSuffix(strings.TrimSuffix(key, string(verdict.Critical)), string(verdict.Warning))))
		}
	}
	return lines, rest
}

func (f Finding) line() string {
	line := fmt.Sprintf("**%s** %s", f.Severity, clipped(f.Text, maxLine))
	if f.Do != "" {
		line += " → " + clipped(f.Do, maxLine)
	}
	if f.Runbook != "" {
		line += " [" + f.Runbook + "]"
	}
	if f.RunbookFile != "" {
		line += "(" + f.RunbookFile + ")"
	}
	return line
}

// clipped shortens a text in its middle, because the end of a message says what is at risk.
func clipped(text string, limit int) string {
	if len(text) <= limit {
		return text
	}
	half := limit / 2
	return strings.ToValidUTF8(text[:half]+" […] "+text[len(text)-half:], "")
}

// String returns the versions in one line.
func (v Versions) String() string {
	var parts []string
	for _, part := range []struct {
		name   string
		values []string
	}{{"OpenShift", []string{v.OpenShift}}, {"Kubernetes", v.Kubernetes}, {"CSV", v.CSVs}, {"images", v.Images},
		{"kernels", v.Kernels}, {"gathered by", []string{v.Gather}}} {
		if text := some(part.values, 3); text != "" {
			parts = append(parts, part.name+" "+text)
		}
	}
	if len(parts) == 0 {
		return "Versions are unknown."
	}
	return strings.Join(parts, "; ") + "."
}

func (s *Summary) tables(printf func(string, ...any)) {
	if len(s.Groups) > 0 {
		printf("\n## Volume groups\n\n| device class | node | state | size | free | pool data | pool metadata | " +
			"devices | volumes |\n|---|---|---|---|---|---|---|---|---|\n")
	}
	sorted := slices.Clone(s.Groups)
	slices.SortStableFunc(sorted, func(a, b Group) int { return worse(b) - worse(a) })
	for i, g := range sorted {
		if i == maxGroups {
			printf("| %d more: see summary.json |\n", len(sorted)-i)
			break
		}
		printf("| %s | %s | %s | %s | %s | %s | %s | %d | %d |\n", g.DeviceClass, g.Node, g.State, g.Size, g.Free,
			percent(g.DataPercent), percent(g.MetadataPercent), g.Devices, g.Volumes)
	}
	if len(s.Excluded) > 0 {
		printf("\n## Devices that are not used\n\n| reason | devices | for example |\n|---|---|---|\n")
	}
	for _, e := range s.Excluded {
		printf("| %s | %d | %s |\n", e.Reason, e.Devices, strings.Join(e.Examples, ", "))
	}
	if len(s.Certificates) > 0 {
		printf("\n## Certificates\n\n| Secret | ends |\n|---|---|\n")
	}
	for _, c := range s.Certificates {
		printf("| %s | %s |\n", c.Secret, at(c.Ends))
	}
}

// worse returns the sort key of a volume group: those that are not ready are first, then those with the highest usage.
func worse(g Group) int {
	value := 0
	if g.State != string(v1alpha1.VGStatusReady) {
		value = 1000
	}
	for _, p := range []*int32{g.DataPercent, g.MetadataPercent} {
		if p != nil {
			value = max(value, value/1000*1000+int(*p))
		}
	}
	return value
}

func percent(p *int32) string {
	if p == nil {
		return ""
	}
	return fmt.Sprintf("%d %%", *p)
}
