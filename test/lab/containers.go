package lab

import (
	"context"
	"fmt"
	"os/exec"
	"strings"

	"github.com/lvm-storage/lvm-operator/test/lab/internal/images"
)

// busyboxApplets returns the commands of this machine's busybox. The supervisor, which waits for all processes of its
// namespace, could not run it as easily.
func busyboxApplets(ctx context.Context) ([]string, error) {
	list, err := exec.CommandContext(ctx, images.BusyboxProgram, "--list").Output()
	if err != nil {
		return nil, fmt.Errorf("%s --list: %w", images.BusyboxProgram, err)
	}
	return strings.Fields(string(list)), nil
}
