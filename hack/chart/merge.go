package main

import "strings"

// merge returns a template that renders the text with if the condition is true, and the text without otherwise. Lines
// that both have are in the template once.
func merge(condition, with, without string) string {
	a := strings.SplitAfter(with, "\n")
	b := strings.SplitAfter(without, "\n")
	var merged strings.Builder
	for _, s := range align(a, b) {
		merged.WriteString(branch(condition, s))
	}
	return merged.String()
}

// segment is a sequence of lines that both texts have, or that differ. The texts consist of theis segments.
type segment struct {
	both          string
	with, without string
}

// branch returns the lines of a segment, with an action if they depend on the condition. Lines end with a line break.
func branch(condition string, s segment) string {
	switch {
	case s.with != "" && s.without != "":
		return "{{- if " + condition + " }}\n" + s.with + "{{- else }}\n" + s.without + "{{- end }}\n"
	case s.with != "":
		return "{{- if " + condition + " }}\n" + s.with + "{{- end }}\n"
	case s.without != "":
		return "{{- if not (" + condition + ") }}\n" + s.without + "{{- end }}\n"
	}
	return s.both
}

// align finds the longest common subsequence of lines.
func align(a, b []string) []segment {
	common := lengths(a, b)
	var segments []segment
	var open segment
	closeSegment := func() {
		if open != (segment{}) {
			segments = append(segments, open)
			open = segment{}
		}
	}
	for i, j := 0, 0; i < len(a) || j < len(b); {
		switch {
		case i < len(a) && j < len(b) && a[i] == b[j]:
			closeSegment()
			segments = append(segments, segment{both: a[i]})
			i++
			j++
		case j == len(b) || i < len(a) && common[i+1][j] >= common[i][j+1]:
			open.with += a[i]
			i++
		default:
			open.without += b[j]
			j++
		}
	}
	closeSegment()
	return segments
}

// lengths returns the length of the longest common subsequence of a[i:] and b[j:] for each i and j.
func lengths(a, b []string) [][]int {
	table := make([][]int, len(a)+1)
	for i := range table {
		table[i] = make([]int, len(b)+1)
	}
	for i := len(a) - 1; i >= 0; i-- {
		for j := len(b) - 1; j >= 0; j-- {
			if a[i] == b[j] {
				table[i][j] = table[i+1][j+1] + 1
			} else {
				table[i][j] = max(table[i+1][j], table[i][j+1])
			}
		}
	}
	return table
}
