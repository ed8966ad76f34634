//go:build lab

package sanity

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"github.com/topolvm/topolvm"
	topolvmlvmd "github.com/topolvm/topolvm/pkg/lvmd"
	"github.com/topolvm/topolvm/pkg/lvmd/proto"
	"github.com/topolvm/topolvm/pkg/lvmd/types"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/log/zap"

	"github.com/lvm-storage/lvm-operator/vgmanager/disk/device"
	"github.com/lvm-storage/lvm-operator/vgmanager/lvm/lvmexec"
	"github.com/lvm-storage/lvm-operator/vgmanager/machine/devicemapper"
	"github.com/lvm-storage/lvm-operator/vgmanager/machine/host"
	"github.com/lvm-storage/lvm-operator/vgmanager/volume/engine"
)

// TestBenchVolumes compares, in one run on one node, the product's operations on a volume with plain LVM and mkfs
// commands, and with TopoLVM's own lvmd. `make bench NAME=volumes` prints its table. Machines are noisy, so the results are
// ratios of medians of interleaved samples, and the number of processes, which is exact. The test fails only if
// something does not work. Its parts are subtests: -test.run TestBenchVolumes/publish runs one.
func TestBenchVolumes(t *testing.T) {
	log.SetLogger(zap.New(zap.WriteTo(io.Discard)))
	b := newVolumeBench(t)
	for _, part := range []struct {
		name    string
		measure func()
	}{
		{"engine", func() { b.engineAgainstLVM("") }}, {"thick", b.thick}, {"publish", b.publish}, {"csi", b.csi},
		{"deletions", b.deletions}, {"burst", b.burst}, {"crowded", b.crowded}, {"disks", b.manyDisks},
	} {
		t.Run(part.name, func(t *testing.T) {
			b.T = t
			part.measure()
		})
	}
	fmt.Println(b.table())
}

const (
	samples    = 9
	sampleSize = 64 << 20
	burstSize  = 50
)

type volumeBench struct {
	*testing.T
	runner  *host.Local
	engine  *engine.Engine
	theirs  proto.LVServiceClient
	control csi.ControllerClient
	node    csi.NodeClient
	disk    string
	dir     string
	n       int
	rows    []benchRow
}

// benchRow is a row of the table.
type benchRow struct {
	what, goal   string
	bare         time.Duration
	ours, theirs float64 // ratios to bare
	processes    float64 // for each volume

}

func newVolumeBench(t *testing.T) *volumeBench {
	dir := t.TempDir()
	cluster := startCluster(t)
	storage := prepareDisks(t)
	runner := host.NewLocal()
	// The measured engine has its own LVM, so that its processes are counted separately from those of the preparation.
	measured := lvmexec.New(runner)
	for _, group := range []string{thinClass, thickClass} {
		measured.SetHealthy(group, true)
	}
	measured.ReadGroupsWith(device.New(runner).ReadPhysicalVolumes)
	measured.PoolsWith(engine.PoolsOf(devicemapper.New()))
	_ = storage
	s := startDriver(t, cluster, measured, dir)
	engine, err := engine.New(measured, devicemapper.New(), "")
	must(t, err)
	for _, class := range deviceClasses() {
		must(t, engine.Publish(class))
	}
	topolvmlvmd.SetLVMCommandPrefix([]string{"/usr/sbin/lvm"})
	var classes []*types.DeviceClass
	for _, class := range deviceClasses() {
		// The keys are the same.
		data, err := json.Marshal(class)
		must(t, err)
		theirs := &types.DeviceClass{}
		must(t, json.Unmarshal(data, theirs))
		classes = append(classes, theirs)
	}
	volumes, groups := topolvmlvmd.NewEmbeddedServiceClients(t.Context(), classes, nil)
	drain(t, groups)
	b := &volumeBench{T: t, runner: runner, engine: engine, theirs: volumes, dir: dir,
		disk: strings.Split(os.Getenv("LVMS_TEST_DISKS"), ",")[3]}
	b.control, b.node = csi.NewControllerClient(b.connect(s.controller)), csi.NewNodeClient(b.connect(s.node))
	return b
}

