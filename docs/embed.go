// Package docs has the documentation, for the archive of must-gather: the runbooks lead to it.
package docs

import "embed"

// Files are the pages as Markdown.
//
//go:embed *.md */*.md */*/*.md
var Files embed.FS
