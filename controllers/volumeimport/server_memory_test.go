//go:build !env

package volumeimport

import (
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/lvm-storage/lvm-operator/test/env"
	"github.com/lvm-storage/lvm-operator/test/memory"
)

// connect returns the clients of an administrator and of the operator, of an API server in memory.
func connect() (client.Client, client.WithWatch, error) {
	api := memory.New(env.Namespace)
	return api, api, nil
}
