// Package runbooks embeds the runbook of each alert, for the archive of must-gather.
package runbooks

import "embed"

// Files has the runbooks as Markdown: NAME.md for the alert NAME, and the index README.md.
//
//go:embed *.md
var Files embed.FS
