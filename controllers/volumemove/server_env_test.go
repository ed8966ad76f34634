//go:build env

package volumemove

import (
	"testing"

	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
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
func connect() (client.Client, client.WithWatch, error) {
	config, err := server.AsOperator(env.Namespace)
	if err != nil {
		return nil, nil, err
	}
	operator, err := client.NewWithWatch(config, client.Options{Scheme: clientgoscheme.Scheme})
	return server.Client, operator, err
}
