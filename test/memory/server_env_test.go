//go:build env

package memory_test

import (
	"testing"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/lvm-storage/lvm-operator/test/env"
)

var server *env.Env

func TestMain(m *testing.M) { env.Main(m, func(e *env.Env) { server = e }) }

func connect(t *testing.T) client.Client {
	t.Helper()
	return server.Client
}
