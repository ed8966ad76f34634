// Package reference generates pages of docs/reference from the code: from the comments of constants, and from the CRDs.
// `make references` writes the pages, and the tests fail if one is stale.
package reference

import (
	"fmt"
	"os"
	"regexp"
	"strings"
)

// Check returns an error if a file differs from its page. If update is true, it writes the file.
func Check(file, page string, update bool) error {
	if update {
		return os.WriteFile(file, []byte(page), 0o644)
	}
	have, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	if string(have) != page {
		return fmt.Errorf("%s is stale: run make references", file)
	}
	return nil
}

// Table returns a Markdown table. It escapes cells.
func Table(header []string, rows [][]string) string {
	var b strings.Builder
	b.WriteString("| " + strings.Join(header, " | ") + " |\n")
	b.WriteString(strings.Repeat("|---", len(header)) + "|\n")
	for _, row := range rows {
		cells := make([]string, len(row))
		for i, cell := range row {
			cells[i] = Cell(cell)
		}
		b.WriteString("| " + strings.Join(cells, " | ") + " |\n")
	}
	return b.String()
}

// Cell returns text as a table cell: as one line, with `|` escaped.
func Cell(text string) string {
	return strings.ReplaceAll(strings.Join(strings.Fields(text), " "), "|", `\|`)
}

// Code returns text as inline code, or "" for no text.
func Code(text string) string {
	if text == "" {
		return ""
	}
	return "`" + text + "`"
}

// clause returns text without the final period, for a table cell.
func clause(text string) string {
	return strings.TrimSuffix(strings.TrimSpace(text), ".")
}

var runbookName = regexp.MustCompile(`\bLVMS[A-Z]\w+`)

// withRunbooks returns text with a link for each name of a runbook.
func withRunbooks(text string) string {
	return runbookName.ReplaceAllString(text, "[$0](../../monitoring/runbooks/$0.md)")
}
