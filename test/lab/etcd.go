package lab

import (
	"context"
	"net/http"
	"path/filepath"

	"github.com/lvm-storage/lvm-operator/test/lab/internal/spec"
)

// BackUpEtcd copies the data of the cluster's etcd to a new directory. etcd is stopped meanwhile, for about a second.
func (l *Lab) BackUpEtcd(ctx context.Context, dir string) error {
	return l.etcd(ctx, spec.EtcdBackUp, dir)
}

// RestoreEtcd stops the control plane, replaces the data of etcd with a backup, and starts the control plane again. As
// Kubernetes recommends, the revision of etcd does not go back, so that all clients read all objects again. The nodes
// keep running.
func (l *Lab) RestoreEtcd(ctx context.Context, dir string) error {
	return l.etcd(ctx, spec.EtcdRestore, dir)
}

func (l *Lab) etcd(ctx context.Context, verb, dir string) error {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return err
	}
	return l.ask(ctx, http.MethodPost, "/etcd/"+verb, spec.EtcdRequest{Dir: dir}, &struct{}{})
}
