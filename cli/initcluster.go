package cli

import (
	"cmp"
	"fmt"

	"github.com/spf13/cobra"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/lvm-storage/lvm-operator/api/v1alpha1"
)

// defaultCluster is the name of the LVMCluster that init creates. The documentation uses the same.
const defaultCluster = "my-lvmcluster"

// fileFlags are the flags of init that need a file.
var fileFlags = []string{"class", "thin-pool", "default", "approve"}

// initCluster creates an LVMCluster without device classes, so that the node agents list the devices.
func (e *environment) initCluster(command *cobra.Command, f *initFlags) error {
	for _, flag := range fileFlags {
		if command.Flags().Changed(flag) {
			return fmt.Errorf("--%s needs the file of a review: run kubectl lvms discover, and give its file to init",
				flag)
		}
	}
	ctx := command.Context()
	s, err := e.source(e.namespace())
	if err != nil {
		return err
	}
	clusters, err := s.clusters(ctx)
	if err != nil {
		return err
	}
	if len(clusters) > 0 {
		return fmt.Errorf("%s already exists, and a cluster can have only one: run kubectl lvms discover, and give "+
			"its file to init", clusterName(&clusters[0]))
	}
	cluster := &v1alpha1.LVMCluster{ObjectMeta: metav1.ObjectMeta{Name: defaultCluster,
		Namespace: cmp.Or(s.namespace, defaultNamespace)}}
	t := e.terminal(command)
	for _, note := range s.notes {
		fmt.Fprintln(t.errOut, "note:", note)
	}
	text := clusterName(cluster) + ` is created, without device classes:
- The operator runs a node agent on each node, which lists the devices. No device is changed.
`
	if f.isDryRun() {
		fmt.Fprint(t.errOut, text)
		data, err := manifest(cluster)
		if err != nil {
			return err
		}
		fmt.Fprint(t.out, data)
		return nil
	}
	fmt.Fprint(t.out, text)
	if err := t.confirm(ctx, &f.writing, "Create the LVMCluster?"); err != nil {
		return err
	}
	err = s.client.Create(ctx, cluster)
	if apierrors.IsNotFound(err) {
		return fmt.Errorf("cannot create %s: give the namespace of the operator with -n: %w", clusterName(cluster), err)
	}
	if err != nil {
		return explainWrite(err, "create", clustersResource, clusterName(cluster))
	}
	fmt.Fprintf(t.out, "%s was created. When the node agents run, review the devices with kubectl lvms discover.\n",
		clusterName(cluster))
	return nil
}
