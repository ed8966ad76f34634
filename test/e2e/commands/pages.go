// Package commands runs the commands of the runbooks and how-to pages like a reader: in a shell, on a cluster with real
// LVM.
package commands

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/lvm-storage/lvm-operator/test/lab"
)

// Command is a command of a page.
type Command struct {
	// Page is the name of the file, for example LVMSAgentDown.md.
	Page string
	Text string
	// Before lists the lines that set the variables of the page: NODE, CLASS and AGENT.
	Before []string
}

var (
	variable = regexp.MustCompile(`^(NODE|CLASS|AGENT)=`)
	program  = regexp.MustCompile(`^(kubectl|oc|make|helm|skopeo|lsblk|\.cache/bin/gather|jq|diff) `)
	comment  = regexp.MustCompile(` +# .*$`)
)

// Read returns each command of the runbooks and how-tos once.
func Read() ([]Command, error) {
	root, err := lab.Root()
	if err != nil {
		return nil, err
	}
	var all []Command
	seen := map[string]bool{}
	for _, folder := range []string{"monitoring/runbooks", "docs/how-to"} {
		files, err := filepath.Glob(filepath.Join(root, folder, "*.md"))
		if err != nil || len(files) == 0 {
			return nil, fmt.Errorf("%s has no pages: %w", folder, err)
		}
		for _, file := range files {
			text, err := os.ReadFile(file)
			if err != nil {
				return nil, err
			}
			for _, c := range commandsOf(filepath.Base(file), string(text)) {
				if !seen[c.Text] {
					all = append(all, c)
				}
				seen[c.Text] = true
			}
		}
	}
	return all, nil
}

// commandsOf returns the commands of a page in order. A line that ends with | or \ continues on the next line.
func commandsOf(page, text string) []Command {
	var all []Command
	var before []string
	whole := ""
	for _, line := range shellLines(text) {
		whole += line
		if part, more := strings.CutSuffix(whole, "\\"); more || strings.HasSuffix(whole, "|") {
			whole = part + " "
			continue
		}
		if variable.MatchString(whole) && !slices.Contains(before, whole) {
			before = append(before, whole)
		} else if program.MatchString(whole) {
			all = append(all, Command{Page: page, Text: whole, Before: slices.Clone(before)})
		}
		whole = ""
	}
	return all
}

// shellLines returns the lines of shell blocks: fenced blocks marked with sh, and indented blocks.
func shellLines(text string) []string {
	var lines []string
	fence := ""
	for line := range strings.Lines(text) {
		line = strings.TrimRight(line, "\n")
		trimmed := strings.TrimSpace(comment.ReplaceAllString(line, ""))
		switch {
		case strings.HasPrefix(trimmed, "```") && fence != "":
			fence = ""
		case strings.HasPrefix(trimmed, "```"):
			fence = trimmed
		case trimmed != "" && (fence == "```sh" || fence == "" && strings.HasPrefix(line, "    ")):
			lines = append(lines, trimmed)
		}
	}
	return lines
}
