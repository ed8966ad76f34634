// Package text has functions for the text of messages.
package text

import "unicode/utf8"

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
