package lab

import (
	"context"
	"fmt"
	"path/filepath"
)

const (
	openShiftAPI       = "github.com/openshift/api"
	snapshotClient     = "github.com/kubernetes-csi/external-snapshotter/client/v8"
	operatorAPI        = "github.com/operator-framework/api"
	prometheusOperator = "github.com/prometheus-operator/prometheus-operator"
	operatorController = "github.com/operator-framework/operator-controller"
	networkPolicies    = "sigs.k8s.io/kube-network-policies"
)

// crdFiles are where modules that the operator uses anyway keep their custom resource definitions.
var openShiftCRDs = []string{
	"payload-manifests/crds/*_config-operator_01_securitycontextconstraints.crd.yaml",
	"payload-manifests/crds/*_config-operator_01_apiservers-Default.crd.yaml",
	"payload-manifests/crds/*_config-operator_01_infrastructures-Default.crd.yaml",
	"console/v1/zz_generated.crd-manifests/*_consoleplugins.crd.yaml",
	"console/v1/zz_generated.crd-manifests/*_consolequickstarts.crd.yaml",
}

// addonCRDs are the files with the custom resources that the options ask for, in Go's module cache.
func addonCRDs(ctx context.Context, o Options) ([]string, error) {
	var files []string
	if o.Snapshots {
		found, err := moduleFiles(ctx, ".", snapshotClient, "config/crd/*snapshot.storage*.yaml")
		if err != nil {
			return nil, err
		}
		files = append(files, found...)
	}
	if o.OLM {
		found, err := moduleFiles(ctx, olmSet().module, operatorAPI, "crds/operators.coreos.com_*.yaml")
		if err != nil {
			return nil, err
		}
		files = append(files, found...)
	}
	if o.OLMv1 {
		found, err := olmV1Manifest(ctx, o)
		if err != nil {
			return nil, err
		}
		files = append(files, found)
	}
	if patterns := prometheusCRDs(o); len(patterns) > 0 {
		found, err := moduleFiles(ctx, prometheusOperatorSet().module, prometheusOperator, patterns...)
		if err != nil {
			return nil, err
		}
		files = append(files, found...)
	}
	if o.OpenShift {
		found, err := moduleFiles(ctx, ".", openShiftAPI, openShiftCRDs...)
		if err != nil {
			return nil, err
		}
		files = append(files, found...)
	}
	return files, nil
}

// prometheusCRDs are those of the Prometheus Operator: all of them where it runs, else those that a bundle may hold
// objects of, which on OpenShift are always there.
func prometheusCRDs(o Options) []string {
	const folder = "example/prometheus-operator-crd/monitoring.coreos.com_"
	switch {
	case o.PrometheusOperator:
		return []string{folder + "*.yaml"}
	case o.OLM || o.OLMv1 || o.OpenShift:
		return []string{folder + "prometheusrules.yaml", folder + "servicemonitors.yaml"}
	}
	return nil
}

// networkPolicyManifest is the file with the objects of kube-network-policies, if it is wanted.
func networkPolicyManifest(ctx context.Context, o Options) (string, error) {
	if !o.NetworkPolicies {
		return "", nil
	}
	found, err := moduleFiles(ctx, networkPoliciesSet().module, networkPolicies, "install.yaml")
	if err != nil {
		return "", err
	}
	return found[0], nil
}

// olmV1Manifest is the file with the objects of OLM v1, its custom resource definitions among them, if OLM v1 is
// wanted.
func olmV1Manifest(ctx context.Context, o Options) (string, error) {
	if !o.OLMv1 {
		return "", nil
	}
	found, err := moduleFiles(ctx, olmV1Set().module, operatorController, "manifests/standard.yaml")
	if err != nil {
		return "", err
	}
	return found[0], nil
}

// moduleFiles finds files in a module by patterns, each of which has to match. user is the folder, in the repository,
// of the module whose go.mod pins it.
func moduleFiles(ctx context.Context, user, module string, patterns ...string) ([]string, error) {
	root, err := Root()
	if err != nil {
		return nil, err
	}
	user = filepath.Join(root, user)
	// Of a module from which nothing is built, nothing has been downloaded yet.
	if _, err := goCommand(ctx, user, "mod", "download", module); err != nil {
		return nil, err
	}
	dir, err := goCommand(ctx, user, "list", "-m", "-f", "{{.Dir}}", module)
	if err != nil {
		return nil, err
	}
	var files []string
	for _, pattern := range patterns {
		found, err := filepath.Glob(filepath.Join(dir, pattern))
		if err != nil {
			return nil, err
		}
		if len(found) == 0 {
			return nil, fmt.Errorf("module %s has no files %s", module, pattern)
		}
		files = append(files, found...)
	}
	return files, nil
}
