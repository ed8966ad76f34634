package main

import (
	_ "embed"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"

	"github.com/blang/semver/v4"
	"github.com/operator-framework/api/pkg/lib/version"
	"github.com/operator-framework/api/pkg/operators/v1alpha1"
	admissionv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/intstr"
)

const (
	packageName = "lvms-operator"
	// displayName differs from the name of Red Hat's operator, "LVM Storage", which can be in the same OperatorHub.
	displayName = "LVM Storage (community)"
	namespace   = "openshift-lvm-storage"
	operator    = "lvms-operator"
	agent       = "vg-manager"
	// consolePlugin is the name of the ConsolePlugin that the operator creates. The console offers to enable it when
	// the operator is installed.
	consolePlugin = "lvms-console"
	// minKube is the first version in which the token of a Pod has the name of its node, which the agents' policies
	// require.
	minKube = "1.30.0"
	// olmCertificates is where OLM mounts the certificate of a webhook.
	olmCertificates = "/tmp/k8s-webhook-server/serving-certs"
)

var (
	//go:embed description.md
	description string
	//go:embed icon.svg
	icon []byte
)

// newCSV builds the ClusterServiceVersion.
func newCSV(o options, v semver.Version, s *source) (*v1alpha1.ClusterServiceVersion, error) {
	install, err := newInstall(o, s)
	if err != nil {
		return nil, err
	}
	webhooks, err := newWebhooks(s)
	if err != nil {
		return nil, err
	}
	owned, err := newOwned(s)
	if err != nil {
		return nil, err
	}
	annotations, err := csvAnnotations(o, s)
	if err != nil {
		return nil, err
	}
	labels, err := platformLabels(s)
	if err != nil {
		return nil, err
	}
	return &v1alpha1.ClusterServiceVersion{
		TypeMeta: metav1.TypeMeta{APIVersion: v1alpha1.ClusterServiceVersionAPIVersion,
			Kind: v1alpha1.ClusterServiceVersionKind},
		ObjectMeta: metav1.ObjectMeta{Name: packageName + ".v" + v.String(), Namespace: "placeholder",
			Annotations: annotations, Labels: labels},
		Spec: v1alpha1.ClusterServiceVersionSpec{
			DisplayName:    displayName,
			Description:    strings.TrimSpace(description) + "\n",
			Version:        version.OperatorVersion{Version: v},
			Maturity:       "alpha",
			MinKubeVersion: minKube,
			Keywords: []string{"storage", "LVM", "local storage", "logical volumes",
				"thin provisioning", "snapshot", "CSI", "edge", "TopoLVM"},
			Provider:    v1alpha1.AppLink{Name: o.maintainer, URL: o.url},
			Maintainers: []v1alpha1.Maintainer{{Name: o.maintainer, Email: o.mail}},
			Links: []v1alpha1.AppLink{{Name: "Source", URL: o.url},
				{Name: "Documentation", URL: o.url + "/tree/main/docs"}},
			Icon: []v1alpha1.Icon{{Data: base64.StdEncoding.EncodeToString(icon),
				MediaType: "image/svg+xml"}},
			InstallModes:              installModes(),
			InstallStrategy:           install,
			CustomResourceDefinitions: v1alpha1.CustomResourceDefinitions{Owned: owned},
			WebhookDefinitions:        webhooks,
			RelatedImages:             relatedImages(o),
		},
	}, nil
}

// relatedImages returns the images that a mirror needs.
func relatedImages(o options) []v1alpha1.RelatedImage {
	images := []v1alpha1.RelatedImage{{Name: operator, Image: o.image}}
	if o.mustGather != "" {
		images = append(images, v1alpha1.RelatedImage{Name: "must-gather", Image: o.mustGather})
	}
	return images
}

// installModes returns the supported install modes. In each of them, the operator manages only its own namespace: with
// SingleNamespace, an OperatorGroup may name another one, as that of upstream may.
func installModes() []v1alpha1.InstallMode {
	return []v1alpha1.InstallMode{
		{Type: v1alpha1.InstallModeTypeOwnNamespace, Supported: true},
		{Type: v1alpha1.InstallModeTypeSingleNamespace, Supported: true},
		{Type: v1alpha1.InstallModeTypeMultiNamespace, Supported: false},
		{Type: v1alpha1.InstallModeTypeAllNamespaces, Supported: true},
	}
}

