package setup

import (
	"cmp"
	"fmt"

	"github.com/spf13/cobra"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/lvm-storage/lvm-operator/api/v1alpha1"
	"github.com/lvm-storage/lvm-operator/cli/session"
)

// defaultCluster is the name of the LVMCluster that init creates. The documentation uses the same.
const defaultCluster = "my-lvmcluster"

// fileFlags are the flags of init that need a file.
var fileFlags = []string{"class", "thin-pool", "default", "approve"}

// initCluster creates an LVMCluster without device classes, so that the node agents list the devices.
func initCluster(e *session.Environment, command *cobra.Command, f *initFlags) error {
	for _, flag := range fileFlags {
		if command.Flags().Changed(flag) {
			return fmt.Errorf("--%s needs the file of a review: run kubectl lvms discover, and give its file to init",
				flag)
		}
	}
	ctx := command.Context()
	s, err := e.Source(e.Namespace())
	if err != nil {
		return err
	}
	clusters, err := s.Clusters(ctx)
	if err != nil {
		return err
	}
	if len(clusters) > 0 {
		return fmt.Errorf("%s already exists, and a cluster can have only one: run kubectl lvms discover, and give "+
			"its file to init", clusterName(&clusters[0]))
	}
	cluster := &v1alpha1.LVMCluster{ObjectMeta: metav1.ObjectMeta{Name: defaultCluster,
		Namespace: cmp.Or(s.Namespace, session.DefaultNamespace)}}
	t := e.Terminal(command)
	for _, note := range s.Notes {
		fmt.Fprintln(t.ErrOut, "note:", note)
	}
	text := clusterName(cluster) + ` is created, without device classes:
- The operator runs a node agent on each node, which lists the devices. No device is changed.
`
	if f.IsDryRun() {
		fmt.Fprint(t.ErrOut, text)
		data, err := session.Manifest(cluster)
		if err != nil {
			return err
		}
		fmt.Fprint(t.Out, data)
		return nil
	}
	fmt.Fprint(t.Out, text)
	if err := t.Confirm(ctx, &f.Writing, "Create the LVMCluster?"); err != nil {
		return err
	}
	err = s.Client.Create(ctx, cluster)
	if apierrors.IsNotFound(err) {
		return fmt.Errorf("cannot create %s: give the namespace of the operator with -n: %w", clusterName(cluster), err)
	}
	if err != nil {
		return session.ExplainWrite(err, "create", session.ClustersResource, clusterName(cluster))
	}
	fmt.Fprintf(t.Out, "%s was created. When the node agents run, review the devices with kubectl lvms discover.\n",
		clusterName(cluster))
	return nil
}
