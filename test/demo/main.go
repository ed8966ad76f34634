// Command demo shows the main job of LVM Storage on a lab: blank disks become a volume to which a Pod writes, which
// grows while it is in use, and which is restored from a snapshot. It also shows the alert for a failed disk.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/lvm-storage/lvm-operator/test/lab"
	"github.com/lvm-storage/lvm-operator/test/olm"
	"github.com/lvm-storage/lvm-operator/test/prometheus"
	"github.com/lvm-storage/lvm-operator/test/story"
)

const (
	limit        = 40 * time.Minute
	namespace    = "demo"
	clusterName  = "my-lvmcluster"
	sample       = "config/samples/lvm_v1alpha1_lvmcluster.yaml"
	writerPod    = "writer"
	readerPod    = "reader"
	restoredPod  = "restored"
	snapshotName = "data-snapshot"
)

var (
	data     = story.Volume{Namespace: namespace, Name: "data", Class: "lvms-vg1", Size: "1Gi"}
	restored = story.Volume{Namespace: namespace, Name: "data-restored", Class: "lvms-vg1", Size: "2Gi",
		Snapshot: snapshotName}
)

func main() {
	name := flag.String("name", "demo", "name of the lab")
	image := flag.String("image", "", "OCI archive of the operator's image")
	version := flag.String("version", "", "version of the operator's image")
	keep := flag.String("keep-prometheus", "",
		"directory of a lab: only run its Prometheus until the lab stops")
	var c console
	flag.StringVar(&c.bridge, "bridge", "", "bridge program, which serves the console plugin for a browser")
	flag.StringVar(&c.plugin, "plugin", "", "server program of the console plugin")
	flag.StringVar(&c.host, "host", "", "directory with the page that loads the console plugin")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if *keep != "" {
		exit(keepPrometheus(ctx, *keep))
	}
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	exit(run(ctx, *name, *image, *version, c))
}

func exit(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, "demo:", err)
		os.Exit(1)
	}
	os.Exit(0)
}

func run(ctx context.Context, name, image, version string, c console) error {
	d := &demo{begin: time.Now(), version: version, console: c}
	if err := d.up(ctx, name); err != nil {
		return err
	}
	steps := []struct {
		what string
		do   func(context.Context) (string, error)
	}{
		{"clean what an earlier demo left in namespace " + namespace, d.clean},
		{"install the operator from a catalog, with OLM",
			func(ctx context.Context) (string, error) { return d.install(ctx, image) }},
		{"LVMCluster " + clusterName + " is Ready: " + sample, d.storage},
		{"a Pod of a 1Gi claim runs: class lvms-vg1", d.write},
		{"write 64 MiB, flushed", d.checksum},
		{"delete the Pod, read the data back in another", d.readBack},
		{"expand the volume to 2Gi while the Pod uses it", d.expand},
		{"take a VolumeSnapshot", func(ctx context.Context) (string, error) {
			return "",
				d.cluster.Snapshot(ctx, data, snapshotName)
		}},
		{"restore it into a second claim, read the same data", d.restore},
		{"let a disk fail, and see the alert in Prometheus", d.alerts},
	}
	for _, step := range steps {
		start := time.Now()
		result, err := step.do(ctx)
		if err != nil {
			return fmt.Errorf("%s: %w", step.what, err)
		}
		if result != "" {
			result = ": " + result
		}
		fmt.Printf("%6.1fs %s%s (%.1fs)\n", time.Since(d.begin).Seconds(), step.what, result,
			time.Since(start).Seconds())
	}
	return d.show(ctx, name)
}

type demo struct {
	begin   time.Time
	cluster *story.Cluster
	version string
	console console
	sum     string
	// authority has signed the certificates of the metrics.
	authority []byte
}

func (d *demo) up(ctx context.Context, name string) error {
	l, err := lab.Up(ctx, lab.Options{
		Name: name, Nodes: 2, Disks: []lab.DiskSpec{{Size: 8 * lab.GiB}, {Size: 8 * lab.GiB},
			{Kind: lab.SCSI, Size: lab.GiB}}, Snapshots: true, OLM: true, OpenShift: true,
		Detached: true, Progress: os.Stdout,
	})
	if err != nil {
		return err
	}
	if d.cluster, err = story.Open(l); err != nil {
		return err
	}
	return d.cluster.ApplyManifest(ctx, openShift)
}

// openShift has objects that OpenShift creates during its installation. The operator creates a ServiceMonitor only
// there.
const openShift = `
apiVersion: v1
kind: Namespace
metadata: {name: openshift-config-managed}
---
apiVersion: scheduling.k8s.io/v1
kind: PriorityClass
metadata: {name: openshift-user-critical}
value: 1000000000
`

// clean prepares a running lab for another demo.
func (d *demo) clean(ctx context.Context) (string, error) {
	for _, pod := range []string{writerPod, readerPod, restoredPod} {
		if err := d.cluster.StopPod(ctx, namespace, pod); err != nil {
			return "", err
		}
	}
	if err := d.cluster.RemoveSnapshot(ctx, namespace, snapshotName); err != nil {
		return "", err
	}
	if err := errors.Join(d.cluster.Unclaim(ctx, data), d.cluster.Unclaim(ctx, restored)); err != nil {
		return "", err
	}
	err := d.cluster.Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}})
	return "", client.IgnoreAlreadyExists(err)
}

