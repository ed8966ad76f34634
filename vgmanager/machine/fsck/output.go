package fsck

import (
	"cmp"
	"regexp"
	"strings"
)

const (
	// maxLines and maxLength limit what a finding has of the output of a program.
	maxLines  = 3
	maxLength = 400
)

// noise matches the lines that are not about an error: versions, progress, hints and summaries.
var noise = regexp.MustCompile(`^(e2fsck \d|Pass \d|Phase \d|- |\.*$|No modify flag|Warning: skipping journal|` +
	`Warning!  \S+ is |Exiting now|done$|Note - |ALERT: |ignored because|which may be resolved|` +
	`Cannot get host filesystem geometry|Repair may fail if there is a sector size|the image and the host filesystem|` +
	`(Fix|Clear|Recreate|Salvage|Relocate|Split|Truncate|Continue|Delete file|Connect to /lost\+found)\? (no|yes)$|` +
	`.*\*{5,}.*|.* files \([0-9.]+% non-contiguous\), .*)`)

// answer matches the question of e2fsck at the end of a line, with its answer.
var answer = regexp.MustCompile(`\s+[A-Z][A-Za-z /+'-]*\? (no|yes)$`)

// errorLines returns the lines of a report that are about errors.
func errorLines(out string) []string {
	var lines []string
	for line := range strings.Lines(out) {
		line = strings.TrimSpace(strings.Map(printable, line))
		if !noise.MatchString(line) {
			lines = append(lines, strings.TrimRight(answer.ReplaceAllString(line, ""), "."))
		}
	}
	return lines
}

// firstLines returns the first lines of a report that are about errors, as one line.
func firstLines(out string) string {
	lines := errorLines(out)
	if len(lines) > maxLines {
		lines = append(lines[:maxLines:maxLines], "and more")
	}
	text := cmp.Or(strings.Join(lines, "; "), "the program names none")
	if len(text) > maxLength {
		text = strings.ToValidUTF8(text[:maxLength], "") + "..."
	}
	return text
}

// lastLine returns the last line of a report, where a program says why it could not go on.
func lastLine(out string) string {
	lines := strings.Split(strings.TrimSpace(strings.Map(printable, out)), "\n")
	for i := len(lines) - 1; i >= 0; i-- {
		line := strings.TrimSpace(lines[i])
		if line == "" || line == "Exiting now." {
			continue
		}
		if at := strings.LastIndex(line, "...."); at >= 0 { // progress without an end of line
			line = strings.TrimLeft(line[at:], ".")
		}
		return line
	}
	return ""
}

// printable replaces control characters, which can be in the names of files, but keeps ends of lines.
func printable(r rune) rune {
	if r != '\n' && (r < ' ' || r == 0x7f) {
		return ' '
	}
	return r
}

// readErrors are messages of programs about a device that cannot be read.
var readErrors = []string{"Input/output error", "Error reading block",
	"Attempt to read block from filesystem resulted in short read"}

func cannotRead(out string) bool {
	for _, message := range readErrors {
		if strings.Contains(out, message) {
			return true
		}
	}
	return false
}

// unrepairable returns true if xfs_repair found nothing that it could repair: its exit code is the same as for errors.
func unrepairable(out string) bool {
	return strings.Contains(out, "could not find valid secondary superblock") ||
		strings.Contains(out, "couldn't initialize XFS library") || strings.Contains(out, "cannot open")
}

// moves matches what e2fsck and xfs_repair print for a file or directory that they move to lost+found.
var moves = regexp.MustCompile(`(?m)Connect to /lost\+found\? yes|` +
	`disconnected (dir )?inode \d+,\s+moving to lost\+found`)

func countMoved(out string) int { return len(moves.FindAllString(out, -1)) }