// newInstall returns the deployment with the permissions of the ServiceAccounts.
func newInstall(o options, s *source) (v1alpha1.NamedInstallStrategy, error) {
	deployment, err := find[appsv1.Deployment](s.manager, "Deployment", operator)
	if err != nil {
		return v1alpha1.NamedInstallStrategy{}, err
	}
	container := &deployment.Spec.Template.Spec.Containers[0]
	container.Image = o.image
	container.Args = append(container.Args, "--webhook-cert-dir="+olmCertificates)
	details := v1alpha1.StrategyDetailsDeployment{DeploymentSpecs: []v1alpha1.StrategyDeploymentSpec{{Name: operator,
		Label: deployment.Labels, Spec: deployment.Spec}}}
	for _, account := range []string{operator, agent} {
		here, everywhere, err := rightsOf(s, account)
		if err != nil {
			return v1alpha1.NamedInstallStrategy{}, err
		}
		details.Permissions = append(details.Permissions,
			v1alpha1.StrategyDeploymentPermissions{ServiceAccountName: account, Rules: here})
		details.ClusterPermissions = append(details.ClusterPermissions,
			v1alpha1.StrategyDeploymentPermissions{ServiceAccountName: account, Rules: everywhere})
	}
	return v1alpha1.NamedInstallStrategy{StrategyName: v1alpha1.InstallStrategyNameDeployment,
		StrategySpec: details}, nil
}

// rightsOf returns the permissions of a ServiceAccount in the operator's namespace, and in all namespaces. OLM supports
// no others: permissions in another namespace, which are limited to named objects, become permissions in all
// namespaces.
func rightsOf(s *source, account string) (here, everywhere []rbacv1.PolicyRule, err error) {
	clusterRole, err := find[rbacv1.ClusterRole](s.rbac, "ClusterRole", account)
	if err != nil {
		return nil, nil, err
	}
	everywhere = clusterRole.Rules
	for _, object := range s.rbac {
		if object.GetKind() != "Role" || object.GetName() != account {
			continue
		}
		role, err := find[rbacv1.Role]([]*unstructured.Unstructured{object}, "Role", account)
		if err != nil {
			return nil, nil, err
		}
		if role.Namespace == namespace {
			here = append(here, role.Rules...)
			continue
		}
		for _, rule := range role.Rules {
			if len(rule.ResourceNames) == 0 {
				return nil, nil,
					fmt.Errorf("the Role %s in namespace %s has a permission on all %s: "+
						"in a bundle, it would hold in all namespaces",
						account, role.Namespace, strings.Join(rule.Resources, ", "))
			}
			everywhere = append(everywhere, rule)
		}
	}
	return here, everywhere, nil
}

// platformLabels returns the labels for the operating systems and architectures of the nodes on which the operator can
// run: those of the node affinity in its Deployment.
func platformLabels(s *source) (map[string]string, error) {
	deployment, err := find[appsv1.Deployment](s.manager, "Deployment", operator)
	if err != nil {
		return nil, err
	}
	labels := map[string]string{}
	affinity := deployment.Spec.Template.Spec.Affinity
	if affinity == nil || affinity.NodeAffinity == nil ||
		affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution == nil {
		return nil, fmt.Errorf("the Deployment %s has no required node affinity", operator)
	}
	prefixes := map[string]string{corev1.LabelArchStable: "operatorframework.io/arch.",
		corev1.LabelOSStable: "operatorframework.io/os."}
	for _, term := range affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution.NodeSelectorTerms {
		for _, requirement := range term.MatchExpressions {
			prefix, known := prefixes[requirement.Key]
			if !known || requirement.Operator != corev1.NodeSelectorOpIn {
				return nil, fmt.Errorf("node affinity of Deployment %s: %s %s is neither an architecture nor an "+
					"operating system", operator, requirement.Key, requirement.Operator)
			}
			for _, value := range requirement.Values {
				labels[prefix+value] = "supported"
			}
		}
	}
	return labels, nil
}

