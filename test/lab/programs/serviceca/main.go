// Command serviceca implements the annotations of OpenShift's service CA, according to its documentation and source
// (github.com/openshift/service-ca-operator, whose module is not available for a build): it creates a Secret with a
// serving certificate for a Service, and injects the bundle of its authority into objects that request it. It has one
// authority, which it does not rotate.
package main

import (
	"flag"
	"fmt"
	"os"

	"k8s.io/klog/v2"
	ctrl "sigs.k8s.io/controller-runtime"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"
)

func main() {
	flag.Parse() // controller-runtime defines the flag --kubeconfig
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "serviceca:", err)
		os.Exit(1)
	}
}

func run() error {
	ctrl.SetLogger(klog.Background())
	config, err := ctrl.GetConfig()
	if err != nil {
		return err
	}
	manager, err := ctrl.NewManager(config, ctrl.Options{Metrics: metricsserver.Options{BindAddress: "0"}})
	if err != nil {
		return err
	}
	ca, err := newAuthority()
	if err != nil {
		return err
	}
	if err := (&servingCertificates{client: manager.GetClient(), reader: manager.GetAPIReader(), ca: ca}).addTo(
		manager); err != nil {
		return err
	}
	for _, kind := range injectedKinds {
		if err := (&injector{client: manager.GetClient(), bundle: ca.pem, kind: kind}).addTo(manager); err != nil {
			return err
		}
	}
	return manager.Start(ctrl.SetupSignalHandler())
}
