package main

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// archive simulates apt-get and dpkg-deb for one package. fail is the argument with which they fail.
type archive struct{ cache, fail string }

func (a archive) run(_ context.Context, _ time.Duration, program string, args ...string) ([]byte, error) {
	if a.fail != "" && slices.Contains(args, a.fail) {
		return nil, errors.New("exit status 100")
	}
	deb := filepath.Join(a.cache, "amd64/archives/fio_1_amd64.deb")
	switch {
	case slices.Contains(args, "--print-uris"):
		sum := sha256.Sum256([]byte("fio"))
		return fmt.Appendf(nil, "'http://debian/fio.deb' fio_1_amd64.deb 3 SHA256:%x\n", sum), nil
	case slices.Contains(args, "--download-only"):
		return nil, os.WriteFile(deb, []byte("fio"), 0o600)
	case program == "dpkg-deb":
		return nil, os.WriteFile(filepath.Join(args[len(args)-1], "fio"), nil, 0o600)
	}
	return nil, nil
}

func TestAFolderIsCompleteOrDoesNotExist(t *testing.T) {
	for _, fail := range []string{"update", "--print-uris", "--download-only", "--extract", ""} {
		t.Run(fail, func(t *testing.T) {
			dir := t.TempDir()
			cache, out := filepath.Join(dir, "cache"), filepath.Join(dir, "new", "out")
			err := unpack(t.Context(), out, cache, []string{"fio"}, archive{cache, fail}.run)
			if (err != nil) != (fail != "") {
				t.Fatalf("got %v", err)
			}
			if _, err := os.Stat(filepath.Join(out, "fio")); (err == nil) != (fail == "") {
				t.Errorf("the program: %v", err)
			}
			left, err := filepath.Glob(filepath.Join(dir, "new", "*.new-*"))
			if err != nil || len(left) > 0 {
				t.Errorf("left %q, %v", left, err)
			}
			// A folder that exists is not changed, and needs no network.
			if fail == "" {
				err := unpack(t.Context(), out, cache, []string{"fio"}, archive{cache, "--print-uris"}.run)
				if err != nil {
					t.Error(err)
				}
			}
		})
	}
	if err := unpack(t.Context(), "", t.TempDir(), []string{"fio"}, archive{}.run); err == nil ||
		!strings.Contains(err.Error(), "-out") {
		t.Errorf("got %v", err)
	}
}
