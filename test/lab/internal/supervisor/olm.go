package supervisor

import (
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/lvm-storage/lvm-operator/test/lab/internal/images"
	"github.com/lvm-storage/lvm-operator/test/lab/internal/spec"
)

// olmNamespace is the namespace of OLM and of global catalogs.
const olmNamespace = "olm"

// lifecycleManager starts the two operators of OLM next to the control plane, and pushes the images of their Pods. They
// log that they cannot both listen for metrics on the same port, which has no effect here.
func (s *supervisor) lifecycleManager(ctx context.Context) error {
	if err := s.kube.apply(ctx, "/api/v1/namespaces/"+olmNamespace,
		[]byte(`{"apiVersion":"v1","kind":"Namespace","metadata":{"name":"`+olmNamespace+`"}}`)); err != nil {
		return err
	}
	pusher := images.Pusher{CA: s.ca.PEM(), Dial: dialRegistry}
	if err := parallel(ctx, func(ctx context.Context) error {
		return s.pushPrograms(ctx, pusher, "opm", "opm", "grpc_health_probe")
	}, func(ctx context.Context) error {
		return s.pushPrograms(ctx, pusher, "olm-util", "cpb", "copy-content")
	}); err != nil {
		return err
	}
	if err := s.reachServices(); err != nil {
		return err
	}
	env := []string{"KUBECONFIG=" + cert("olm.kubeconfig"), "OPERATOR_NAMESPACE=" + olmNamespace,
		"OPERATOR_NAME=olm-operator"}
	if _, err := s.essential("olm", "olm", env, "--namespace", olmNamespace, "--writeStatusName", "",
		"--writePackageServerStatusName", ""); err != nil {
		return err
	}
	_, err := s.essential("catalog", "catalog", env, "--kubeconfig", cert("olm.kubeconfig"),
		"--namespace", olmNamespace,
		"--opmImage", spec.Registry+"/opm:1", "--util-image", spec.Registry+"/olm-util:1", "--interval", "30s")
	return err
}

// reachServices allows the processes next to the control plane to reach Services of the cluster, such as the API
// servers of catalogs: by name, and through the kube-proxy of the first node.
func (s *supervisor) reachServices() error {
	resolver := filepath.Join(spec.RunDir, "resolv.conf")
	if err := os.WriteFile(resolver, fmt.Appendf(nil, "nameserver %s\nsearch %s\n", spec.HostIP, spec.ClusterDomain),
		0o644); err != nil {
		return err
	}
	if err := unix.Mount(resolver, "/etc/resolv.conf", "", unix.MS_BIND, ""); err != nil {
		return fmt.Errorf("resolv.conf: %w", err)
	}
	_, services, err := net.ParseCIDR(spec.ServiceCIDR)
	if err != nil {
		return err
	}
	return netlink.RouteAdd(&netlink.Route{Dst: services, Gw: net.ParseIP(s.Nodes[0].IP())})
}

// pushPrograms pushes an image of busybox with programs in /bin.
func (s *supervisor) pushPrograms(ctx context.Context, pusher images.Pusher, name string, programs ...string) error {
	files := map[string]string{}
	for _, program := range programs {
		path, err := s.find(program)
		if err != nil {
			return err
		}
		files["bin/"+program] = path
	}
	return pushBuilt(ctx, pusher, name, func() (v1.Image, error) { return images.Busybox(s.Busybox, files) })
}
