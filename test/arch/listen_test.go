package arch

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// listens are the names of packages that open a listener, or serve on one that they open.
var listens = map[string][]string{
	"net":        {"Listen", "ListenConfig", "ListenTCP", "ListenUDP", "ListenPacket", "FileListener"},
	"crypto/tls": {"Listen"},
	"net/http":   {"ListenAndServe", "ListenAndServeTLS"},
	"sigs.k8s.io/controller-runtime/pkg/webhook":        {"NewServer", "DefaultServer"},
	"sigs.k8s.io/controller-runtime/pkg/metrics/server": {"NewServer", "Options"},
}

// listeners are the files that may use them, and why.
var listeners = map[string]string{
	"internal/tls/limit/listener.go":                    "limits connections, for all others",
	"internal/admission/webhookserver/webhookserver.go": "uses the register of webhooks, and serves by internal/tls/httpserver",
	"internal/csi/sidecar/server.go":                    "Unix sockets",
	"cmd/lvms/main.go":                                  "turns the metrics server of a manager off",
	"console-plugin/bridge/main.go":                     "a tool of developers",
}

// TestEachListenerHasLimits: whoever is not authorized yet can connect as often as they like.
func TestEachListenerHasLimits(t *testing.T) {
	used := map[string]bool{}
	for _, folder := range layoutFolders {
		root := filepath.Join("..", "..", folder)
		err := filepath.WalkDir(root, func(name string, entry fs.DirEntry, err error) error {
			switch {
			case err != nil:
				return err
			case entry.IsDir() && entry.Name() == "node_modules":
				return filepath.SkipDir
			case entry.IsDir() || !strings.HasSuffix(name, ".go") || strings.HasSuffix(name, "_test.go"):
				return nil
			}
			uses := listenerUses(t, name, nil)
			file := strings.TrimPrefix(filepath.ToSlash(name), "../../")
			if listeners[file] != "" {
				used[file] = len(uses) > 0
				return nil
			}
			for _, use := range uses {
				t.Errorf("%s: use internal/tls/limit, internal/tls/httpserver or internal/tls/streamserver", use)
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	for file := range listeners {
		if !used[file] {
			t.Errorf("%s opens no listener: remove it from the list", file)
		}
	}
}

// TestTheCheckOfListenersCatchesEach tests the check itself.
func TestTheCheckOfListenersCatchesEach(t *testing.T) {
	const code = `package x

import (
	"crypto/tls"
	"net"
	"net/http"

	ctrl "sigs.k8s.io/controller-runtime"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"
	ctrlwebhook "sigs.k8s.io/controller-runtime/pkg/webhook"
)

func f() {
	_, _ = net.Listen("tcp", ":1")
	_, _ = (&net.ListenConfig{}).Listen(nil, "tcp", ":1")
	_, _ = tls.Listen("tcp", ":1", nil)
	_ = http.ListenAndServe(":1", nil)
	_ = (&http.Server{}).ListenAndServeTLS("", "")
	_ = ctrlwebhook.NewServer(ctrlwebhook.Options{})
	_ = metricsserver.Options{BindAddress: ":1"}
	_, _ = ctrl.NewManager(nil, ctrl.Options{Scheme: nil})
	_, _ = ctrl.NewManager(nil, ctrl.Options{Metrics: none})
}
`
	if got := listenerUses(t, "x.go", code); len(got) != 8 {
		t.Errorf("got %d: %q, want one of each line but the last", len(got), got)
	}
}

// listenerUses returns what opens listeners in a file. code is the content of the file, or nil to read it. A manager
// without options for metrics also does.
func listenerUses(t *testing.T, name string, code any) []string {
	t.Helper()
	positions := token.NewFileSet()
	file, err := parser.ParseFile(positions, name, code, 0)
	if err != nil {
		t.Fatal(err)
	}
	imported := map[string]string{} // import paths by the name in the file
	for _, i := range file.Imports {
		of, err := strconv.Unquote(i.Path.Value)
		if err != nil {
			t.Fatal(err)
		}
		as := path.Base(of)
		if i.Name != nil {
			as = i.Name.Name
		}
		imported[as] = of
	}
	var found []string
	add := func(at token.Pos, what string) {
		found = append(found, fmt.Sprintf("%s: %s", positions.Position(at), what))
	}
	ast.Inspect(file, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.SelectorExpr:
			of, isName := n.X.(*ast.Ident)
			if isName && slices.Contains(listens[imported[of.Name]], n.Sel.Name) ||
				!isName && strings.HasPrefix(n.Sel.Name, "ListenAndServe") {
				add(n.Pos(), n.Sel.Name)
			}
		case *ast.CompositeLit:
			if isManagerWithoutMetrics(n, imported) {
				add(n.Pos(), "a manager with its own metrics server")
			}
		}
		return true
	})
	return found
}

func isManagerWithoutMetrics(n *ast.CompositeLit, imported map[string]string) bool {
	of, is := n.Type.(*ast.SelectorExpr)
	if !is || of.Sel.Name != "Options" {
		return false
	}
	name, is := of.X.(*ast.Ident)
	if !is || imported[name.Name] != "sigs.k8s.io/controller-runtime" &&
		imported[name.Name] != "sigs.k8s.io/controller-runtime/pkg/manager" {
		return false
	}
	return !slices.ContainsFunc(n.Elts, func(element ast.Expr) bool {
		pair, is := element.(*ast.KeyValueExpr)
		if !is {
			return false
		}
		key, is := pair.Key.(*ast.Ident)
		return is && key.Name == "Metrics"
	})
}
