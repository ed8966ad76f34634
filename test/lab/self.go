package lab

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"sync"

	"github.com/lvm-storage/lvm-operator/test/lab/internal/self"
)

// labBinary returns the lab command, which is also the supervisor and the first process of every node: this program if
// it is the lab command, or else a build from the repository, once for each process. Go's build cache makes that quick.
func labBinary(ctx context.Context) (string, error) {
	if self.IsLab {
		return os.Executable()
	}
	built.Lock()
	defer built.Unlock()
	if built.path != "" && exists(built.path) {
		return built.path, nil
	}
	path, err := buildLab(ctx)
	if err == nil {
		built.path = path
	}
	return path, err
}

var built struct {
	sync.Mutex
	path string
}

func buildLab(ctx context.Context) (string, error) {
	root, err := Root()
	if err != nil {
		return "", err
	}
	cache, err := CacheDir()
	if err != nil {
		return "", err
	}
	unlock, err := lockFile(filepath.Join(cache, "lab", "lab.lock"))
	if err != nil {
		return "", err
	}
	defer unlock()
	out := filepath.Join(cache, "lab", "lab")
	tmp := fmt.Sprintf("%s.%d", out, os.Getpid())
	if _, err := goCommand(ctx, root, "build", "-buildvcs=false", "-ldflags", "-s -w", "-o", tmp,
		"./test/lab/cmd/lab"); err != nil {
		return "", fmt.Errorf("build the lab command: %w", err)
	}
	return out, os.Rename(tmp, out)
}
