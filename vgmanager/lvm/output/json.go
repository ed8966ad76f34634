package output

import (
	"bytes"
	"encoding/json"
	"fmt"
)

// decodeJSON decodes a report of LVM in JSON. LVM prints advice on stdout too, as lines of its own in the middle of a
// report: for example, to prune the archive of a volume group with more than 8192 files, or with large ones
// (lib/format_text/archive.c: log_print_unless_silent). decodeJSON ignores such lines. Whatever is left must be JSON.
func decodeJSON(out []byte, to any) error {
	if err := json.Unmarshal(withoutAdvice(out), to); err != nil {
		return fmt.Errorf("report of LVM is not the expected JSON: %w", err)
	}
	return nil
}

// withoutAdvice returns output without the lines that cannot be part of a report. LVM begins each line of a report with
// a bracket, a comma or a quotation mark, and ends no line within a value.
func withoutAdvice(out []byte) []byte {
	var report []byte
	for line := range bytes.Lines(out) {
		if text := bytes.TrimSpace(line); len(text) > 0 && bytes.IndexByte([]byte(`{}[],"`), text[0]) >= 0 {
			report = append(report, line...)
		}
	}
	return report
}
