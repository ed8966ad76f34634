//go:build env

package volumemove

import (
	"testing"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/lvm-storage/lvm-operator/test/env"
)

var server *env.Env

func TestMain(m *testing.M) {
	env.Main(m, func(e *env.Env) {
		server = e
		if err := createCluster(e.Client); err != nil {
			panic(err)
		}
	})
}

// connect returns the clients of an administrator and of the operator.
func connect() (client.Client, *env.Spy, error) {
	config, err := server.AsOperator(env.Namespace)
	if err != nil {
		return nil, nil, err
	}
	spy, err := env.NewSpy(config)
	return server.Client, spy, err
}
