//go:build !env

package memory_test

import (
	"testing"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/lvm-storage/lvm-operator/test/env"
	"github.com/lvm-storage/lvm-operator/test/memory"
)

func connect(t *testing.T) client.Client {
	t.Helper()
	return memory.New(env.Namespace)
}
