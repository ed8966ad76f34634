package guest

import (
	"context"
	"crypto/tls"
	"fmt"
	"net/http"
	"os/exec"
	"path/filepath"
	"sync"
	"time"

	"github.com/lvm-storage/lvm-operator/test/lab/internal/pki"
	"github.com/lvm-storage/lvm-operator/test/lab/internal/reap"
	"github.com/lvm-storage/lvm-operator/test/lab/internal/spec"
)

const (
	containerdSocket = "/run/containerd/containerd.sock"
	containerdLimit  = 3 * time.Minute
	restartPause     = time.Second
)

// services are the programs that are restarted when they end, as systemd does.
type services struct {
	mu      sync.Mutex
	stopped bool
	running map[string]*reap.Child
}

// stop ends the services and prevents restarts.
func (s *services) stop() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.stopped = true
}

// startKubernetes starts containerd immediately, and kubelet and kube-proxy when the API server answers.
func (m *machine) startKubernetes(ctx context.Context) error {
	files, err := m.kubernetesFiles()
	if err != nil {
		return err
	}
	for path, text := range files {
		if err := writeFile(path, text); err != nil {
			return err
		}
	}
	m.services = &services{running: map[string]*reap.Child{}}
	go m.keep("containerd", "containerd")
	if err := waitFor(containerdLimit, "containerd", func() bool { return exists(containerdSocket) }); err != nil {
		return err
	}
	m.say("containerd")
	if err := m.waitForAPIServer(ctx); err != nil {
		return err
	}
	m.say("API server answers")
	go m.keep("kubelet", "kubelet", "--config", "/etc/kubernetes/kubelet.yaml", "--kubeconfig",
		filepath.Join(m.Dir, "kubelet.kubeconfig"),
		"--hostname-override", m.Node.Name, "--node-ip", m.Node.IP(), "--root-dir", m.KubeletDir,
		"--housekeeping-interval", "1m")
	go m.keep("kube-proxy", "kube-proxy", "--kubeconfig", filepath.Join(m.Dir, "kube-proxy.kubeconfig"),
		"--hostname-override", m.Node.Name, "--cluster-cidr", spec.PodCIDR, "--proxy-mode", "iptables",
		"--conntrack-max-per-core", "0")
	return nil
}

// keep runs a program, and restarts it when it ends.
func (m *machine) keep(name, program string, args ...string) {
	for {
		child, err := m.startService(name, program, args)
		if err != nil {
			m.say("%s: %v", name, err)
			return
		}
		if child == nil {
			return
		}
		<-child.Done()
		m.say("%s ended with %d", name, child.ExitCode())
		time.Sleep(restartPause)
	}
}

func (m *machine) startService(name, program string, args []string) (*reap.Child, error) {
	log, err := m.log(name)
	if err != nil {
		return nil, err
	}
	defer func() { _ = log.Close() }()
	m.services.mu.Lock()
	defer m.services.mu.Unlock()
	if m.services.stopped {
		return nil, nil
	}
	cmd := exec.Command(program, args...)
	cmd.Stdout = log
	cmd.Stderr = log
	child, err := m.reaper.Start(cmd)
	if err == nil {
		m.services.running[name] = child
	}
	return child, err
}

// waitForAPIServer waits without a limit. The lab outside has the limit, and a restarted node may be up before the API
// server can be reached.
func (m *machine) waitForAPIServer(ctx context.Context) error {
	config, err := pki.TLS(m.Dir, "kubelet")
	if err != nil {
		return err
	}
	client := &http.Client{
		Timeout: 5 * time.Second,
		Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: config.RootCAs,
			Certificates: config.Certificates, MinVersion: tls.VersionTLS13}},
	}
	defer client.CloseIdleConnections()
	for {
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, "https://"+spec.APIServer+"/readyz", nil)
		if err != nil {
			return err
		}
		if resp, err := client.Do(req); err == nil {
			_ = resp.Body.Close()
			if resp.StatusCode == http.StatusOK {
				return nil
			}
		}
		time.Sleep(200 * time.Millisecond)
	}
}

