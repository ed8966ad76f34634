package analyze

import (
	"fmt"
	"os"
	"path/filepath"
	"time"
)

// Report returns the summary of the archive in a directory, as Markdown or as JSON, and its verdict. The directory can
// be the output of `oc adm must-gather`, with one archive. now is the time of the collection if the archive does not
// have it.
func Report(folder string, now time.Time, asJSON bool) ([]byte, Verdict, error) {
	folder, err := archiveIn(folder)
	if err != nil {
		return nil, "", err
	}
	facts, err := Load(os.DirFS(folder), now)
	if err != nil {
		return nil, "", fmt.Errorf("%s: %w", folder, err)
	}
	summary := Summarize(facts)
	if !asJSON {
		return []byte(summary.Markdown()), summary.Verdict, nil
	}
	text, err := summary.JSON()
	return text, summary.Verdict, err
}

// archiveIn returns the archive in the output of `oc adm must-gather`: the directory itself, or its only subdirectory
// that is an archive.
func archiveIn(folder string) (string, error) {
	if isArchive(folder) {
		return folder, nil
	}
	entries, err := os.ReadDir(folder)
	if err != nil {
		return "", err
	}
	var found []string
	for _, e := range entries {
		if at := filepath.Join(folder, e.Name()); isArchive(at) {
			found = append(found, at)
		}
	}
	if len(found) != 1 {
		return "", fmt.Errorf("%s contains %d archives: specify the directory that contains "+
			"cluster-scoped-resources and namespaces",
			folder, len(found))
	}
	return found[0], nil
}

func isArchive(folder string) bool {
	for _, name := range []string{"cluster-scoped-resources", "namespaces"} {
		if info, err := os.Stat(filepath.Join(folder, name)); err == nil && info.IsDir() {
			return true
		}
	}
	return false
}
