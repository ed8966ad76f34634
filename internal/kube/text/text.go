// Package text has functions for the text of messages.
package text

import (
	"fmt"
	"strings"
	"unicode/utf8"
)

// mark is the end of a truncated text.
const mark = "…"

// Truncate returns text with at most limit bytes of UTF-8, which is how the API server counts. If text is longer, it is
// cut after a complete character and ends with "…". limit must be at least 3 bytes, the length of that mark.
func Truncate(text string, limit int) string {
	if len(text) <= limit {
		return text
	}
	end := limit - len(mark)
	for end > 0 && !utf8.RuneStart(text[end]) {
		end--
	}
	return text[:end] + mark
}

// namesShown is the number of names that List shows. It counts the others.
const namesShown = 5

// List returns the number of names and the first few of them: "2 nodes: a, b".
func List(kind string, names []string) string {
	plural := "s"
	more := ""
	if len(names) == 1 {
		plural = ""
	}
	if rest := len(names) - namesShown; rest > 0 {
		names = names[:namesShown]
		more = fmt.Sprintf(" and %d more", rest)
		return fmt.Sprintf("%d %s%s: %s%s", namesShown+rest, kind, plural, strings.Join(names, ", "), more)
	}
	return fmt.Sprintf("%d %s%s: %s", len(names), kind, plural, strings.Join(names, ", "))
}