// install publishes the operator, and subscribes to it.
func (d *demo) install(ctx context.Context, archive string) (string, error) {
	dir, err := os.MkdirTemp("", "demo-release-")
	if err != nil {
		return "", err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	publisher, err := olm.NewPublisher(ctx, d.cluster.Lab, dir, os.Stdout)
	if err != nil {
		return "", err
	}
	image, err := publisher.PublishImage(ctx, archive, d.version)
	if err != nil {
		return "", err
	}
	if err := publisher.Publish(ctx, olm.Release{Version: d.version, Image: image}); err != nil {
		return "", err
	}
	catalog, err := publisher.PublishCatalog(ctx)
	if err != nil {
		return "", err
	}
	cluster := olm.Cluster{Cluster: d.cluster}
	if err := cluster.Serve(ctx, catalog); err != nil {
		return "", err
	}
	if err := cluster.Subscribe(ctx, olm.OwnNamespace, "candidate"); err != nil {
		return "", err
	}
	if d.authority, err = prometheus.Trust(ctx, d.cluster); err != nil {
		return "", err
	}
	return "version " + d.version, cluster.WaitInstalled(ctx, d.version)
}

func (d *demo) storage(ctx context.Context) (string, error) {
	if err := d.cluster.ApplyFile(ctx, sample); err != nil {
		return "", err
	}
	ctx, cancel := context.WithTimeout(ctx, story.Soon)
	defer cancel()
	return "", d.cluster.WaitReady(ctx, clusterName)
}

func (d *demo) write(ctx context.Context) (string, error) {
	if err := d.cluster.Claim(ctx, data); err != nil {
		return "", err
	}
	return "", d.cluster.StartPod(ctx, data, writerPod)
}

func (d *demo) checksum(ctx context.Context) (string, error) {
	var err error
	d.sum, err = d.cluster.Write(ctx, data, writerPod)
	return "sha256 " + d.sum, err
}

func (d *demo) readBack(ctx context.Context) (string, error) {
	if err := d.cluster.StopPod(ctx, namespace, writerPod); err != nil {
		return "", err
	}
	if err := d.cluster.StartPod(ctx, data, readerPod); err != nil {
		return "", err
	}
	return d.same(ctx, data, readerPod)
}

func (d *demo) same(ctx context.Context, v story.Volume, pod string) (string, error) {
	sum, err := d.cluster.Checksum(ctx, v, pod)
	if err != nil {
		return "", err
	}
	if sum != d.sum {
		return "", fmt.Errorf("the data changed: sha256 %s was written and %s is read", d.sum, sum)
	}
	return "the same sha256", nil
}

func (d *demo) expand(ctx context.Context) (string, error) {
	size, err := d.cluster.Expand(ctx, data, readerPod, "2Gi")
	return fmt.Sprintf("the Pod sees %d MiB", size>>20), err
}

// restore restores the snapshot on its node, where it is there at once. The disk of the other node fails later.
func (d *demo) restore(ctx context.Context) (string, error) {
	reader := &corev1.Pod{}
	if err := d.cluster.Get(ctx, client.ObjectKey{Namespace: namespace, Name: readerPod}, reader); err != nil {
		return "", err
	}
	v := restored
	v.Node = reader.Spec.NodeName
	if err := d.cluster.Claim(ctx, v); err != nil {
		return "", err
	}
	if err := d.cluster.StartPod(ctx, v, restoredPod); err != nil {
		return "", err
	}
	return d.same(ctx, v, restoredPod)
}

// show prints the present objects.
func (d *demo) show(ctx context.Context, name string) error {
	for _, what := range []struct {
		title string
		args  []string
	}{
		{"LVMCluster", []string{"get", "lvmcluster", "-n", story.OperatorNamespace}},
		{"Volume groups, by node", []string{"get", "lvmcluster", clusterName, "-n", story.OperatorNamespace, "-o",
			`jsonpath={range .status.deviceClassStatuses[*].nodeStatus[*]}{.node}{"  "}{.name}{"  "}{.status}{"  size "}{.size}{"  free "}{.free}{"  devices "}{.devices}{"\n"}{end}`}},
		{"Claims and snapshots", []string{"get", "pvc,volumesnapshot,pod", "-n", namespace}},
	} {
		out, err := d.cluster.Kubectl(ctx, nil, what.args...)
		if err != nil {
			return err
		}
		fmt.Printf("\n%s\n%s\n", what.title, strings.TrimRight(out, "\n"))
	}
	for _, node := range d.cluster.Lab.Nodes() {
		out, err := node.Exec(ctx, "lvs", "-o", "lv_name,vg_name,lv_attr,lv_size,pool_lv,origin,data_percent")
		if err != nil {
			return err
		}
		fmt.Printf("\nlvs on %s\n%s\n", node.Name(), strings.TrimRight(out.Stdout, "\n"))
	}
	address, err := d.console.show(ctx, d.cluster.Lab.State())
	if err != nil {
		return fmt.Errorf("show the console's plugin: %w", err)
	}
	fmt.Printf(`
Done after %.0f s. The cluster runs on. Look around:
  %-46s the console's plugin, in a browser
  make lab-shell                                 a shell with kubectl
  make lab-kubectl ARGS="get lvmcluster -A"      one command
End it:
  make lab-down
`, time.Since(d.begin).Seconds(), address)
	if name != "demo" {
		fmt.Printf("(with LAB_NAME=%s)\n", name)
	}
	return nil
}
