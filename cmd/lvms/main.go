// Command lvms is LVM Storage. `lvms operator` is the operator of the cluster, `lvms vgmanager` is the agent of a node,
// `lvms lvmd` is the engine of a node for TopoLVM's own components, `lvms scheduler` is a scheduler extender,
// `lvms collect` reads a node for must-gather, `lvms rescue` copies a volume that can be read only in part, and
// `lvms probe` writes to a volume in a Pod that probes a node.
package main

import (
	"context"
	"crypto/tls"
	"errors"
	"flag"
	"fmt"
	"net"
	"os"
	"strconv"

	groupsnapshotv1 "github.com/kubernetes-csi/external-snapshotter/client/v8/apis/volumegroupsnapshot/v1"
	snapshotv1 "github.com/kubernetes-csi/external-snapshotter/client/v8/apis/volumesnapshot/v1"
	configv1 "github.com/openshift/api/config/v1"
	consolev1 "github.com/openshift/api/console/v1"
	operatorsv2 "github.com/operator-framework/api/pkg/operators/v2"
	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/runtime"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/klog/v2"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log/zap"
	"sigs.k8s.io/controller-runtime/pkg/metrics"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	earlierv1 "github.com/topolvm/topolvm/api/legacy/v1"
	topolvmv1 "github.com/topolvm/topolvm/api/v1"

	lvmv1alpha1 "github.com/lvm-storage/lvm-operator/api/v1alpha1"
	"github.com/lvm-storage/lvm-operator/controllers/nodeprobe"
	"github.com/lvm-storage/lvm-operator/internal/metrics/scrape"
	"github.com/lvm-storage/lvm-operator/internal/tls/servingcert"
	"github.com/lvm-storage/lvm-operator/internal/tls/tlsprofile"
	"github.com/lvm-storage/lvm-operator/internal/version"
	"github.com/lvm-storage/lvm-operator/vgmanager/machine/host"
	"github.com/lvm-storage/lvm-operator/vgmanager/outside/collect"
	"github.com/lvm-storage/lvm-operator/vgmanager/rescue"
	"github.com/lvm-storage/lvm-operator/vgmanager/volume/groupsnapshot"
)

var scheme = runtime.NewScheme()

func init() {
	utilruntime.Must(clientgoscheme.AddToScheme(scheme))
	utilruntime.Must(lvmv1alpha1.AddToScheme(scheme))
	utilruntime.Must(topolvmv1.AddToScheme(scheme))
	utilruntime.Must(earlierv1.AddToScheme(scheme))
	utilruntime.Must(snapshotv1.AddToScheme(scheme))
	utilruntime.Must(groupsnapshotv1.AddToScheme(scheme))
	utilruntime.Must(configv1.Install(scheme))
	utilruntime.Must(consolev1.Install(scheme))
	utilruntime.Must(operatorsv2.AddToScheme(scheme))
}

func main() {
	if err := command().Execute(); err != nil {
		fmt.Fprintln(os.Stderr, "lvms:", err)
		os.Exit(exitCode(err))
	}
}

// exitCode returns the exit code for an error.
func exitCode(err error) int {
	if partial := (*rescue.PartialError)(nil); errors.As(err, &partial) {
		return rescue.ExitPartial
	}
	return 1
}

func command() *cobra.Command {
	root := &cobra.Command{
		Use:           "lvms",
		Short:         "LVM Storage provides volumes on the local disks of a cluster's nodes",
		Version:       version.Full(),
		SilenceUsage:  true,
		SilenceErrors: true,
	}
	var logs zap.Options
	flags := flag.NewFlagSet("zap", flag.ContinueOnError)
	logs.BindFlags(flags)
	root.PersistentFlags().AddGoFlagSet(flags)
	root.PersistentPreRun = func(*cobra.Command, []string) {
		logger := zap.New(zap.UseFlagOptions(&logs))
		ctrl.SetLogger(logger)
		klog.SetLogger(logger)
		host.SetLogger(logger)
	}
	root.AddCommand(operatorCommand(), vgmanagerCommand(), lvmdCommand(), schedulerCommand(), collect.Command(),
		rescue.Command(), groupsnapshot.WatchdogCommand(), nodeprobe.Command())
	return root
}

// noMetrics turns the metrics server of a manager off, which does not limit its clients: addMetricsServer adds another.
var noMetrics = metricsserver.Options{BindAddress: "0"}

// addMetricsServer adds a metrics server with TLS, for clients that the API server authorizes. reader must read from
// the API server.
func addMetricsServer(ctx context.Context, mgr ctrl.Manager, address string, certificate servingcert.Source,
	profile *tlsprofile.Follower, reader client.Reader) error {
	server, err := scrape.NewServer(ctx, scrape.Options{
		Address: address,
		TLS:     []func(*tls.Config){profile.Configure, servingcert.Configure(certificate)},
		Reader:  reader,
		Config:  mgr.GetConfig(),
		HTTP:    mgr.GetHTTPClient(),
		Metrics: metrics.Registry,
	})
	if err != nil {
		return err
	}
	return mgr.Add(server)
}

// metricsCertificateHelp is the help of a flag of both programs.
const metricsCertificateHelp = "directory with tls.crt and tls.key for the metrics server; until they exist, the " +
	"certificate is self-signed"

// pprofAddress returns the address for profiles: on the Pod's loopback interface, or none for port 0. It has no
// authentication.
func pprofAddress(port uint16) string {
	if port == 0 {
		return "0"
	}
	return net.JoinHostPort("127.0.0.1", strconv.Itoa(int(port)))
}

// Environment variables that the Pod sets from its own metadata.
const (
	// namespaceVariable is an environment variable of `lvms operator`, `lvms vgmanager`: required; the namespace of the
	// Pod (`metadata.namespace`).
	namespaceVariable = "NAMESPACE"
	// podNameVariable is an environment variable of `lvms operator`: required; the name of the Pod (`metadata.name`).
	podNameVariable = "NAME"
	// nodeNameVariable is an environment variable of `lvms vgmanager`: required; the name of the Node
	// (`spec.nodeName`).
	nodeNameVariable = "NODE_NAME"
)

// environment returns the value of an environment variable that the Pod must set.
func environment(name string) (string, error) {
	if value := os.Getenv(name); value != "" {
		return value, nil
	}
	return "", fmt.Errorf("environment variable %s is not set: set it in the Pod from its metadata (downward API)",
		name)
}