// drain receives the events of TopoLVM's lvmd after each change: without a receiver it blocks forever.
func drain(t *testing.T, groups proto.VGServiceClient) {
	watch, err := groups.Watch(t.Context(), &proto.Empty{})
	must(t, err)
	go func() {
		for {
			if _, err := watch.Recv(); err != nil {
				return
			}
		}
	}()
}

func (b *volumeBench) connect(socket string) *grpc.ClientConn {
	connection, err := grpc.NewClient("unix:"+socket, grpc.WithTransportCredentials(insecure.NewCredentials()))
	must(b.T, err)
	b.Cleanup(func() { must(b.T, connection.Close()) })
	return connection
}

func (b *volumeBench) name() string {
	b.n++
	return fmt.Sprintf("bench-%d", b.n)
}

// bare runs a command like an administrator.
func (b *volumeBench) bare(args ...string) {
	b.Helper()
	if out, err := exec.Command(args[0], args[1:]...).CombinedOutput(); err != nil {
		b.Fatalf("%s: %v\n%s", strings.Join(args, " "), err, out)
	}
}

func took(do func()) time.Duration {
	begun := time.Now()
	do()
	return time.Since(begun)
}

func median(list []time.Duration) time.Duration {
	slices.Sort(list)
	return list[len(list)/2]
}

// contestant is an implementation of an operation. prepare and clean are not measured.
type contestant struct {
	prepare func() string
	do      func(name string)
	clean   func(name string)
}

// compare takes interleaved samples, and returns the medians and the number of processes that the product started for
// each sample.
func (b *volumeBench) compare(contestants ...contestant) (medians []time.Duration, processes float64) {
	all := make([][]time.Duration, len(contestants))
	started := int64(0)
	for range samples {
		for i, c := range contestants {
			name := b.name()
			if c.prepare != nil {
				name = c.prepare()
			}
			before := b.runner.Started().Total()
			all[i] = append(all[i], took(func() { c.do(name) }))
			if i == 1 {
				started += int64(b.runner.Started().Total() - before)
			}
			if c.clean != nil {
				c.clean(name)
			}
		}
	}
	for _, list := range all {
		medians = append(medians, median(list))
	}
	return medians, float64(started) / samples
}

func (b *volumeBench) add(what, goal string, medians []time.Duration, processes float64) {
	row := benchRow{what: what, goal: goal, bare: medians[0], ours: ratio(medians[1], medians[0]), processes: processes}
	if len(medians) > 2 {
		row.theirs = ratio(medians[2], medians[0])
	}
	b.rows = append(b.rows, row)
	b.Logf("%s: bare %s, ours %.2f, TopoLVM's %.2f, %.1f processes", what, row.bare, row.ours, row.theirs, processes)
}

func ratio(a, b time.Duration) float64 { return float64(a) / float64(b) }

func (b *volumeBench) must(err error) {
	b.Helper()
	if err != nil {
		b.Fatal(err)
	}
}

// Methods to create and remove a thin volume.
func (b *volumeBench) bareCreate(name string) {
	b.bare("/usr/sbin/lvm", "lvcreate", "-T", thinClass+"/"+poolName, "-n", name, "-V", fmt.Sprint(sampleSize, "b"),
		"-W", "y", "-y")
}
func (b *volumeBench) bareRemove(name string) {
	b.bare("/usr/sbin/lvm", "lvremove", "-f", thinClass+"/"+name)
}
func (b *volumeBench) create(name string) {
	_, err := b.engine.CreateLV(b.Context(),
		engine.NewVolume{Name: name, Class: thinClass, Size: sampleSize, Tags: []string{"lvms.uid=" + name}})
	b.must(err)
}
func (b *volumeBench) remove(name string) {
	b.must(b.engine.RemoveLV(b.Context(), thinClass, name))
}
func (b *volumeBench) theirCreate(name string) {
	_, err := b.theirs.CreateLV(b.Context(),
		&proto.CreateLVRequest{Name: name, DeviceClass: thinClass, SizeBytes: sampleSize})
	b.must(err)
}
func (b *volumeBench) theirRemove(name string) {
	_, err := b.theirs.RemoveLV(b.Context(), &proto.RemoveLVRequest{Name: name, DeviceClass: thinClass})
	b.must(err)
}

// made creates a volume with the product, and refreshes the view, so that it is as current as on an idle node.
func (b *volumeBench) made() string {
	name := b.name()
	b.create(name)
	return name
}

