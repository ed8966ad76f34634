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

// openShiftCRDs are patterns of CRD files in modules that the operator uses, and those that OLM reads on OpenShift.
var openShiftCRDs = []string{
	"payload-manifests/crds/*_config-operator_01_proxies.crd.yaml",
	"payload-manifests/crds/*_config-operator_01_securitycontextconstraints.crd.yaml",
	"payload-manifests/crds/*_config-operator_01_apiservers-Default.crd.yaml",
	"payload-manifests/crds/*_config-operator_01_infrastructures-Default.crd.yaml",
	"config/v1/zz_generated.crd-manifests/*_clusterversions-Default.crd.yaml",
	"console/v1/zz_generated.crd-manifests/*_consoleplugins.crd.yaml",
	"console/v1/zz_generated.crd-manifests/*_consolequickstarts.crd.yaml",
}

// addonCRDs returns the CRD files for the options, in Go's module cache.
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

// prometheusCRDs returns the CRD files of the Prometheus Operator: all of them if it runs, or else those for objects
// that a bundle may contain, which always exist on OpenShift.
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

// networkPolicyManifest returns the file with the objects of kube-network-policies, or "" if it is not enabled.
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

// olmV1Manifest returns the file with the objects of OLM v1, including its CRDs, or "" if it is not enabled.
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

// moduleFiles returns the files in a module that match patterns, each of which must match. user is the directory, in
// the repository, of the module whose go.mod pins it.
func moduleFiles(ctx context.Context, user, module string, patterns ...string) ([]string, error) {
	root, err := Root()
	if err != nil {
		return nil, err
	}
	user = filepath.Join(root, user)
	// If nothing is built from a module, it may not have been downloaded yet.
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
