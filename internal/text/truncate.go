// Package text has what messages have in common.
package text

import "unicode/utf8"

// mark stands at the end of a text that was truncated.
const mark = "…"

// Truncate returns text with at most limit bytes of UTF-8, which is how the API server counts. If it is longer, it ends
// with "…", after a whole character. limit is at least 3 bytes, the length of that mark.
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