// fresh refreshes the view, as the agent does once a minute: the plain commands change the group without the engine.
func (b *volumeBench) fresh(class string) string {
	_, err := b.engine.FreeBytes(b.Context(), class)
	b.must(err)
	return b.name()
}

func (b *volumeBench) engineAgainstLVM(where string) {
	b.fresh(thinClass)
	medians, processes := b.compare(
		contestant{do: b.bareCreate, clean: b.bareRemove},
		contestant{do: b.create, clean: b.remove},
		contestant{do: b.theirCreate, clean: b.theirRemove})
	b.add("create a thin volume"+where, "≤ 1.0", medians, processes)
	medians, processes = b.compare(
		contestant{prepare: b.made, do: b.bareRemove, clean: func(string) { b.seeRemoved() }},
		contestant{prepare: b.made, do: b.remove},
		contestant{prepare: b.made, do: b.theirRemove, clean: func(string) { b.seeRemoved() }})
	b.add("remove a thin volume"+where, "≤ 1.0", medians, processes)
	if where != "" {
		return
	}
	source := b.made()
	medians, processes = b.compare(
		contestant{
			do: func(name string) {
				b.bare("/usr/sbin/lvm", "lvcreate", "-s", "-k", "n", "-n", name, thinClass+"/"+source)
			},
			clean: b.bareRemove,
		},
		contestant{do: func(name string) {
			_, err := b.engine.CreateLVSnapshot(b.Context(),
				engine.NewSnapshot{Name: name, Class: thinClass, Source: source, ReadOnly: true})
			b.must(err)
		}, clean: b.remove},
		contestant{do: func(name string) {
			_, err := b.theirs.CreateLVSnapshot(b.Context(),
				&proto.CreateLVSnapshotRequest{Name: name, DeviceClass: thinClass, SourceVolume: source,
					AccessType: "ro", SizeBytes: sampleSize})
			b.must(err)
		}, clean: b.theirRemove})
	b.add("snapshot", "", medians, processes)
	b.remove(source)
	medians, processes = b.compare(
		contestant{prepare: b.made, do: func(name string) {
			b.bare("/usr/sbin/lvm", "lvextend", "-L", fmt.Sprint(2*sampleSize, "b"), thinClass+"/"+name)
		}, clean: b.remove},
		contestant{prepare: b.made, do: func(name string) {
			_, err := b.engine.ResizeLV(b.Context(), thinClass, name, 2*sampleSize)
			b.must(err)
		}, clean: b.remove},
		contestant{prepare: b.made, do: func(name string) {
			_, err := b.theirs.ResizeLV(b.Context(),
				&proto.ResizeLVRequest{Name: name, DeviceClass: thinClass, SizeBytes: 2 * sampleSize})
			b.must(err)
		}, clean: b.remove})
	b.add("expand to twice the size", "", medians, processes)
}

// seeRemoved lets the engine detect that others removed volumes in its view.
func (b *volumeBench) seeRemoved() {
	_, err := b.engine.FindLV(b.Context(), thinClass, "nosuch")
	if err == nil {
		b.Fatal("a volume that nobody made was found")
	}
}

func (b *volumeBench) thick() {
	create := func(name string) {
		_, err := b.engine.CreateLV(b.Context(),
			engine.NewVolume{Name: name, Class: thickClass, Size: sampleSize})
		b.must(err)
	}
	remove := func(name string) {
		b.must(b.engine.RemoveLV(b.Context(), thickClass, name))
	}
	bareRemove := func(name string) { b.bare("/usr/sbin/lvm", "lvremove", "-f", thickClass+"/"+name) }
	fresh := func() string { return b.fresh(thickClass) }
	their := func(name string) {
		_, err := b.theirs.CreateLV(b.Context(),
			&proto.CreateLVRequest{Name: name, DeviceClass: thickClass, SizeBytes: sampleSize})
		b.must(err)
	}
	medians, processes := b.compare(
		contestant{do: func(name string) {
			b.bare("/usr/sbin/lvm", "lvcreate", "-n", name, "-L", fmt.Sprint(sampleSize, "b"), "-W", "y",
				"-y", thickClass)
		}, clean: bareRemove},
		contestant{prepare: fresh, do: create, clean: remove},
		contestant{do: their, clean: bareRemove})
	b.add("create a thick volume", "≤ 1.0", medians, processes)
}

