//go:build env

package volumeimport

import (
	"testing"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/lvm-storage/lvm-operator/test/env"
)

var server *env.Env

func TestMain(m *testing.M) {
	env.Main(m, func(e *env.Env) { server = e }, append(env.OptionalCRDs(), env.EarlierCRD())...)
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
