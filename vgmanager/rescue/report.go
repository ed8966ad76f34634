package rescue

import (
	"context"
	"fmt"
	"io"
	"strings"

	"github.com/lvm-storage/lvm-operator/vgmanager/rescue/files"
)

// report prints the result of a finished copy. It returns a *PartialError if something was lost.
func (s *settings) report(ctx context.Context, o *opened, stdout, stderr io.Writer) error {
	m := o.record.Map
	lost := m.Missing()
	fmt.Fprintf(stdout, "Saved: %d bytes. Lost: %d bytes in %d ranges.\n", m.Bytes(Saved), m.Bytes(Lost), len(lost))
	fmt.Fprintf(stdout, "Source: %s\nCopy: %s\nMap: %s\n", s.From, s.To, s.Map)
	if len(lost) == 0 {
		return nil
	}
	if s.maxFiles > 0 {
		fmt.Fprintln(stderr, "looking for the affected files in the copy")
		ctx, cancel := context.WithTimeout(ctx, s.filesTime)
		defer cancel()
		found, err := files.Find(ctx, o.target.file, m.Size(), spans(lost))
		if err != nil {
			fmt.Fprintf(stdout, "Affected files: %v.\n", err)
		} else {
			printFiles(stdout, found, s.maxFiles)
		}
	}
	return &PartialError{Lost: m.Bytes(Lost), Ranges: len(lost)}
}

func spans(ranges []Range) []files.Span {
	list := make([]files.Span, 0, len(ranges))
	for _, r := range ranges {
		list = append(list, files.Span{Start: r.Start, End: r.End()})
	}
	return list
}

// printFiles prints at most limit files.
func printFiles(out io.Writer, r *files.Report, limit int) {
	fmt.Fprintf(out, "File system: %s\n", r.FileSystem)
	for _, m := range r.Metadata {
		fmt.Fprintf(out, "Lost metadata: %s, %d bytes\n", m.Kind, m.Lost)
	}
	switch {
	case r.Count > 0:
		fmt.Fprintf(out, "Files with lost data: %d\n", r.Count)
	case len(r.Incomplete) == 0:
		fmt.Fprintln(out, "Files with lost data: none. The lost ranges have no content of files.")
	default:
		fmt.Fprintln(out, "Files with lost data: none was found, but the search is not complete.")
	}
	for i, f := range r.Files {
		if i == limit {
			fmt.Fprintf(out, "  and %d more names: set --max-files\n", len(r.Files)-limit)
			break
		}
		name := fmt.Sprintf("%q", f.Path)
		if f.Path == "" {
			name = "a file without a known name"
		}
		fmt.Fprintf(out, "  %s: inode %d, lost: %s", name, f.Inode, strings.Join(f.What, ", "))
		if f.Lost > 0 {
			fmt.Fprintf(out, ", %d bytes", f.Lost)
		}
		fmt.Fprintln(out)
	}
	for _, reason := range r.Incomplete {
		fmt.Fprintf(out, "Not complete: %s.\n", reason)
	}
	if r.Unreplayed {
		fmt.Fprintln(out, "The journal was not replayed: files that changed last may be missing in this list.")
	}
}
