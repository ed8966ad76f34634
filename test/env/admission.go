package env

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/envtest"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"
	ctrlwebhook "sigs.k8s.io/controller-runtime/pkg/webhook"
	"sigs.k8s.io/yaml"
)

// Webhooks returns the registration of the operator's webhooks: config/webhook/manifests.yaml with the failure policy
// and the conditions that kustomization.yaml adds.
func Webhooks() (*admissionv1.ValidatingWebhookConfiguration, error) {
	repository, err := root()
	if err != nil {
		return nil, err
	}
	folder := filepath.Join(repository, "config", "webhook")
	configuration := &admissionv1.ValidatingWebhookConfiguration{}
	if err := readYAML(filepath.Join(folder, "manifests.yaml"), configuration); err != nil {
		return nil, err
	}
	var kustomization struct {
		Resources []string `json:"resources"`
		Patches   []struct {
			Patch string `json:"patch"`
		} `json:"patches"`
	}
	if err := readYAML(filepath.Join(folder, "kustomization.yaml"), &kustomization); err != nil {
		return nil, err
	}
	for _, p := range kustomization.Patches {
		patch := &admissionv1.ValidatingWebhookConfiguration{}
		if err := yaml.UnmarshalStrict([]byte(p.Patch), patch); err != nil {
			return nil, fmt.Errorf("patch in %s: %w", folder, err)
		}
		for _, changed := range patch.Webhooks {
			at := slices.IndexFunc(configuration.Webhooks,
				func(w admissionv1.ValidatingWebhook) bool { return w.Name == changed.Name })
			if at < 0 {
				return nil, fmt.Errorf("patch in %s: there is no webhook %s", folder, changed.Name)
			}
			configuration.Webhooks[at].FailurePolicy = changed.FailurePolicy
			configuration.Webhooks[at].MatchConditions = changed.MatchConditions
		}
	}
	return configuration, nil
}

func readYAML(name string, into any) error {
	text, err := os.ReadFile(name)
	if err != nil {
		return err
	}
	if err := yaml.UnmarshalStrict(text, into); err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	return nil
}

// ServeAdmission registers the operator's webhooks, and serves them as setup says until stop is called.
func (e *Env) ServeAdmission(setup func(ctrl.Manager) error) (stop func() error, err error) {
	configuration, err := Webhooks()
	if err != nil {
		return nil, err
	}
	return e.Serve(configuration, setup)
}

// Serve registers the webhooks of a configuration, and serves them as setup says until stop is called.
func (e *Env) Serve(configuration *admissionv1.ValidatingWebhookConfiguration,
	setup func(ctrl.Manager) error) (stop func() error, err error) {
	options := &envtest.WebhookInstallOptions{
		ValidatingWebhooks: []*admissionv1.ValidatingWebhookConfiguration{configuration}}
	if err := options.Install(e.Config); err != nil {
		return nil, errors.Join(err, options.Cleanup())
	}
	mgr, err := ctrl.NewManager(e.Config, ctrl.Options{
		Scheme:  clientgoscheme.Scheme,
		Metrics: metricsserver.Options{BindAddress: "0"},
		WebhookServer: ctrlwebhook.NewServer(ctrlwebhook.Options{
			Host: options.LocalServingHost, Port: options.LocalServingPort, CertDir: options.LocalServingCertDir}),
	})
	if err == nil {
		err = setup(mgr)
	}
	if err != nil {
		return nil, errors.Join(err, options.Cleanup())
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- mgr.Start(ctx) }()
	stop = func() error {
		cancel()
		return errors.Join(<-ended, options.Cleanup())
	}
	for end := time.Now().Add(Patience); ; time.Sleep(50 * time.Millisecond) {
		if err := mgr.GetWebhookServer().StartedChecker()(nil); err == nil {
			return stop, nil
		} else if time.Now().After(end) {
			return nil, errors.Join(fmt.Errorf("the server of the webhooks has not started: %w", err), stop())
		}
	}
}
