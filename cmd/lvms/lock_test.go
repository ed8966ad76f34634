package main

import (
	"context"
	"errors"
	"path/filepath"
	"testing"
)

func TestSecondAgentWaitsForTheFirst(t *testing.T) {
	path := filepath.Join(t.TempDir(), "lock")
	release, err := lockNode(context.Background(), path)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := lockNode(ctx, path); !errors.Is(err, context.Canceled) {
		t.Fatalf("the second agent got %v while the first holds the lock", err)
	}
	release()
	release, err = lockNode(context.Background(), path)
	if err != nil {
		t.Fatalf("after the first has ended: %v", err)
	}
	release()
}

func TestLockNamesAFolderThatIsMissing(t *testing.T) {
	if _, err := lockNode(context.Background(), filepath.Join(t.TempDir(), "absent", "lock")); err == nil {
		t.Fatal("no error")
	}
}
