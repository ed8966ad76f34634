package nodeprobe

import (
	"bytes"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"
)

// size is the size of what is written, in bytes.
const size = 256 << 10

// Command returns the command that the Pod of a probe runs.
func Command() *cobra.Command {
	return &cobra.Command{
		Use:   "probe DIRECTORY",
		Short: "Write a file to a volume and read it back from the device, for the Pods that probe nodes",
		Args:  cobra.ExactArgs(1),
		RunE:  func(_ *cobra.Command, args []string) error { return Write(args[0]) },
	}
}

// Write writes a file to a folder, reads it back from the device, compares it, and removes it. It has no time limit of
// its own: that of the Pod is activeDeadlineSeconds.
func Write(folder string) (err error) {
	file, err := os.Create(filepath.Join(folder, "probe"))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, file.Close(), os.Remove(file.Name())) }()
	written := make([]byte, size)
	_, _ = rand.Read(written) // It never fails.
	if _, err := file.Write(written); err != nil {
		return err
	}
	if err := file.Sync(); err != nil {
		return fmt.Errorf("flush %s: %w", file.Name(), err)
	}
	// Without the pages in memory, the kernel reads the device.
	if err := unix.Fadvise(int(file.Fd()), 0, 0, unix.FADV_DONTNEED); err != nil {
		return fmt.Errorf("drop the cached pages of %s: %w", file.Name(), err)
	}
	if _, err := file.Seek(0, io.SeekStart); err != nil {
		return err
	}
	read, err := io.ReadAll(file)
	if err != nil {
		return err
	}
	if !bytes.Equal(read, written) {
		return fmt.Errorf("%s differs from what was written", file.Name())
	}
	return nil
}
