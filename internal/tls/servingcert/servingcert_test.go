package servingcert

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/lvm-storage/lvm-operator/internal/tls/pki"
)

// write creates a certificate for a name in a directory.
func write(t *testing.T, folder, name string, at time.Time) {
	t.Helper()
	pair, err := pki.SelfSigned(pki.ServerRequest(time.Now(), time.Hour, name))
	if err != nil {
		t.Fatal(err)
	}
	for file, content := range map[string][]byte{certificateFile: pair.Certificate, keyFile: pair.Key} {
		path := filepath.Join(folder, file)
		if err := errors.Join(os.WriteFile(path, content, 0o600), os.Chtimes(path, at, at)); err != nil {
			t.Fatal(err)
		}
	}
}

func TestCertificateOfTheFolder(t *testing.T) {
	folder := t.TempDir()
	var told []string
	c := NewFolderOrSelfSigned(folder, func(err error) { told = append(told, err.Error()) })
	strict := NewFolder(folder, nil)
	own, err := c.Current()
	if err != nil || own.Leaf.Subject.CommonName != "lvms-metrics" {
		t.Fatalf("%v, %v", own, err)
	}
	if again, _ := c.Current(); again != own {
		t.Error("a new certificate each time")
	}
	if _, err := strict.Current(); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("got %v for an empty folder", err)
	}
	shown := func() string {
		t.Helper()
		for _, f := range []*Folder{c, strict} {
			got, err := f.Current()
			if err != nil || got != f.loaded || got.Leaf.DNSNames[0] != c.loaded.Leaf.DNSNames[0] {
				t.Fatal(got, err)
			}
		}
		return c.loaded.Leaf.DNSNames[0]
	}
	for i, name := range []string{"first", "second"} {
		write(t, folder, name, time.Unix(int64(i)+1, 0))
		if got := shown(); got != name {
			t.Errorf("got %s, want %s", got, name)
		}
	}
	if len(told) != 0 {
		t.Errorf("told %q", told)
	}
	// The update is incomplete: only the key has changed.
	if err := os.WriteFile(filepath.Join(folder, keyFile), []byte("half"), 0o600); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if got := shown(); got != "second" {
			t.Errorf("got %s while the files are being written", got)
		}
	}
	if len(told) != 1 {
		t.Errorf("told %q", told)
	}
	// A new process with these files has no earlier certificate and returns an error: clients would not trust a
	// self-signed one.
	if _, err := NewFolderOrSelfSigned(folder, nil).Current(); err == nil {
		t.Error("no error")
	}
	if err := os.Remove(filepath.Join(folder, certificateFile)); err != nil {
		t.Fatal(err)
	}
	if got := shown(); got != "second" || len(told) != 2 {
		t.Errorf("got %s when the files are gone; told %q", got, told)
	}
	write(t, folder, "third", time.Unix(3, 0))
	if got := shown(); got != "third" {
		t.Errorf("got %s", got)
	}
}

func TestOwnCertificateIsRenewed(t *testing.T) {
	now := time.Now()
	c := NewFolderOrSelfSigned("", nil)
	c.now = func() time.Time { return now }
	first, err := c.Current()
	if err != nil {
		t.Fatal(err)
	}
	now = now.Add(validity*2/3 - time.Hour)
	if again, _ := c.Current(); again != first {
		t.Error("renewed too early")
	}
	now = now.Add(2 * time.Hour)
	second, err := c.Current()
	if err != nil || second == first || second.Leaf.NotAfter.Sub(now) < validity/2 {
		t.Errorf("not renewed: %v", err)
	}
}
