// Program uses its code, releases memory, and continues. It prints how much of its file was resident before and after.
package main

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"strings"

	"github.com/lvm-storage/lvm-operator/internal/metrics/memory"
)

func main() {
	data, err := os.ReadFile("/proc/self/exe")
	if err != nil {
		panic(err)
	}
	before := resident()
	if err := memory.Reduce(); err != nil {
		panic(err)
	}
	after := resident()
	// It still works.
	request, err := http.NewRequest(http.MethodGet, "https://example.org/"+strings.Repeat("x", 10),
		strings.NewReader("body"))
	if err != nil || request.URL.Path == "" || len(data) == 0 {
		panic(err)
	}
	if err := json.NewEncoder(os.Stdout).Encode(map[string]int{"before": before, "after": after}); err != nil {
		panic(err)
	}
}

// resident returns the resident memory of file mappings, in KiB.
func resident() int {
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		panic(err)
	}
	_, rest, _ := strings.Cut(string(status), "RssFile:")
	kib := 0
	if _, err := fmt.Sscan(rest, &kib); err != nil {
		panic(err)
	}
	return kib
}
