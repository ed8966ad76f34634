package supervisor

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// threadsOf describes the threads of a process that does not end: name, state, and the kernel function in which each
// one waits. An ended process whose parent has not waited for it has the state Z.
func threadsOf(proc string, pid int) string {
	folders, err := filepath.Glob(filepath.Join(proc, fmt.Sprint(pid), "task", "*"))
	if err != nil || len(folders) == 0 {
		return fmt.Sprintf("process %d does not exist", pid)
	}
	var lines []string
	for _, folder := range folders {
		status, _ := os.ReadFile(filepath.Join(folder, "status"))
		wchan, _ := os.ReadFile(filepath.Join(folder, "wchan"))
		fields := map[string]string{}
		for _, line := range strings.Split(string(status), "\n") {
			if key, value, found := strings.Cut(line, ":"); found {
				fields[key] = strings.TrimSpace(value)
			}
		}
		lines = append(lines, fmt.Sprintf("thread %s (%s): %s, tracer %s, waits in %s", filepath.Base(folder),
			fields["Name"], fields["State"], fields["TracerPid"], strings.TrimSpace(string(wchan))))
	}
	return strings.Join(lines, "\n")
}
