// Package runbooks has the page of each alert, for the archive of must-gather.
package runbooks

import "embed"

// Files are the pages as Markdown, NAME.md for the alert NAME, and README.md, their index.
//
//go:embed *.md
var Files embed.FS
