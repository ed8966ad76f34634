package text

import (
	"fmt"
	"strings"
)

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
