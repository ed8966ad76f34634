// Command site checks the documentation that `make docs` built: each link leads to a file of the site, and to an element
// of it if it names one. No page loads anything from another host.
package main

import (
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path"
	"path/filepath"
	"strings"

	"golang.org/x/net/html"
)

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: site FOLDER")
		os.Exit(2)
	}
	if err := check(os.DirFS(os.Args[1])); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// document has the IDs of an HTML file and its references to other files.
type document struct {
	ids        map[string]bool
	references []reference
}

// reference is the value of a href or src attribute.
type reference struct {
	target string
	// loads tells whether the browser loads the target to show the page.
	loads bool
}

// check returns an error for each broken reference of the HTML files in the folder.
func check(site fs.FS) error {
	documents, err := read(site)
	if err != nil {
		return err
	}
	if len(documents) == 0 {
		return errors.New("the site has no pages")
	}
	var problems []error
	for file, d := range documents {
		for _, r := range d.references {
			if problem := problemOf(site, documents, file, r); problem != "" {
				problems = append(problems, fmt.Errorf("%s: %s %s", file, r.target, problem))
			}
		}
	}
	return errors.Join(problems...)
}

// problemOf says why a reference in a file is broken, or returns "".
func problemOf(site fs.FS, documents map[string]document, file string, r reference) string {
	target, err := url.Parse(r.target)
	if err != nil {
		return err.Error()
	}
	if target.IsAbs() || target.Host != "" {
		if r.loads {
			return "is on another host"
		}
		return ""
	}
	if strings.HasPrefix(target.Path, "/") {
		return "is not relative"
	}
	to := file
	if target.Path != "" {
		to = path.Join(path.Dir(file), target.Path)
	}
	info, err := fs.Stat(site, to)
	if err != nil || info.IsDir() {
		return "is not a file of the site"
	}
	if d, ok := documents[to]; ok && target.Fragment != "" && !d.ids[target.Fragment] {
		return "names an element that does not exist"
	}
	return ""
}

// read parses the HTML files by their path.
func read(site fs.FS) (map[string]document, error) {
	documents := map[string]document{}
	err := fs.WalkDir(site, ".", func(file string, _ fs.DirEntry, err error) error {
		if err != nil || filepath.Ext(file) != ".html" {
			return err
		}
		f, err := site.Open(file)
		if err != nil {
			return err
		}
		defer f.Close()
		root, err := html.Parse(f)
		if err != nil {
			return fmt.Errorf("%s: %w", file, err)
		}
		documents[file] = parse(root)
		return nil
	})
	return documents, err
}

// parse collects IDs and references.
func parse(root *html.Node) document {
	d := document{ids: map[string]bool{}}
	for node := range root.Descendants() {
		for _, attribute := range node.Attr {
			switch attribute.Key {
			case "id":
				d.ids[attribute.Val] = true
			case "href", "src":
				d.references = append(d.references, reference{target: attribute.Val, loads: node.Data != "a"})
			}
		}
	}
	return d
}
