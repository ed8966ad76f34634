package arch

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"unicode"
)

// logKeys are the keys that log lines use. CONTRIBUTING.md has the rules. Add a key only if none of these says it.
var logKeys = []string{
	// objects
	"api", "certificate", "claim", "configMap", "deviceClass", "groupVersion", "kind", "lock", "logicalVolume", "name",
	"namespace", "node", "object", "secret", "account", "user", "group", "nodes", "volumes",
	// on a node
	"command", "device", "devices", "exitCode", "id", "lv", "lvs", "physicalVolumes", "size", "source", "stderr",
	"version", "vg",
	// calls and results
	"action", "address", "cause", "code", "driver", "dropped", "finalizers", "from", "platform", "socket", "to", "took",
	"volume", "attempt", "phase", "suspended", "freezing", "waited",
}

// logFolders are the folders of the programs that run in a cluster.
var logFolders = []string{"cmd", "controllers", "internal", "vgmanager", "console-plugin/server"}

// logCall is a call that writes a log line, or adds values to a logger.
type logCall struct {
	position token.Position
	message  string // empty for WithValues
	keys     []string
	problem  string
}

func TestLogLinesHaveOneStyle(t *testing.T) {
	used := map[string]bool{}
	calls := 0
	for _, folder := range logFolders {
		for _, call := range logCalls(t, filepath.Join("..", "..", folder)) {
			calls++
			if problem := call.check(); problem != "" {
				t.Errorf("%s: %s", call.position, problem)
			}
			for _, key := range call.keys {
				used[key] = true
			}
		}
	}
	if calls < 50 {
		t.Errorf("only %d log calls were found: the scan misses them", calls)
	}
	for _, key := range logKeys {
		if !used[key] {
			t.Errorf("no log line uses the key %q: remove it from the list", key)
		}
	}
}

// TestTheLogCheckCatchesAViolation tests the check itself.
func TestTheLogCheckCatchesAViolation(t *testing.T) {
	for name, test := range map[string]struct{ code, want string }{
		"fine":              {`log.FromContext(ctx).Info("volume created", "node", n)`, ""},
		"a name":            {`log.Log.Info("LVM reports an error", "node", n)`, ""},
		"a capital":         {`logger.Error(err, "Cannot list nodes")`, "lower case"},
		"a period":          {`logger.Error(err, "cannot list nodes.")`, "period"},
		"an unlisted key":   {`logger.V(1).Info("done", "whatever", 1)`, "whatever"},
		"a key that varies": {`logger.Info("done", key, 1)`, "literal"},
		"values":            {`logger.WithValues("whatever", 1)`, "whatever"},
		"an odd number":     {`logger.Info("done", "node")`, "value"},
		"not a log":         {`t.Error("Whatever")`, ""},
	} {
		t.Run(name, func(t *testing.T) {
			set := token.NewFileSet()
			file, err := parser.ParseFile(set, "a.go", "package a\nfunc f() {\n"+test.code+"\n}\n", 0)
			if err != nil {
				t.Fatal(err)
			}
			problem := ""
			for _, call := range logCallsOf(set, file) {
				problem += call.check()
			}
			if (problem == "") != (test.want == "") || !strings.Contains(problem, test.want) {
				t.Errorf("got %q, want %q", problem, test.want)
			}
		})
	}
}

func (c logCall) check() string {
	if c.problem != "" {
		return c.problem
	}
	if words := strings.Fields(c.message); len(words) > 0 {
		if first := words[0]; unicode.IsUpper(rune(first[0])) && strings.ToLower(first[1:]) == first[1:] {
			return fmt.Sprintf("log line %q: begin in lower case", c.message)
		}
		if strings.HasSuffix(c.message, ".") {
			return fmt.Sprintf("log line %q: no period at the end", c.message)
		}
	}
	for _, key := range c.keys {
		if !slices.Contains(logKeys, key) {
			return fmt.Sprintf("log key %q is not in the list: use one of %q", key, logKeys)
		}
	}
	return ""
}

// logCalls returns the log calls of all Go files below a folder but tests.
func logCalls(t *testing.T, folder string) []logCall {
	t.Helper()
	var all []logCall
	err := filepath.WalkDir(folder, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return err
		}
		set := token.NewFileSet()
		file, err := parser.ParseFile(set, path, nil, 0)
		if err == nil {
			all = append(all, logCallsOf(set, file)...)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

func logCallsOf(set *token.FileSet, file *ast.File) []logCall {
	var all []logCall
	ast.Inspect(file, func(n ast.Node) bool {
		call, ok := n.(*ast.CallExpr)
		if !ok {
			return true
		}
		selector, ok := call.Fun.(*ast.SelectorExpr)
		if !ok || !isLogger(selector.X) {
			return true
		}
		found := logCall{position: set.Position(call.Pos())}
		rest := call.Args
		switch selector.Sel.Name {
		case "Info", "Error", "Warn", "Debug":
			if len(rest) > 0 && !isText(rest[0]) {
				rest = rest[1:] // the error of logr's Error
			}
			if len(rest) == 0 {
				return true
			}
			found.message, rest = literal(rest[0]), rest[1:]
		case "WithValues", "With":
		default:
			return true
		}
		found.read(rest)
		all = append(all, found)
		return true
	})
	return all
}

// read reads the keys of pairs of keys and values.
func (c *logCall) read(pairs []ast.Expr) {
	if len(pairs) == 1 && !isText(pairs[0]) {
		return // a slice
	}
	if len(pairs)%2 != 0 {
		c.problem = "a key has no value"
		return
	}
	for i := 0; i < len(pairs); i += 2 {
		if !isText(pairs[i]) {
			c.problem = "a key is not a literal"
			return
		}
		c.keys = append(c.keys, literal(pairs[i]))
	}
}

// isLogger reports whether an expression is a logger, by the names that this repository uses: log, logger, Log.
func isLogger(x ast.Expr) bool {
	switch x := x.(type) {
	case *ast.Ident:
		return x.Name == "log" || x.Name == "logger"
	case *ast.SelectorExpr:
		return x.Sel.Name == "log" || x.Sel.Name == "Log" || x.Sel.Name == "logger"
	case *ast.CallExpr:
		if function, ok := x.Fun.(*ast.Ident); ok {
			return function.Name == "loggerOf"
		}
		selector, ok := x.Fun.(*ast.SelectorExpr)
		return ok && (isLogger(selector.X) || selector.Sel.Name == "FromContext")
	}
	return false
}

// isText reports whether an expression is a string literal, or begins with one.
func isText(x ast.Expr) bool {
	switch x := x.(type) {
	case *ast.BasicLit:
		return x.Kind == token.STRING
	case *ast.BinaryExpr:
		return isText(x.X)
	}
	return false
}

// literal returns the text of a string literal, or of those that are added up.
func literal(x ast.Expr) string {
	switch x := x.(type) {
	case *ast.BasicLit:
		text, _ := strconv.Unquote(x.Value)
		return text
	case *ast.BinaryExpr:
		return literal(x.X) + literal(x.Y)
	}
	return ""
}
