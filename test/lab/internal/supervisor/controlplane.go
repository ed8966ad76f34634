package supervisor

import (
	"context"
	enc "encoding/base64"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/lvm-storage/lvm-operator/test/lab/internal/spec"
)

const (
	apiServerLimit = 5 * time.Minute
	etcdURL        = "http://127.0.0.1:2379"
	// etcdDir is the folder with the data of etcd, relative to the state folder.
	etcdDir = "etcd"
)

// Names of the components that are stopped while etcd is restored.
const (
	etcd              = "etcd"
	apiServer         = "apiserver"
	controllerManager = "controller-manager"
	scheduler         = "scheduler"
)

// The audit policy records the requests of Pods to the API server, except those of Kubernetes itself, so that tests can
// check which permissions they use.
const (
	auditPolicyFile = "audit-policy.yaml"
	auditPolicy     = `
apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived]
rules:
- {level: None, userGroups: ["system:serviceaccounts:kube-system"]}
- {level: Metadata, userGroups: ["system:serviceaccounts"]}
- {level: None}
`
)

func base64(data []byte) string { return enc.StdEncoding.EncodeToString(data) }

func cert(name string) string { return filepath.Join(spec.CertDir, name) }

// controlPlane starts etcd and the API server, and the other components when these answer.
func (s *supervisor) controlPlane(ctx context.Context) error {
	var err error
	if s.kube, err = newKube(spec.CertDir); err != nil {
		return err
	}
	if err := s.serveDNS(); err != nil {
		return fmt.Errorf("DNS: %w", err)
	}
	if err := os.WriteFile(auditPolicyFile, []byte(auditPolicy), 0o600); err != nil {
		return err
	}
	if err := s.startEtcd(); err != nil {
		return err
	}
	if err := s.startAPIServer(ctx); err != nil {
		return err
	}
	return s.startControllers()
}

func (s *supervisor) startEtcd() error {
	_, err := s.essential(etcd, "etcd", nil, "--data-dir", etcdDir, "--listen-client-urls", etcdURL,
		"--advertise-client-urls", etcdURL,
		"--listen-peer-urls", "http://127.0.0.1:2380", "--unsafe-no-fsync", "--log-level", "warn")
	return err
}

// startAPIServer starts the API server, and waits until it is ready.
func (s *supervisor) startAPIServer(ctx context.Context) error {
	args := []string{
		"--audit-policy-file", auditPolicyFile, "--audit-log-path", spec.AuditLog,
		"--etcd-servers", etcdURL,
		"--bind-address", spec.HostIP, "--advertise-address", spec.HostIP, "--secure-port", "6443",
		"--tls-cert-file", cert("apiserver.crt"), "--tls-private-key-file", cert("apiserver.key"),
		"--client-ca-file", cert("ca.crt"),
		"--kubelet-certificate-authority", cert("ca.crt"),
		"--kubelet-client-certificate", cert("kubelet-client.crt"), "--kubelet-client-key", cert("kubelet-client.key"),
		"--kubelet-preferred-address-types", "InternalIP",
		"--requestheader-client-ca-file", cert("ca.crt"), "--requestheader-allowed-names", "front-proxy",
		"--requestheader-username-headers", "X-Remote-User", "--requestheader-group-headers", "X-Remote-Group",
		"--requestheader-extra-headers-prefix", "X-Remote-Extra-",
		"--proxy-client-cert-file", cert("front-proxy.crt"), "--proxy-client-key-file", cert("front-proxy.key"),
		"--service-account-key-file", cert("sa.pub"), "--service-account-signing-key-file", cert("sa.key"),
		"--service-account-issuer", "https://kubernetes.default.svc." + spec.ClusterDomain,
		"--authorization-mode", "Node,RBAC", "--enable-admission-plugins", s.admissionPlugins(), "--allow-privileged",
		"--service-cluster-ip-range", spec.ServiceCIDR,
		// webhooks and aggregated APIs are reached at the addresses of Pods, because kube-proxy does not run here
		"--enable-aggregator-routing",
	}
	if s.AlphaFeatures {
		args = append(args, "--feature-gates", "CSIVolumeHealth=true,MutablePVNodeAffinity=true")
	}
	api, err := s.essential(apiServer, "kube-apiserver", nil, args...)
	if err != nil {
		return err
	}
	return api.await(ctx, "API server", apiServerLimit, s.kube.ready)
}

func (s *supervisor) startControllers() error {
	if _, err := s.essential(controllerManager, "kube-controller-manager", nil,
		"--kubeconfig", cert("controller-manager.kubeconfig"), "--leader-elect=false",
		"--use-service-account-credentials",
		"--service-account-private-key-file", cert("sa.key"), "--root-ca-file", cert("ca.crt"),
		"--cluster-signing-cert-file", cert("ca.crt"), "--cluster-signing-key-file", cert("ca.key"),
		// As on OpenShift. With the default of 20 per second, binding 50 claims takes longer than creating their
		// volumes.
		"--kube-api-qps=150", "--kube-api-burst=300",
		// every node's range is in its own network configuration, so that nodes can register in any order
		"--allocate-node-cidrs=false", "--cluster-cidr", spec.PodCIDR,
	); err != nil {
		return err
	}
	return s.startScheduler()
}

// schedulerConfig is the configuration of kube-scheduler with scheduler extenders. Flags that a file replaces have no
// effect with --config.
const schedulerConfig = `apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
leaderElection: {leaderElect: false}
clientConnection: {kubeconfig: %s}
extenders:
%s
`

const schedulerConfigFile = "scheduler.yaml"

func (s *supervisor) startScheduler() error {
	args := []string{"--kubeconfig", cert("scheduler.kubeconfig"), "--leader-elect=false"}
	if s.Extenders != "" {
		config := fmt.Sprintf(schedulerConfig, cert("scheduler.kubeconfig"), strings.TrimSpace(s.Extenders))
		if err := os.WriteFile(schedulerConfigFile, []byte(config), 0o600); err != nil {
			return err
		}
		args = []string{"--config", schedulerConfigFile}
	}
	_, err := s.essential(scheduler, "kube-scheduler", nil, args...)
	return err
}

// admissionPlugins returns the plugins that are enabled in addition to the defaults. On OpenShift, a user cannot block
// the deletion of an owner whose finalizers he has no permission to change.
func (s *supervisor) admissionPlugins() string {
	plugins := "NodeRestriction"
	if s.OpenShift {
		plugins += ",OwnerReferencesPermissionEnforcement"
	}
	return plugins
}
