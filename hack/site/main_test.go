package main

import (
	"testing"
	"testing/fstest"

	"github.com/lvm-storage/lvm-operator/test/expect"
)

func TestCheck(t *testing.T) {
	for name, tc := range map[string]struct {
		page string
		want string
	}{
		"a file":              {page: `<a href="docs/a.html">`},
		"a heading":           {page: `<a href="docs/a.html#top">`},
		"its own heading":     {page: `<h2 id="here"></h2><a href="#here">`},
		"another host":        {page: `<a href="https://example.com/x">`},
		"mail":                {page: `<a href="mailto:a@example.com">`},
		"a style sheet":       {page: `<link rel="stylesheet" href="site.css">`},
		"no such file":        {page: `<a href="docs/b.html">`, want: "index.html: docs/b.html is not a file of the site"},
		"a folder":            {page: `<a href="docs/">`, want: "docs/ is not a file of the site"},
		"no such heading":     {page: `<a href="docs/a.html#b">`, want: "docs/a.html#b names an element"},
		"not its own heading": {page: `<a href="#top">`, want: "#top names an element"},
		"the root":            {page: `<a href="/docs/a.html">`, want: "/docs/a.html is not relative"},
		"no such picture":     {page: `<img src="a.png">`, want: "a.png is not a file"},
		"a foreign script":    {page: `<script src="https://example.com/a.js"></script>`, want: "is on another host"},
		"a foreign font":      {page: `<link rel="stylesheet" href="//example.com/a.css">`, want: "is on another host"},
	} {
		t.Run(name, func(t *testing.T) {
			err := check(fstest.MapFS{"index.html": {Data: []byte(tc.page)}, "site.css": {},
				"docs/a.html": {Data: []byte(`<h1 id="top">A</h1>`)}})
			expect.Error(t, "check", err, tc.want)
		})
	}
}

func TestEmptySite(t *testing.T) {
	if err := check(fstest.MapFS{"site.css": {}}); err == nil {
		t.Error("a site without pages was accepted")
	}
}
