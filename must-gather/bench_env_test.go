//go:build env

package main

import (
	"archive/tar"
	"context"
	"fmt"
	"io"
	"os"
	"strings"
	"testing"
	"time"

	topolvmv1 "github.com/topolvm/topolvm/api/v1"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/lvm-storage/lvm-operator/api/v1alpha1"
	"github.com/lvm-storage/lvm-operator/must-gather/analyze"
	"github.com/lvm-storage/lvm-operator/must-gather/archive"
	"github.com/lvm-storage/lvm-operator/must-gather/cluster"
	"github.com/lvm-storage/lvm-operator/must-gather/nodes"
	"github.com/lvm-storage/lvm-operator/must-gather/redact"
	"github.com/lvm-storage/lvm-operator/test/env"
)

const (
	benchNodes  = 200
	volumesEach = 20
)

// BenchmarkGather measures the parts of a gathering of 200 nodes with 20 volumes each: objects from a real API server,
// simulated nodes (2 MB each, 3 s each, two that hang), and the analysis. `make bench NAME=gather` runs it.
func BenchmarkGather(b *testing.B) {
	server, err := env.Start()
	if err != nil {
		b.Fatal(err)
	}
	defer func() { _ = server.Stop() }()
	populate(b, server)
	for b.Loop() {
		out, err := archive.New(b.TempDir(), 500<<20, redact.Text)
		if err != nil {
			b.Fatal(err)
		}
		collector, err := cluster.New(server.Config, out, time.Time{})
		if err != nil {
			b.Fatal(err)
		}
		begun := time.Now()
		seen := collector.Objects(b.Context())
		objects := time.Since(begun)
		if len(seen.Nodes) != benchNodes || len(seen.LogicalVolumes) != benchNodes*volumesEach {
			b.Fatalf("%d nodes and %d volumes; %+v", len(seen.Nodes), len(seen.LogicalVolumes), out.Failures())
		}
		wanted, _ := (&gathering{}).wanted(seen, nil)
		begun = time.Now()
		nodes.Collect(b.Context(), played{}, wanted, out, nodes.Limit)
		read := time.Since(begun)
		if err := out.Account(nil); err != nil {
			b.Fatal(err)
		}
		begun = time.Now()
		facts, err := analyze.Load(os.DirFS(out.Root()), time.Now())
		if err != nil {
			b.Fatal(err)
		}
		summary := analyze.Summarize(facts)
		b.ReportMetric(time.Since(begun).Seconds(), "s/analysis")
		b.ReportMetric(objects.Seconds(), "s/objects")
		b.ReportMetric(read.Seconds(), "s/nodes")
		b.ReportMetric(float64((500<<20)-out.Room())/1e6, "MB")
		b.Logf("%s, %d findings, %d failures", summary.Verdict, len(summary.Findings), len(out.Failures().Failures))
	}
}

// played simulates nodes that take a while.
type played struct{}

var line = strings.Repeat(
	"2026-03-01T00:00:00+0000 node kernel: sd 0:0:0:0: [sda] something happened that is of no interest\n", 20000)

func (p played) Ways(node string) []nodes.Way {
	return []nodes.Way{{Name: "played", Read: func(ctx context.Context,
		out io.Writer) error {
		return p.read(ctx, node, out)
	}}}
}

func (played) read(ctx context.Context, node string, out io.Writer) error {
	if strings.HasSuffix(node, "77") {
		<-ctx.Done()
		return ctx.Err()
	}
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(3 * time.Second):
	}
	tape := tar.NewWriter(out)
	for name, content := range map[string]string{"journal-kernel.log": line, "collect.json": "{}"} {
		if err := tape.WriteHeader(&tar.Header{Name: name, Mode: 0o600, Size: int64(len(content)),
			Typeflag: tar.TypeReg}); err != nil {
			return err
		}
		if _, err := io.WriteString(tape, content); err != nil {
			return err
		}
	}
	return tape.Close()
}

func populate(b *testing.B, server *env.Env) {
	b.Helper()
	create := func(o client.Object) {
		if err := server.Client.Create(b.Context(), o); err != nil {
			b.Fatal(err)
		}
	}
	class := "lvms-vg1"
	create(&storagev1.StorageClass{ObjectMeta: metav1.ObjectMeta{Name: class}, Provisioner: "topolvm.io"})
	size := resource.MustParse("1Gi")
	for i := range benchNodes {
		name := fmt.Sprintf("node%03d", i)
		node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}}
		create(node)
		node.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}
		if err := server.Client.Status().Update(b.Context(), node); err != nil {
			b.Fatal(err)
		}
		status := &v1alpha1.LVMVolumeGroupNodeStatus{
			ObjectMeta: metav1.ObjectMeta{Namespace: env.Namespace, Name: name}}
		create(status)
		status.Status.NodeStatus = []v1alpha1.VGStatus{{Name: "vg1", Status: v1alpha1.VGStatusReady, Size: &size}}
		for d := range 12 {
			status.Status.Devices = append(status.Status.Devices,
				v1alpha1.DeviceStatus{Name: fmt.Sprintf("/dev/sd%c", 'a'+d), State: v1alpha1.DeviceExcluded,
					ByID: []string{"wwn-0x5000c500a1b2c3d4", "scsi-35000c500a1b2c3d4"}, Model: "A DISK OF SOME MODEL",
					Serial: "ABCDEFGHIJKL", Reasons: []v1alpha1.DeviceReason{{Code: "Mounted",
						Message: "has a mounted file system at /somewhere"}}})
		}
		if err := server.Client.Status().Update(b.Context(), status); err != nil {
			b.Fatal(err)
		}
		for v := range volumesEach {
			id := fmt.Sprintf("pvc-%03d-%02d", i, v)
			create(&topolvmv1.LogicalVolume{ObjectMeta: metav1.ObjectMeta{Name: id},
				Spec: topolvmv1.LogicalVolumeSpec{Name: id, NodeName: name, Size: size, DeviceClass: "vg1"}})
			create(&corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: id},
				Spec: corev1.PersistentVolumeClaimSpec{StorageClassName: &class, VolumeName: id,
					AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
					Resources: corev1.VolumeResourceRequirements{
						Requests: corev1.ResourceList{corev1.ResourceStorage: size}}}})
			create(&corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: id},
				Spec: corev1.PersistentVolumeSpec{Capacity: corev1.ResourceList{corev1.ResourceStorage: size},
					AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce}, StorageClassName: class,
					PersistentVolumeSource: corev1.PersistentVolumeSource{
						CSI: &corev1.CSIPersistentVolumeSource{Driver: "topolvm.io", VolumeHandle: id}}}})
		}
	}
}