// publish compares the first use of a volume with mkfs and two mounts.
func (b *volumeBench) publish() {
	capability := &csi.VolumeCapability{
		AccessType: &csi.VolumeCapability_Mount{Mount: &csi.VolumeCapability_MountVolume{FsType: "ext4"}},
		AccessMode: &csi.VolumeCapability_AccessMode{Mode: csi.VolumeCapability_AccessMode_SINGLE_NODE_WRITER},
	}
	staging := func(name string) string { return filepath.Join(b.dir, name+"-staging") }
	target := func(name string) string { return filepath.Join(b.dir, name+"-target") }
	medians, processes := b.compare(
		contestant{
			prepare: b.made,
			do: func(name string) {
				b.must(os.Mkdir(staging(name), 0o700))
				b.must(os.Mkdir(target(name), 0o700))
				b.bare("/usr/sbin/mkfs.ext4", "-q", "-F", "-m0", "/dev/"+thinClass+"/"+name)
				b.bare("/usr/bin/mount", "/dev/"+thinClass+"/"+name, staging(name))
				b.bare("/usr/bin/mount", "--bind", staging(name), target(name))
			},
			clean: func(name string) {
				b.bare("/usr/bin/umount", target(name))
				b.bare("/usr/bin/umount", staging(name))
				b.remove(name)
			},
		},
		contestant{
			prepare: func() string { return b.csiCreate(b.name()) },
			do: func(id string) {
				_, err := b.node.NodeStageVolume(b.Context(),
					&csi.NodeStageVolumeRequest{VolumeId: id, StagingTargetPath: staging(id),
						VolumeCapability: capability})
				b.must(err)
				_, err = b.node.NodePublishVolume(b.Context(),
					&csi.NodePublishVolumeRequest{VolumeId: id, StagingTargetPath: staging(id), TargetPath: target(id),
						VolumeCapability: capability})
				b.must(err)
			},
			clean: func(id string) {
				_, err := b.node.NodeUnpublishVolume(b.Context(),
					&csi.NodeUnpublishVolumeRequest{VolumeId: id, TargetPath: target(id)})
				b.must(err)
				_, err = b.node.NodeUnstageVolume(b.Context(),
					&csi.NodeUnstageVolumeRequest{VolumeId: id, StagingTargetPath: staging(id)})
				b.must(err)
				b.csiDelete(id)
			},
		})
	b.add("stage and publish a new ext4 volume", "≤ 1.6", medians, processes)
}

func (b *volumeBench) csiCreate(name string) (id string) {
	response, err := b.control.CreateVolume(b.Context(), &csi.CreateVolumeRequest{
		Name: name, CapacityRange: &csi.CapacityRange{RequiredBytes: sampleSize},
		Parameters: map[string]string{topolvm.GetDeviceClassKey(): thinClass},
		VolumeCapabilities: []*csi.VolumeCapability{{
			AccessType: &csi.VolumeCapability_Mount{Mount: &csi.VolumeCapability_MountVolume{}},
			AccessMode: &csi.VolumeCapability_AccessMode{Mode: csi.VolumeCapability_AccessMode_SINGLE_NODE_WRITER},
		}},
	})
	if err != nil {
		b.Error(err)
		return ""
	}
	return response.GetVolume().GetVolumeId()
}

func (b *volumeBench) csiDelete(id string) {
	if _, err := b.control.DeleteVolume(b.Context(), &csi.DeleteVolumeRequest{VolumeId: id}); err != nil {
		b.Error(err)
	}
}

// csi measures the complete path: controller, API server, agent, LVM.
func (b *volumeBench) csi() {
	var id string
	medians, processes := b.compare(
		contestant{do: b.bareCreate, clean: b.bareRemove},
		contestant{do: func(name string) { id = b.csiCreate(name) }, clean: func(string) { b.csiDelete(id) }})
	b.add("CreateVolume until the response", "≤ 1.2", medians, processes)
	medians, processes = b.compare(
		contestant{prepare: b.made, do: b.bareRemove, clean: func(string) { b.seeRemoved() }},
		contestant{prepare: func() string { return b.csiCreate(b.name()) }, do: b.csiDelete})
	b.add("DeleteVolume until the response", "≤ 1.2", medians, processes)
}

