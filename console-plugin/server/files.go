package server

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io/fs"
	"net/http"
	"path"
	"regexp"
	"strconv"
	"strings"
)

// hashed matches names of files with a hash of their content (webpack, [contenthash] and [fullhash]). They never
// change.
var hashed = regexp.MustCompile(`\.[0-9a-f]{20}\.`)

// types maps the extensions of files that a build writes to their content types. Other files are not served: the
// console refuses a script without its type.
var types = map[string]string{
	".js":   "text/javascript; charset=utf-8",
	".json": "application/json; charset=utf-8",
	".txt":  "text/plain; charset=utf-8",
}

// file has the properties of a file that are computed at start. Its content remains in the pages of the program.
type file struct {
	name, kind, etag, cache string
	compressed              bool
}

// newFiles returns the served files, by request path.
func newFiles(files fs.FS) (map[string]file, error) {
	list := map[string]file{}
	err := fs.WalkDir(files, ".", func(name string, entry fs.DirEntry, err error) error {
		kind := types[path.Ext(name)]
		if err != nil || entry.IsDir() || kind == "" {
			return err
		}
		f := file{name: name, kind: kind, cache: "public, max-age=31536000, immutable"}
		if !hashed.MatchString(path.Base(name)) {
			content, err := fs.ReadFile(files, name)
			if err != nil {
				return err
			}
			sum := sha256.Sum256(content)
			f.etag = `"` + hex.EncodeToString(sum[:12]) + `"`
			f.cache = "no-cache"
		}
		if _, err := fs.Stat(files, name+".gz"); err == nil {
			f.compressed = true
		}
		list["/"+name] = f
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("list the files of the plugin: %w", err)
	}
	return list, nil
}

// Legacy is the path below which the server has the build for the consoles of OpenShift 4.19 to 4.21. The console
// requests everything below the path that spec.backend.service.basePath of the ConsolePlugin has.
const Legacy = "/legacy/"

// NewHandler returns a handler for the files of a build, the configuration of the pages, and /healthz.
func NewHandler(files fs.FS, namespace string) (http.Handler, error) {
	list, err := newFiles(files)
	if err != nil {
		return nil, err
	}
	config, err := json.Marshal(map[string]string{"namespace": namespace})
	if err != nil {
		return nil, err
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		head := w.Header()
		head.Set("X-Content-Type-Options", "nosniff")
		head.Set("Content-Security-Policy", "default-src 'none'; frame-ancestors 'none'")
		head.Set("Referrer-Policy", "no-referrer")
		if r.Method != http.MethodGet && r.Method != http.MethodHead {
			head.Set("Allow", "GET, HEAD")
			http.Error(w, "only GET and HEAD are allowed", http.StatusMethodNotAllowed)
			return
		}
		switch r.URL.Path {
		case "/healthz":
			respond(w, "text/plain; charset=utf-8", []byte("ok\n"))
			return
		case "/config.json", Legacy + "config.json":
			respond(w, types[".json"], config)
			return
		}
		f, found := list[r.URL.Path]
		if !found {
			head.Set("Cache-Control", "no-store")
			http.Error(w, "file not found", http.StatusNotFound)
			return
		}
		f.serve(w, r, files)
	}), nil
}

// respond sends content that must not be cached.
func respond(w http.ResponseWriter, kind string, content []byte) {
	w.Header().Set("Content-Type", kind)
	w.Header().Set("Cache-Control", "no-store")
	_, _ = w.Write(content)
}

func (f file) serve(w http.ResponseWriter, r *http.Request, files fs.FS) {
	head := w.Header()
	name := f.name
	head.Set("Content-Type", f.kind)
	head.Set("Cache-Control", f.cache)
	if f.compressed {
		head.Set("Vary", "Accept-Encoding")
	}
	if f.etag != "" {
		head.Set("ETag", f.etag)
		if r.Header.Get("If-None-Match") == f.etag {
			w.WriteHeader(http.StatusNotModified)
			return
		}
	}
	if f.compressed && accepts(r.Header.Get("Accept-Encoding"), "gzip") {
		head.Set("Content-Encoding", "gzip")
		name += ".gz"
	}
	content, err := fs.ReadFile(files, name)
	if err != nil {
		head.Del("Content-Encoding")
		head.Set("Cache-Control", "no-store")
		http.Error(w, "cannot read the file", http.StatusInternalServerError)
		return
	}
	head.Set("Content-Length", strconv.Itoa(len(content)))
	_, _ = w.Write(content)
}

// accepts reports whether a client accepts an encoding (RFC 9110, 12.5.3). A weight of 0 means that it does not.
func accepts(header, encoding string) bool {
	for part := range strings.SplitSeq(header, ",") {
		name, weight, _ := strings.Cut(part, ";")
		if !strings.EqualFold(strings.TrimSpace(name), encoding) {
			continue
		}
		value, weighed := strings.CutPrefix(strings.ReplaceAll(weight, " ", ""), "q=")
		q, err := strconv.ParseFloat(value, 64)
		return !weighed || err == nil && q > 0
	}
	return false
}
