package server

import (
	"crypto/tls"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"time"
)

// lookAgain is how long a look at the files of the certificate holds. The service CA renews it a year before it ends.
const lookAgain = 10 * time.Second

// certificate is the one that is served. A new one in the folder takes its place; one that cannot be read does not.
type certificate struct {
	folder string
	log    *slog.Logger

	mu      sync.Mutex
	current *tls.Certificate
	changed time.Time
	looked  time.Time
}

func newCertificate(folder string, log *slog.Logger) (*certificate, error) {
	c := &certificate{folder: folder, log: log}
	if err := c.load(); err != nil {
		return nil, err
	}
	return c, nil
}

func (c *certificate) load() error {
	crt, key := filepath.Join(c.folder, "tls.crt"), filepath.Join(c.folder, "tls.key")
	changed, err := modified(crt, key)
	if err != nil {
		return fmt.Errorf("serving certificate: %w", err)
	}
	c.looked = time.Now()
	if changed.Equal(c.changed) {
		return nil
	}
	pair, err := tls.LoadX509KeyPair(crt, key)
	if err != nil {
		return fmt.Errorf("serving certificate in %s: %w", c.folder, err)
	}
	c.current, c.changed = &pair, changed
	return nil
}

// modified is the last change of the files.
func modified(names ...string) (time.Time, error) {
	var last time.Time
	for _, name := range names {
		info, err := os.Stat(name)
		if err != nil {
			return time.Time{}, err
		}
		if info.ModTime().After(last) {
			last = info.ModTime()
		}
	}
	return last, nil
}

func (c *certificate) get(*tls.ClientHelloInfo) (*tls.Certificate, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if time.Since(c.looked) > lookAgain {
		// Between the two files of a renewal they do not fit each other: the next look decides.
		if err := c.load(); err != nil {
			c.looked = time.Now()
			c.log.Error("The serving certificate cannot be read anew: the last one is served on", "error", err)
		}
	}
	return c.current, nil
}
