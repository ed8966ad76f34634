package lab

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/lvm-storage/lvm-operator/test/lab/internal/spec"
)

func TestStateIsHeldByItsLock(t *testing.T) {
	dir := t.TempDir()
	if runs(dir) {
		t.Fatal("an empty folder runs")
	}
	lock, err := lockState(dir)
	if err != nil {
		t.Fatal(err)
	}
	if !runs(dir) {
		t.Error("a locked folder does not run")
	}
	if second, err := lockState(dir); err == nil {
		t.Error("locked twice", second.Close())
	}
	if err := lock.Close(); err != nil {
		t.Fatal(err)
	}
	if runs(dir) {
		t.Error("a folder runs whose lock was let go")
	}
}

func TestRemoveStateOfADeadLab(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "lab")
	if err := Down(context.Background(), dir); err != nil {
		t.Errorf("a lab that never was: %v", err)
	}
	if err := os.MkdirAll(filepath.Join(dir, spec.NodeDir("node1")), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := spec.Save(filepath.Join(dir, spec.File), spec.Lab{Name: "lab"}); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(dir); !errors.Is(err, ErrNotRunning) {
		t.Errorf("a dead lab opens: %v", err)
	}
	if err := Down(context.Background(), dir); err != nil {
		t.Fatal(err)
	}
	if exists(dir) {
		t.Error("the folder is still there")
	}
}

func TestRemoveStateLeavesOtherFoldersAlone(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "thesis.txt")
	if err := os.WriteFile(file, []byte("all my work"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := Down(context.Background(), dir); err == nil || !strings.Contains(err.Error(), "left alone") {
		t.Errorf("got %v", err)
	}
	if !exists(file) {
		t.Error("removed a folder that is not a lab's")
	}
}

func TestRemoveStateOfARunningLab(t *testing.T) {
	dir := t.TempDir()
	if err := spec.Save(filepath.Join(dir, spec.File), spec.Lab{Name: "lab"}); err != nil {
		t.Fatal(err)
	}
	lock, err := lockState(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = lock.Close() }()
	if err := removeState(dir); err == nil || !exists(dir) {
		t.Errorf("removed under a running lab: %v", err)
	}
}

func TestCopyLogs(t *testing.T) {
	state := t.TempDir()
	dir := filepath.Join(t.TempDir(), "logs")
	for path, text := range map[string]string{"supervisor.log": "s", "log/etcd.log": "e", "log/node1/console.log": "c",
		"certs/ca.key": "secret"} {
		file := filepath.Join(state, path)
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := copyLogs(state, dir); err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]string{"supervisor.log": "s", "etcd.log": "e", "node1/console.log": "c"} {
		if got, err := os.ReadFile(filepath.Join(dir, path)); err != nil || string(got) != want {
			t.Errorf("%s: %q, %v", path, got, err)
		}
	}
	if exists(filepath.Join(dir, "ca.key")) {
		t.Error("a key is among the logs")
	}
}
