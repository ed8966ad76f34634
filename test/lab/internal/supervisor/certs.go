package supervisor

import (
	"fmt"
	"os"
	"path/filepath"

	issuer "github.com/lvm-storage/lvm-operator/internal/tls/pki"
	"github.com/lvm-storage/lvm-operator/test/lab/internal/pki"
	"github.com/lvm-storage/lvm-operator/test/lab/internal/spec"
)

const masters = "system:masters"

// certificates creates the lab's authority, and a certificate for each client and server.
func (s *supervisor) certificates() error {
	ca, err := pki.New("lab-" + s.Name)
	if err != nil {
		return err
	}
	s.ca = ca
	if err := s.trust(spec.CertDir); err != nil {
		return err
	}
	private, public, err := pki.ServiceAccountKeys()
	if err != nil {
		return err
	}
	// The controller manager signs the certificates that users request.
	authority, err := ca.Key()
	if err != nil {
		return err
	}
	for name, data := range map[string][]byte{"sa.key": private, "sa.pub": public, "ca.key": authority} {
		if err := os.WriteFile(filepath.Join(spec.CertDir, name), data, 0o600); err != nil {
			return err
		}
	}
	kubernetes := []string{"kubernetes", "kubernetes.default", "kubernetes.default.svc",
		"kubernetes.default.svc." + spec.ClusterDomain}
	for name, request := range map[string]pki.Request{
		"apiserver": {User: "kube-apiserver",
			Hosts: append(kubernetes, spec.HostIP, spec.ServiceIP, "localhost", "127.0.0.1")},
		"registry":            {User: "registry", Hosts: []string{spec.RegistryHost, spec.HostIP}},
		"admin":               {User: "admin", Groups: []string{masters}},
		"kubelet-client":      {User: "kube-apiserver-kubelet-client", Groups: []string{masters}},
		"front-proxy":         {User: "front-proxy"},
		"controller-manager":  {User: "system:kube-controller-manager"},
		"scheduler":           {User: "system:kube-scheduler"},
		"snapshot-controller": {User: "snapshot-controller", Groups: []string{masters}},
		"olm":                 {User: "olm", Groups: []string{masters}},
		"service-ca":          {User: "service-ca", Groups: []string{masters}},
		"prometheus-operator": {User: "prometheus-operator", Groups: []string{masters}},
	} {
		if err := s.issue(spec.CertDir, name, request); err != nil {
			return err
		}
	}
	return nil
}

// nodeCertificates writes a node's certificates into the node's own folder, so that a node has only its own.
func (s *supervisor) nodeCertificates(n spec.Node) error {
	dir := filepath.Join(spec.NodeDir(n.Name), spec.CertDir)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	if err := s.trust(dir); err != nil {
		return err
	}
	if err := s.issue(dir, "agent", pki.Request{User: n.Name, Hosts: []string{n.IP(), n.Name}}); err != nil {
		return err
	}
	if s.Bare {
		return nil
	}
	kubelet := pki.Request{User: "system:node:" + n.Name, Groups: []string{"system:nodes"},
		Hosts: []string{n.IP(), n.Name}}
	if err := s.issue(dir, "kubelet", kubelet); err != nil {
		return err
	}
	return s.issue(dir, "kube-proxy", pki.Request{User: "system:kube-proxy"})
}

func (s *supervisor) trust(dir string) error {
	return os.WriteFile(filepath.Join(dir, "ca.crt"), s.ca.PEM(), 0o644)
}

// issue writes a certificate, its key, and a kubeconfig that uses them.
func (s *supervisor) issue(dir, name string, request pki.Request) error {
	pair, err := s.ca.Issue(request)
	if err != nil {
		return err
	}
	if err := pki.Write(pair, dir, name); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, name+".kubeconfig"), s.kubeconfig(pair), 0o600)
}

func (s *supervisor) kubeconfig(pair issuer.Pair) []byte {
	return fmt.Appendf(nil, `apiVersion: v1
kind: Config
clusters: [{name: lab, cluster: {server: "https://%s", certificate-authority-data: %s}}]
users: [{name: user, user: {client-certificate-data: %s, client-key-data: %s}}]
contexts: [{name: lab, context: {cluster: lab, user: user}}]
current-context: lab
`, spec.APIServer, base64(s.ca.PEM()), base64(pair.Certificate), base64(pair.Key))
}