// newWebhooks converts the webhooks of config/webhook to OLM's format. OLM creates their Service and certificate.
func newWebhooks(s *source) ([]v1alpha1.WebhookDescription, error) {
	configuration, err := find[admissionv1.ValidatingWebhookConfiguration](s.webhooks, "ValidatingWebhookConfiguration",
		"lvms-operator-webhook")
	if err != nil {
		return nil, err
	}
	var all []v1alpha1.WebhookDescription
	for _, webhook := range configuration.Webhooks {
		port := intstr.FromInt32(9443)
		all = append(all, v1alpha1.WebhookDescription{
			GenerateName: webhook.Name, Type: v1alpha1.ValidatingAdmissionWebhook, DeploymentName: operator,
			ContainerPort: 443, TargetPort: &port,
			Rules: webhook.Rules, FailurePolicy: webhook.FailurePolicy, MatchPolicy: webhook.MatchPolicy,
			SideEffects:    webhook.SideEffects,
			TimeoutSeconds: webhook.TimeoutSeconds, AdmissionReviewVersions: webhook.AdmissionReviewVersions,
			WebhookPath: webhook.ClientConfig.Service.Path,
		})
	}
	return all, nil
}

// csvAnnotations returns the annotations for OperatorHub, the console and the certification.
func csvAnnotations(o options, s *source) (map[string]string, error) {
	examples, err := examplesOf(s)
	if err != nil {
		return nil, err
	}
	discovery, err := s.discovery()
	if err != nil {
		return nil, err
	}
	suggested, err := find[corev1.Namespace](s.manager, "Namespace", namespace)
	if err != nil {
		return nil, err
	}
	all := map[string]string{
		"alm-examples":   examples,
		"capabilities":   "Seamless Upgrades",
		"categories":     "Storage",
		"containerImage": o.image,
		"description": "Volumes of LVM on the disks of the cluster's nodes, with snapshots, clones, " +
			"expansion and redundancy.",
		"repository":    o.url,
		"support":       o.maintainer,
		"olm.skipRange": o.skipRange,
		"operatorframework.io/suggested-namespace": namespace,
		"operatorframework.io/suggested-namespace-template": text(map[string]any{"apiVersion": "v1",
			"kind": "Namespace", "metadata": map[string]any{"name": suggested.Name, "labels": suggested.Labels,
				"annotations": suggested.Annotations}}),
		// The first LVMCluster lists the devices, and uses none.
		"operatorframework.io/initialization-resource": text(discovery.Object),
		// The console's page for a new LVMCluster, which is the form of the plugin if that is enabled.
		"operatorframework.io/initialization-link": "/k8s/ns/" + namespace +
			"/lvm.topolvm.io~v1alpha1~LVMCluster/~new",
		"console.openshift.io/plugins": text([]string{consolePlugin}),
		"operators.operatorframework.io/internal-objects": text([]string{"logicalvolumes.topolvm.io",
			"lvmvolumegroups.lvm.topolvm.io", "lvmvolumegroupnodestatuses.lvm.topolvm.io"}),
		"operators.operatorframework.io/operator-type": "standalone",
		"operator.openshift.io/uninstall-message": "Delete the LVMCluster first, and wait until it is gone: it waits " +
			"for the last volume, and removes the volume groups from the nodes. An operator that is uninstalled " +
			"before leaves agents and volume groups as they are, and takes them over when it is installed again.",
		// The platform's Prometheus scrapes the namespace, and the console proposes to enable this during installation.
		"operatorframework.io/cluster-monitoring":          "true",
		"console.openshift.io/operator-monitoring-default": "true",
		"features.operators.openshift.io/disconnected":     "true",
		"features.operators.openshift.io/fips-compliant":   strconv.FormatBool(o.fipsModule == moduleCertified),
		"features.operators.openshift.io/proxy-aware":      "false",
		"features.operators.openshift.io/tls-profiles":     "true",
		"features.operators.openshift.io/token-auth-aws":   "false",
		"features.operators.openshift.io/token-auth-azure": "false",
		"features.operators.openshift.io/token-auth-gcp":   "false",
		"features.operators.openshift.io/csi":              "true",
		"features.operators.openshift.io/cni":              "false",
		"features.operators.openshift.io/cnf":              "false",
	}
	if o.created != "" {
		all["createdAt"] = o.created
	}
	if o.mustGather != "" {
		all["operators.openshift.io/must-gather-image"] = o.mustGather
	}
	return all, nil
}

// text returns a value as JSON in one line.
func text(value any) string {
	data, err := json.Marshal(value)
	if err != nil {
		panic(fmt.Sprintf("%T as JSON: %v", value, err)) // All values are in this file.
	}
	return string(data)
}
