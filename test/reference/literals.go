package reference

import (
	"fmt"
	"go/ast"
	"go/token"
	"path"
	"regexp"
	"strconv"
	"strings"
)

var (
	// word matches a reason; a message contains spaces.
	word = regexp.MustCompile(`^[A-Z][A-Za-z0-9]*$`)
	// reasonName matches the name of a constant, variable, field or parameter for a reason.
	reasonName = regexp.MustCompile(`^([Rr]eason|Condition|Event)([A-Z]\w*)?$|Reason$`)
	// variableReaders are the functions whose first argument is the name of an environment variable.
	variableReaders = map[string]int{"Getenv": 0, "LookupEnv": 0, "environment": 0, "numberFromEnvironment": 0,
		"boolFromEnvironment": 0}
)

// scan finds strings that are not documented.
type scan struct {
	source *Source
	// known has the documented values.
	known map[string]bool
	// constants has the values of all constants by directory and name.
	constants map[string]string
	// arguments has the position of the argument to check, by function name.
	arguments map[string]int
	found     []string
}

// problems is the folder of the problems that kubectl and must-gather print. Their reasons are those of conditions, or
// are neither of a condition nor of an event.
const problems = "internal/verdict"

// UndocumentedReasons returns the positions at which the code uses an undocumented reason of a condition or event.
func (s *Source) UndocumentedReasons(known map[string]bool) []string {
	c := s.newScan(known, map[string]int{"WithReason": 0, "Eventf": 3})
	c.addParameters()
	for _, d := range s.Declarations() {
		named := reasonName.MatchString(d.Name) || d.Type == "EventReason" || d.Type == "Code" || d.Event != ""
		if named && d.Folder != problems && word.MatchString(d.Value) && !known[d.Value] {
			c.found = append(c.found, fmt.Sprintf("%s: %s = %q", d.Folder, d.Name, d.Value))
		}
	}
	for _, f := range s.files {
		if f.folder == problems {
			continue
		}
		ast.Inspect(f.syntax, func(n ast.Node) bool {
			c.call(f, n)
			c.composite(f, n)
			c.assignment(f, n)
			return true
		})
	}
	return c.found
}

// UndocumentedVariables returns the positions at which the code reads an undocumented environment variable.
func (s *Source) UndocumentedVariables(known map[string]bool) []string {
	c := s.newScan(known, variableReaders)
	for _, f := range s.files {
		ast.Inspect(f.syntax, func(n ast.Node) bool {
			c.call(f, n)
			return true
		})
	}
	return c.found
}

func (s *Source) newScan(known map[string]bool, arguments map[string]int) *scan {
	c := &scan{source: s, known: known, constants: map[string]string{}, arguments: arguments}
	for _, d := range s.Declarations() {
		c.constants[d.Folder+"."+d.Name] = d.Value
	}
	return c
}

// addParameters adds the position of the parameter `reason` of every function, including those of interfaces.
func (c *scan) addParameters() {
	for _, f := range c.source.files {
		ast.Inspect(f.syntax, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.FuncDecl:
				c.addParameter(n.Name.Name, n.Type)
			case *ast.Field:
				if function, ok := n.Type.(*ast.FuncType); ok && len(n.Names) == 1 {
					c.addParameter(n.Names[0].Name, function)
				}
			}
			return true
		})
	}
}

func (c *scan) addParameter(function string, signature *ast.FuncType) {
	at := fieldNamed(signature.Params)
	if at >= 0 {
		c.arguments[function] = at
	}
}

// fieldNamed returns the position of the field or parameter `reason`, or -1.
func fieldNamed(fields *ast.FieldList) int {
	at := 0
	for _, field := range fields.List {
		for _, name := range field.Names {
			if strings.EqualFold(name.Name, "reason") {
				return at
			}
			at++
		}
	}
	return -1
}

// call checks the argument of a call that has the reason.
func (c *scan) call(f file, n ast.Node) {
	call, ok := n.(*ast.CallExpr)
	if !ok {
		return
	}
	if at, has := c.arguments[calleeOf(call)]; has && at < len(call.Args) {
		c.check(f, call.Args[at])
	}
}

// composite checks the reason fields of a struct literal, and those in a list of struct literals.
func (c *scan) composite(f file, n ast.Node) {
	literal, ok := n.(*ast.CompositeLit)
	if !ok {
		return
	}
	for _, element := range literal.Elts {
		pair, ok := element.(*ast.KeyValueExpr)
		if !ok {
			continue
		}
		if key, ok := pair.Key.(*ast.Ident); ok && reasonName.MatchString(key.Name) {
			c.check(f, pair.Value)
		}
	}
	c.list(f, literal)
}

// list checks the elements of a list of an anonymous struct type.
func (c *scan) list(f file, literal *ast.CompositeLit) {
	list, ok := literal.Type.(*ast.ArrayType)
	if !ok {
		return
	}
	kind, ok := list.Elt.(*ast.StructType)
	if !ok {
		return
	}
	at := fieldNamed(kind.Fields)
	for _, element := range literal.Elts {
		if row, ok := element.(*ast.CompositeLit); ok && at >= 0 && at < len(row.Elts) {
			c.check(f, row.Elts[at])
		}
	}
}

// assignment checks the value that is assigned to a reason variable or field.
func (c *scan) assignment(f file, n ast.Node) {
	assignment, ok := n.(*ast.AssignStmt)
	if !ok || len(assignment.Lhs) != len(assignment.Rhs) {
		return
	}
	for i, left := range assignment.Lhs {
		name := ""
		switch left := left.(type) {
		case *ast.Ident:
			name = left.Name
		case *ast.SelectorExpr:
			name = left.Sel.Name
		}
		if reasonName.MatchString(name) {
			c.check(f, assignment.Rhs[i])
		}
	}
}

// check records an expression whose value is an undocumented word. It cannot evaluate variables; their assignments are
// checked instead.
func (c *scan) check(f file, e ast.Expr) {
	value := ""
	switch e := e.(type) {
	case *ast.BasicLit:
		value = text(e)
	case *ast.Ident:
		value = c.constants[f.folder+"."+e.Name]
	case *ast.SelectorExpr:
		if of, ok := e.X.(*ast.Ident); ok {
			value = c.constants[f.imported(of.Name)+"."+e.Sel.Name]
		}
	case *ast.CallExpr:
		if calleeOf(e) == "string" && len(e.Args) == 1 {
			c.check(f, e.Args[0])
		}
		return
	}
	if word.MatchString(value) && !c.known[value] {
		c.found = append(c.found, fmt.Sprintf("%s: %q", c.position(e.Pos()), value))
	}
}

func (c *scan) position(at token.Pos) string {
	p := c.source.positions.Position(at)
	return p.Filename + ":" + strconv.Itoa(p.Line)
}

// imported returns the directory of an imported package of the module by its name in the file.
func (f file) imported(name string) string {
	for _, i := range f.syntax.Imports {
		folder, ours := strings.CutPrefix(strings.Trim(i.Path.Value, `"`), module)
		if ours && (i.Name != nil && i.Name.Name == name || i.Name == nil && path.Base(folder) == name) {
			return folder
		}
	}
	return ""
}
