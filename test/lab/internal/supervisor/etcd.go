package supervisor

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"strconv"
	"syscall"
	"time"

	"github.com/lvm-storage/lvm-operator/test/lab/internal/spec"
)

const (
	etcdLimit     = time.Minute
	etcdCallLimit = time.Minute
	// revisionKey is overwritten to increase the revision of etcd.
	revisionKey = "lab/revision"
)

// actOnEtcd backs up or restores the data of etcd. If it fails, the control plane may be stopped.
func (s *supervisor) actOnEtcd(ctx context.Context, verb, dir string) error {
	s.etcdOp.Lock()
	defer s.etcdOp.Unlock()
	switch verb {
	case spec.EtcdBackUp:
		return s.backUpEtcd(ctx, dir)
	case spec.EtcdRestore:
		return s.restoreEtcd(ctx, dir)
	}
	return fmt.Errorf("no verb %q for etcd", verb)
}

// backUpEtcd stops etcd for a moment, so that the copied files are consistent.
func (s *supervisor) backUpEtcd(ctx context.Context, dir string) error {
	if _, err := os.Lstat(dir); err == nil {
		return fmt.Errorf("back up etcd: %s exists already", dir)
	} else if !errors.Is(err, os.ErrNotExist) {
		return err
	}
	if err := s.stop(etcd, syscall.SIGTERM); err != nil {
		return err
	}
	failed := os.CopyFS(dir, os.DirFS(etcdDir))
	if err := s.startEtcd(); err != nil {
		return errors.Join(failed, err)
	}
	return errors.Join(failed, poll(ctx, apiServerLimit, 100*time.Millisecond, s.kube.ready))
}

// restoreEtcd replaces the data of etcd while the whole control plane is stopped. The revision continues after that of
// the replaced data, as with `etcdutl snapshot restore --bump-revision --mark-compacted`: otherwise clients that watch
// objects would not notice that these are older now.
func (s *supervisor) restoreEtcd(ctx context.Context, dir string) error {
	if _, err := os.Stat(dir); err != nil {
		return fmt.Errorf("restore etcd: %w", err)
	}
	highest, err := etcdCall(ctx, "/v3/maintenance/status", struct{}{})
	if err != nil {
		return err
	}
	for _, name := range []string{scheduler, controllerManager, apiServer, etcd} {
		if err := s.stop(name, syscall.SIGKILL); err != nil {
			return err
		}
	}
	if err := errors.Join(os.RemoveAll(etcdDir), os.CopyFS(etcdDir, os.DirFS(dir)), s.startEtcd()); err != nil {
		return err
	}
	if err := raiseRevision(ctx, highest); err != nil {
		return err
	}
	if err := s.startAPIServer(ctx); err != nil {
		return err
	}
	return s.startControllers()
}

// raiseRevision waits until etcd answers, increases its revision until it is higher than another one, and discards the
// history.
func raiseRevision(ctx context.Context, above int64) error {
	put := map[string]any{"key": []byte(revisionKey), "value": []byte("raised")}
	var revision int64
	if err := poll(ctx, etcdLimit, 100*time.Millisecond, func(ctx context.Context) (err error) {
		revision, err = etcdCall(ctx, "/v3/kv/put", put)
		return err
	}); err != nil {
		return err
	}
	for revision <= above {
		var err error
		if revision, err = etcdCall(ctx, "/v3/kv/put", put); err != nil {
			return err
		}
	}
	_, err := etcdCall(ctx, "/v3/kv/compaction", map[string]any{"revision": strconv.FormatInt(revision, 10)})
	return err
}

// etcdCall calls the JSON gateway of etcd, and returns the revision of etcd after the call.
func etcdCall(ctx context.Context, path string, body any) (int64, error) {
	ctx, cancel := context.WithTimeout(ctx, etcdCallLimit)
	defer cancel()
	data, err := json.Marshal(body)
	if err != nil {
		return 0, err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, etcdURL+path, bytes.NewReader(data))
	if err != nil {
		return 0, err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return 0, fmt.Errorf("etcd: %w", err)
	}
	defer func() { _ = resp.Body.Close() }()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		return 0, fmt.Errorf("etcd: %w", err)
	}
	var answer struct {
		Header struct {
			Revision int64 `json:"revision,string"`
		} `json:"header"`
	}
	if err := json.Unmarshal(text, &answer); err != nil || resp.StatusCode != http.StatusOK ||
		answer.Header.Revision == 0 {
		return 0, fmt.Errorf("etcd: POST %s: %s: %.300s: %w", path, resp.Status, text, errors.Join(err, errNoRevision))
	}
	return answer.Header.Revision, nil
}

var errNoRevision = errors.New("the answer has no revision")
