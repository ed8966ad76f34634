package docs

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode"
)

var (
	link    = regexp.MustCompile(`\]\(([^()\s]+)\)`)
	heading = regexp.MustCompile(`^#{1,6} +(.*)$`)
	code    = regexp.MustCompile("`[^`]*`")
)

// page is a Markdown file: its links, each with the line, and the anchors of its headings.
type page struct {
	links   map[string]int
	anchors []string
}

// parse reads what is outside of code blocks and code spans.
func parse(text string) page {
	p := page{links: map[string]int{}}
	fenced := false
	for i, line := range strings.Split(text, "\n") {
		if strings.HasPrefix(strings.TrimSpace(line), "```") {
			fenced = !fenced
		}
		if fenced {
			continue
		}
		if m := heading.FindStringSubmatch(line); m != nil {
			p.anchors = append(p.anchors, anchor(m[1]))
		}
		for _, m := range link.FindAllStringSubmatch(code.ReplaceAllString(line, "``"), -1) {
			p.links[m[1]] = i + 1
		}
	}
	return p
}

// anchor is what GitHub makes of a heading: lower case, hyphens for spaces, without punctuation.
func anchor(title string) string {
	title = link.ReplaceAllString(title, "]")
	var b strings.Builder
	for _, r := range strings.ToLower(title) {
		switch {
		case r == ' ':
			b.WriteRune('-')
		case r == '-' || r == '_' || unicode.IsLetter(r) || unicode.IsDigit(r):
			b.WriteRune(r)
		}
	}
	return b.String()
}

func TestAnchor(t *testing.T) {
	for title, want := range map[string]string{
		"Why a device is not used":              "why-a-device-is-not-used",
		"`lvms lvmd`: on a socket":              "lvms-lvmd-on-a-socket",
		"1. With the console":                   "1-with-the-console",
		"[Upgrade](how-to/upgrade.md) & remove": "upgrade--remove",
	} {
		if got := anchor(title); got != want {
			t.Errorf("%s: got %s, want %s", title, got, want)
		}
	}
}

// Every link between the Markdown files of the repository leads to a file, and to a heading if it names one.
func TestLinksLeadSomewhere(t *testing.T) {
	pages := map[string]page{}
	err := filepath.WalkDir("..", func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if name := entry.Name(); entry.IsDir() && path != ".." &&
			(strings.HasPrefix(name, ".") || name == "node_modules" || name == "dist") {
			return fs.SkipDir
		}
		if filepath.Ext(path) != ".md" || entry.IsDir() {
			return nil
		}
		text, err := os.ReadFile(path)
		pages[path] = parse(string(text))
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(pages) < 50 {
		t.Fatalf("there are %d pages", len(pages))
	}
	checked := 0
	for path, p := range pages {
		for target, line := range p.links {
			if strings.Contains(target, "://") || strings.HasPrefix(target, "mailto:") {
				continue
			}
			checked++
			file, fragment, _ := strings.Cut(target, "#")
			to := path
			if file != "" {
				to = filepath.Join(filepath.Dir(path), file)
			}
			if _, err := os.Stat(to); err != nil {
				t.Errorf("%s:%d: %s does not exist", path, line, target)
				continue
			}
			if other, ok := pages[to]; ok && fragment != "" && !slices.Contains(other.anchors, fragment) {
				t.Errorf("%s:%d: %s has no heading for #%s", path, line, to, fragment)
			}
		}
	}
	if checked < 100 {
		t.Errorf("there are %d links", checked)
	}
}

// The index lists every page: the site takes its navigation from it.
func TestIndexListsEveryPage(t *testing.T) {
	index, err := os.ReadFile("README.md")
	if err != nil {
		t.Fatal(err)
	}
	listed := parse(string(index)).links
	pages, err := filepath.Glob("*/*.md")
	if err != nil || len(pages) < 30 {
		t.Fatal(pages, err)
	}
	below, err := filepath.Glob("*/*/*.md")
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile("explanation/decisions/README.md")
	if err != nil {
		t.Fatal(err)
	}
	for decision := range parse(string(text)).links {
		listed["explanation/decisions/"+decision]++
	}
	pages = append(pages, below...)
	for _, path := range pages {
		if listed[filepath.ToSlash(path)] == 0 {
			t.Errorf("docs/README.md does not list %s", path)
		}
	}
}
