// Command prose extracts the text in Go files, comments and messages, to text files for a prose linter. Each line has
// the same number as in its source.
package main

import (
	"flag"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

func main() {
	out := flag.String("out", "", "folder for the text files, NAME.go.txt for each file")
	flag.Parse()
	if err := run(*out, flag.Args()); err != nil {
		fmt.Fprintln(os.Stderr, "prose:", err)
		os.Exit(1)
	}
}

func run(out string, files []string) error {
	if out == "" || len(files) == 0 {
		return fmt.Errorf("-out and at least one Go file are required")
	}
	for _, name := range files {
		source, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		text, err := extract(name, source)
		if err != nil {
			return err
		}
		target := filepath.Join(out, name+".txt")
		if err := os.MkdirAll(filepath.Dir(target), 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(target, []byte(text), 0o644); err != nil {
			return err
		}
	}
	return nil
}

// extract returns the comments of a Go file and, unless it is a test, the messages in it.
func extract(name string, source []byte) (string, error) {
	files := token.NewFileSet()
	file, err := parser.ParseFile(files, name, source, parser.ParseComments)
	if err != nil {
		return "", err
	}
	lines := map[int][]string{}
	last := 0
	add := func(at token.Pos, text string) {
		for i, line := range strings.Split(text, "\n") {
			number := files.Position(at).Line + i
			lines[number] = append(lines[number], strings.TrimSpace(line))
			last = max(last, number)
		}
	}
	for _, group := range file.Comments {
		for _, comment := range group.List {
			if text, ok := strings.CutPrefix(comment.Text, "// "); ok && !strings.HasPrefix(text, "+") {
				add(comment.Pos(), text)
			}
		}
	}
	if !strings.HasSuffix(name, "_test.go") {
		ast.Inspect(file, func(n ast.Node) bool {
			literal, ok := n.(*ast.BasicLit)
			if !ok || literal.Kind != token.STRING {
				return true
			}
			if text, err := strconv.Unquote(literal.Value); err == nil && isMessage(text) {
				add(literal.Pos(), text)
			}
			return true
		})
	}
	var text strings.Builder
	for number := 1; number <= last; number++ {
		text.WriteString(strings.Join(lines[number], " ") + "\n")
	}
	return text.String(), nil
}

// isMessage reports whether a string is for people: it has at least three words.
func isMessage(text string) bool { return len(strings.Fields(text)) >= 3 }