// kubernetesFiles returns the configuration of containerd and the kubelet. They collect no statistics of containers for
// evictions and `kubectl top`: a node of the lab has a slow processor, and this was half of what it did at rest.
func (m *machine) kubernetesFiles() (map[string]string, error) {
	// OpenShift uses crun, and here it starts a container several times faster than runc
	runtime, err := exec.LookPath("ocirun")
	if err != nil {
		return nil, err
	}
	return map[string]string{
		"/etc/containerd/config.toml": fmt.Sprintf(`version = 3
root = %q
[plugins.'io.containerd.cri.v1.runtime']
  stats_collect_period = "1h"
  enable_selinux = %t
[plugins.'io.containerd.cri.v1.runtime'.cni]
  bin_dirs = ["/usr/lib/cni"]
[plugins.'io.containerd.cri.v1.runtime'.containerd.runtimes.runc]
  runtime_type = "io.containerd.runc.v2"
  [plugins.'io.containerd.cri.v1.runtime'.containerd.runtimes.runc.options]
    BinaryName = %q
    SystemdCgroup = false
[plugins.'io.containerd.cri.v1.images']
  stats_collect_period = 3600
  # without it a power cut soon after a pull leaves an image of empty files
  image_pull_with_sync_fs = true
[plugins.'io.containerd.cri.v1.images'.pinned_images]
  sandbox = "%s/pause:1"
[plugins.'io.containerd.cri.v1.images'.registry]
  config_path = "/etc/containerd/certs.d"
`, containerdDir, m.Flavor.SELinux, runtime, spec.Registry),
		"/etc/containerd/certs.d/" + spec.Registry +
			"/hosts.toml": fmt.Sprintf("server = \"https://%s\"\n[host.\"https://%s\"]\n  ca = %q\n",
			spec.Registry, spec.Registry, filepath.Join(m.Dir, "ca.crt")),
		// As in a disconnected cluster: images of that registry come from the mirror, and no other registry is
		// available.
		"/etc/containerd/certs.d/" + spec.Mirrored +
			"/hosts.toml": fmt.Sprintf(
			"server = \"https://%s\"\n[host.\"https://%s\"]\n  capabilities = [\"pull\", \"resolve\"]\n  ca = %q\n",
			spec.Mirrored, spec.Registry, filepath.Join(m.Dir, "ca.crt")),
		"/etc/cni/net.d/10-lab.conflist": fmt.Sprintf(`{"cniVersion":"1.0.0","name":"lab","plugins":[
 {"type":"bridge","bridge":"cni0","isGateway":true,"ipMasq":false,"hairpinMode":true,
  "ipam":{"type":"host-local","dataDir":"/run/cni","ranges":[[{"subnet":"%s"}]],"routes":[{"dst":"0.0.0.0/0"}]}},
 {"type":"portmap","capabilities":{"portMappings":true}}]}
`, m.Node.PodCIDR()),
		"/etc/kubernetes/kubelet.yaml": fmt.Sprintf(`apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
authentication:
  anonymous: {enabled: false}
  webhook: {enabled: true}
  x509: {clientCAFile: %[1]s/ca.crt}
tlsCertFile: %[1]s/kubelet.crt
tlsPrivateKeyFile: %[1]s/kubelet.key
cgroupDriver: cgroupfs
containerRuntimeEndpoint: unix://%[2]s
failSwapOn: false
enforceNodeAllocatable: []
imageGCHighThresholdPercent: 100
evictionHard: {memory.available: "0%%", nodefs.available: "0%%", nodefs.inodesFree: "0%%", imagefs.available: "0%%",
  imagefs.inodesFree: "0%%"}
localStorageCapacityIsolation: %[6]t
serializeImagePulls: false
nodeStatusUpdateFrequency: 2s
nodeStatusReportFrequency: 1m
crashLoopBackOff: {maxContainerRestartPeriod: %[5]s}
clusterDNS: ["%[3]s"]
clusterDomain: %[4]s
%[7]s`, m.Dir, containerdSocket, spec.HostIP, spec.ClusterDomain, m.MaxRestartPeriod,
			m.VolumeStatistics, m.alphaFeatures()),
	}, nil
}

// alphaFeatures is the part of the kubelet's configuration by which it reports the health of volumes.
func (m *machine) alphaFeatures() string {
	if !m.AlphaFeatures {
		return ""
	}
	return "featureGates: {CSIVolumeHealth: true}\nvolumeStatsAggPeriod: 10s\n"
}