// all calls a function for all names at the same time.
func all(names []string, do func(name string)) {
	var group sync.WaitGroup
	for _, name := range names {
		group.Go(func() { do(name) })
	}
	group.Wait()
}

func (b *volumeBench) many(do func(name string)) []string {
	var names []string
	for range burstSize {
		name := b.name()
		do(name)
		names = append(names, name)
	}
	return names
}

// deletions removes many volumes: the plain commands in a loop, and the others at the same time.
func (b *volumeBench) deletions() {
	names := b.many(b.create)
	bare := took(func() {
		for _, name := range names {
			b.bareRemove(name)
		}
	})
	b.seeRemoved()
	names = b.many(b.create)
	before := b.runner.Started().Total()
	ours := took(func() { all(names, b.remove) })
	processes := float64(b.runner.Started().Total()-before) / burstSize
	names = b.many(b.create)
	theirs := took(func() { all(names, b.theirRemove) })
	b.seeRemoved()
	b.add(fmt.Sprintf("%d removals at once", burstSize), "≤ 0.7", []time.Duration{bare, ours, theirs}, processes)
}

// burst creates many volumes at the same time on the complete path.
func (b *volumeBench) burst() {
	var names []string
	for range burstSize {
		names = append(names, b.name())
	}
	bare := took(func() {
		for _, name := range names {
			b.bareCreate(name)
		}
	})
	for _, name := range names {
		b.bareRemove(name)
	}
	var mu sync.Mutex
	var ids []string
	before := b.runner.Started().Total()
	ours := took(func() {
		all(names, func(name string) {
			id := b.csiCreate(name)
			mu.Lock()
			defer mu.Unlock()
			ids = append(ids, id)
		})
	})
	b.add(fmt.Sprintf("%d CreateVolume at once", burstSize), "≤ 1.0", []time.Duration{bare, ours},
		float64(b.runner.Started().Total()-before)/burstSize)
	names = b.many(b.create)
	bare = took(func() {
		for _, name := range names {
			b.bareRemove(name)
		}
	})
	b.seeRemoved()
	before = b.runner.Started().Total()
	ours = took(func() { all(ids, b.csiDelete) })
	b.add(fmt.Sprintf("%d DeleteVolume at once", burstSize), "≤ 0.7", []time.Duration{bare, ours},
		float64(b.runner.Started().Total()-before)/burstSize)
}

// crowded measures with 200 volumes in the group.
func (b *volumeBench) crowded() {
	var names []string
	for range 200 {
		name := b.name()
		b.create(name)
		names = append(names, name)
	}
	b.engineAgainstLVM(", 200 in the group")
	all(names, b.remove)
}

// manyDisks measures with 100 more disks on the node.
func (b *volumeBench) manyDisks() {
	const (
		disks   = 100
		sectors = 16 << 10
	)
	for i := range disks {
		b.bare("/usr/sbin/dmsetup", "create", fmt.Sprint("disk", i), "--table",
			fmt.Sprintf("0 %d linear %s %d", sectors, b.disk, (i+1)*sectors))
	}
	b.engineAgainstLVM(fmt.Sprintf(", %d disks on the node", disks))
	for i := range disks {
		b.bare("/usr/sbin/dmsetup", "remove", "--retry", fmt.Sprint("disk", i))
	}
}

// table returns the printed table in Markdown.
func (b *volumeBench) table() string {
	lines := []string{
		"", "| operation | bare command | LVMS ÷ bare | goal | TopoLVM's lvmd ÷ bare | processes of LVMS for each volume |",
		"|---|---|---|---|---|---|",
	}
	for _, r := range b.rows {
		theirs := "–"
		if r.theirs > 0 {
			theirs = fmt.Sprintf("%.2f", r.theirs)
		}
		lines = append(lines, fmt.Sprintf("| %s | %.0f ms | %.2f | %s | %s | %.2f |", r.what,
			float64(r.bare)/float64(time.Millisecond), r.ours, r.goal, theirs, r.processes))
	}
	return strings.Join(lines, "\n") + "\n"
}
