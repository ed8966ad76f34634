package csinode

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/container-storage-interface/spec/lib/go/csi"
	topolvmv1 "github.com/topolvm/topolvm/api/v1"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/lvm-storage/lvm-operator/api/wellknown"
	"github.com/lvm-storage/lvm-operator/internal/volume/health"
	"github.com/lvm-storage/lvm-operator/test/kill"
	"github.com/lvm-storage/lvm-operator/test/memory"
	"github.com/lvm-storage/lvm-operator/vgmanager/csinode/mounter"
	"github.com/lvm-storage/lvm-operator/vgmanager/csinode/volume"
	"github.com/lvm-storage/lvm-operator/vgmanager/lvm"
)

// fakeVolumes is a node with one logical volume.
type fakeVolumes struct {
	lv        *lvm.LV
	err       error
	problems  []health.Condition
	tagErr    error
	activated int
	tagged    int // successful calls of TagLV
	// suspended are the suspended devices, and suspendedErr is why they could not be read.
	suspended    []string
	suspendedErr error
	points       *kill.Points // nil passes everything
	// uuid is that of the logical volume, and uuidErr is why it could not be read.
	uuid    string
	uuidErr error
}

func (f *fakeVolumes) UUID(context.Context, string, string) (string, error) { return f.uuid, f.uuidErr }

func (f *fakeVolumes) FindLV(_ context.Context, _, name string) (*lvm.LV, error) {
	if f.err == nil && f.lv.Name != name {
		return nil, status.Errorf(codes.NotFound, "no logical volume %s", name)
	}
	return &lvm.LV{
		Name: f.lv.Name, Major: f.lv.Major, Minor: f.lv.Minor,
		Tags: slices.Clone(f.lv.Tags),
		Size: f.lv.Size, Path: f.lv.Path, Attr: f.lv.Attr,
	}, f.err
}

func (f *fakeVolumes) ActivateLV(context.Context, string, string) error {
	f.activated++
	return f.points.Pass(func() error {
		f.lv.Attr = "-wi-a-----"
		f.lv.Major = 254
		f.lv.Minor = 7
		return nil
	}, nil)
}

func (f *fakeVolumes) TagLV(_ context.Context, _, _ string, add, remove []string) error {
	if f.tagErr != nil {
		return f.tagErr
	}
	return f.points.Pass(func() error {
		f.tagged++
		f.lv.Tags = slices.DeleteFunc(append(f.lv.Tags, add...),
			func(t string) bool { return slices.Contains(remove, t) })
		return nil
	}, nil)
}

func (f *fakeVolumes) SuspendedDevices(context.Context, string, string) ([]string, error) {
	return f.suspended, f.suspendedErr
}

func (f *fakeVolumes) Problems(context.Context, string, string) ([]health.Condition, error) {
	return f.problems, f.err
}

func (f *fakeVolumes) ClassProblems(context.Context) ([]health.Condition, error) {
	return f.problems, f.err
}

// fakeHost stores mounts by path.
type fakeHost struct {
	device mounter.Number
	found  mounter.Content
	isHeld bool
	// luks has the containers of the node. Of an encrypted volume, found is the decrypted content.
	luks   *fakeContainers
	errors map[string]error // by name of the method
	mounts map[string]mounter.Number
	// removed are the paths of removeMountPoint.
	removed []string
	// readOnly has the mount points that refuse writes.
	readOnly map[string]bool
	did      []string
	mkfs     string
	points   *kill.Points // nil passes everything
	// during, if set, is called while a program runs on the device: "format" or "check".
	during func(ctx context.Context, what string)
	// records has the volumes whose formatting has begun.
	records map[string]volume.Record
	// formats counts the runs of mkfs. usable is whether a Pod could have written.
	formats int
	usable  bool
	// isGrown: the file system has had the size of the device since the last mount.
	isGrown bool
}

func (f *fakeHost) do(what, detail string) error {
	f.did = append(f.did, what+detail)
	return f.errors[what]
}

func (f *fakeHost) Number(string) (mounter.Number, error) { return f.device, f.errors["number"] }
func (f *fakeHost) Probe(_ context.Context, path string) (mounter.Content, error) {
	if !strings.HasPrefix(path, "/dev/mapper/") && f.luks.holds() {
		return f.luks.header.content, f.errors["probe"]
	}
	return f.found, f.errors["probe"]
}

func (f *fakeHost) IsZero(string) (bool, error) {
	return f.found == mounter.Content{} && !f.luks.holds(), f.errors["isZero"]
}
func (f *fakeHost) Recorded(id string) (*volume.Record, error) {
	if r, there := f.records[id]; there {
		return &r, f.errors["recorded"]
	}
	return nil, f.errors["recorded"]
}
func (f *fakeHost) Record(id string, r volume.Record) error {
	return f.points.Pass(func() error {
		f.records[id] = r
		return f.errors["record"]
	}, func() { f.records[id] = recordOf("", true) }) // the file has no content yet
}
func (f *fakeHost) Forget(id string) error {
	if _, there := f.records[id]; !there {
		return f.errors["forget"]
	}
	return f.points.Pass(func() error {
		delete(f.records, id)
		return f.errors["forget"]
	}, nil)
}

// deviceAt returns the device that a mount of a source has.
func (f *fakeHost) deviceAt(source string) mounter.Number {
	if mounted, is := f.mounts[source]; is {
		return mounted
	}
	if strings.HasPrefix(source, "/dev/mapper/") {
		return mappedNumber
	}
	return f.device
}
func (f *fakeHost) Users(_ context.Context, number mounter.Number) string {
	return fmt.Sprintf("it is used by the users of %d:%d", number.Major, number.Minor)
}

func (f *fakeHost) Held(string) (bool, error) { return f.isHeld, f.errors["held"] }
func (f *fakeHost) run(ctx context.Context, what string) {
	if f.during != nil {
		f.during(ctx, what)
	}
}
func (f *fakeHost) Format(ctx context.Context, mkfs []string, _ string) error {
	f.run(ctx, "format")
	made := contentOf(strings.TrimPrefix(mkfs[0], "mkfs."))
	return f.points.Pass(func() error {
		err := f.do("format", " "+mkfs[0])
		f.mkfs = strings.Join(mkfs, " ")
		f.formats++
		f.found = made
		return err
	}, func() { f.found = made })
}
func (f *fakeHost) Check(ctx context.Context, _, fs string) error {
	f.run(ctx, "check")
	return f.points.Pass(func() error { return f.do("check", " "+fs) }, nil)
}
func (f *fakeHost) Mount(_ context.Context, source, target, fs string, options []string) error {
	return f.points.Pass(func() error {
		if err := f.do("mount", fmt.Sprintf(" %s %s", fs, strings.Join(options, ","))); err != nil {
			return err
		}
		f.mounts[target] = f.deviceAt(source)
		f.isGrown = f.isGrown && fs == ""
		f.readOnly[target] = slices.Contains(options, "ro")
		f.usable = true
		return nil
	}, func() {
		if slices.Contains(options, "bind") { // its other options follow in a second step
			f.mounts[target] = f.deviceAt(source)
		}
	})
}
func (f *fakeHost) SetReadOnly(_ context.Context, _, target string) error {
	return f.points.Pass(func() error {
		f.readOnly[target] = true
		return f.errors["setReadOnly"]
	}, nil)
}
func (f *fakeHost) Unmount(_ context.Context, path string) error {
	if _, there := f.mounts[path]; there {
		return f.points.Pass(func() error {
			delete(f.mounts, path)
			return f.do("unmount", "")
		}, nil)
	}
	return nil
}
func (f *fakeHost) RemoveMountPoint(path string) error {
	f.removed = append(f.removed, path)
	return f.errors["removeMountPoint"]
}
func (f *fakeHost) IsMountPoint(path string) (bool, error) {
	_, there := f.mounts[path]
	return there, f.errors["isMountPoint"]
}
func (f *fakeHost) Mounted(path string) (mounter.Number, error) {
	return f.mounts[path], f.errors["mounted"]
}
func (f *fakeHost) BackingDevice(path string) (mounter.Number, error) {
	return f.mounts[path], f.errors["backingDevice"]
}
func (f *fakeHost) MountPoints(number mounter.Number) ([]string, error) {
	var points []string
	for path, n := range f.mounts {
		if n == number {
			points = append(points, path)
		}
	}
	return points, f.errors["mountPoints"]
}
func (f *fakeHost) SameFileSystem(path string) ([]string, error) {
	number, there := f.mounts[path]
	if err := f.errors["sameFileSystem"]; err != nil || !there {
		return nil, err
	}
	return f.MountPoints(number)
}
func (f *fakeHost) SetMode(string, os.FileMode) error {
	return f.points.Pass(func() error { return f.do("setMode", "") }, nil)
}
func (f *fakeHost) Grow(_ context.Context, _, _ string, always bool) error {
	return f.points.Pass(func() error {
		err := f.do("grow", fmt.Sprint(" ", always))
		f.isGrown = err == nil
		return err
	}, nil)
}

type bench struct {
	*testing.T
	server  *NodeServer
	volumes *fakeVolumes
	host    *fakeHost
	luks    *fakeContainers
	api     client.Client
	staging string
	target  string
}

const (
	id = "8a6e"
	// ownUUID is the UUID of the logical volume.
	ownUUID = "Zq1TzR-ruWL-vSEr-Ixbd-VXvn-mBAc-hlyVNm"
)

func newBench(t *testing.T) *bench {
	t.Helper()
	object := &topolvmv1.LogicalVolume{
		ObjectMeta: metav1.ObjectMeta{Name: "pvc-1"},
		Spec:       topolvmv1.LogicalVolumeSpec{NodeName: "node1", DeviceClass: "vg1"},
		Status:     topolvmv1.LogicalVolumeStatus{VolumeID: id},
	}
	dir := t.TempDir()
	b := &bench{
		T: t, staging: filepath.Join(dir, "staging"), target: filepath.Join(dir, "target"),
		volumes: &fakeVolumes{uuid: ownUUID, lv: &lvm.LV{Name: id, Path: "/dev/vg1/" + id, Attr: "-wi-a-----",
			Major: 254, Minor: 7}},
		host: &fakeHost{device: mounter.Number{Major: 254, Minor: 7}, errors: map[string]error{},
			mounts: map[string]mounter.Number{}, readOnly: map[string]bool{}, records: map[string]volume.Record{}},
	}
	b.api = memory.Builder().WithObjects(object).Build()
	b.luks = &fakeContainers{host: b.host, errors: map[string]error{}}
	b.host.luks = b.luks
	b.server = newNodeServer(NodeOptions{Node: "node1", Volumes: b.volumes, Client: b.api, Live: b.api}, b.host, b.luks,
		b.host)
	return b
}

// rebuild replaces the node service by another one with its options and locks.
func (b *bench) rebuild(node system, c containers, records volume.Records) {
	b.server = newNodeServer(b.server.NodeOptions, node, c, records)
}

// contentOf returns the content of a device with a file system.
func contentOf(kind string) mounter.Content { return mounter.Content{Kind: kind, FileSystem: true} }

// recordOf returns the record of a logical volume whose formatting has begun.
func recordOf(uuid string, isNew bool) volume.Record { return volume.Record{UUID: uuid, IsNew: isNew} }

func capability(fs string, mode csi.VolumeCapability_AccessMode_Mode) *csi.VolumeCapability {
	return &csi.VolumeCapability{
		AccessType: &csi.VolumeCapability_Mount{Mount: &csi.VolumeCapability_MountVolume{FsType: fs,
			MountFlags: []string{"noatime"}}},
		AccessMode: &csi.VolumeCapability_AccessMode{Mode: mode},
	}
}

var writer = csi.VolumeCapability_AccessMode_SINGLE_NODE_WRITER

func (b *bench) stage(fs string, mode csi.VolumeCapability_AccessMode_Mode) error {
	b.host.did = nil
	_, err := b.server.NodeStageVolume(b.Context(),
		&csi.NodeStageVolumeRequest{VolumeId: id, StagingTargetPath: b.staging, VolumeCapability: capability(fs, mode)})
	return err
}

func (b *bench) wantCode(err error, code codes.Code, says ...string) {
	b.Helper()
	if status.Code(err) != code {
		b.Fatalf("got %v, want %s", err, code)
	}
	for _, s := range says {
		if !strings.Contains(err.Error(), s) {
			b.Errorf("%q should say %q", err, s)
		}
	}
}

func (b *bench) wantDid(want ...string) {
	b.Helper()
	if !slices.Equal(b.host.did, want) {
		b.Errorf("did %q, want %q", b.host.did, want)
	}
}

func TestDecide(t *testing.T) {
	formatted := []string{wellknown.FormattedTagPrefix + "ext4"}
	formatting := []string{wellknown.FormattingTagPrefix + "xfs"}
	for name, test := range map[string]struct {
		found    mounter.Content
		tags     []string
		want     string
		recorded bool
		readOnly bool
		code     codes.Code
		decision decision
	}{
		"new":                          {decision: decision{"ext4", true}},
		"new, xfs":                     {want: "xfs", decision: decision{"xfs", true}},
		"new, of a kind not supported": {want: "vfat", code: codes.InvalidArgument},
		"new, read-only":               {readOnly: true, code: codes.FailedPrecondition},
		"used": {found: contentOf("ext4"), tags: formatted, want: "ext4",
			decision: decision{"ext4", false}},
		"used by an older version": {found: contentOf("xfs"), want: "xfs", decision: decision{"xfs", false}},
		"used, no kind asked for":  {found: contentOf("xfs"), decision: decision{"xfs", false}},
		"used, another kind":       {found: contentOf("xfs"), want: "ext4", code: codes.FailedPrecondition},
		"lost its file system":     {tags: formatted, want: "ext4", code: codes.DataLoss},
		"half formatted": {found: contentOf("xfs"), tags: formatting, want: "xfs",
			decision: decision{"xfs", true}},
		"half formatted, asks another": {found: contentOf("xfs"), tags: formatting, want: "ext4",
			decision: decision{"ext4", true}},
		"half formatted, unknown": {found: contentOf("xfs"), tags: formatting,
			decision: decision{"ext4", true}},
		"half formatted, recorded": {found: contentOf("xfs"), tags: []string{wellknown.NewTag}, recorded: true,
			want: "xfs", decision: decision{"xfs", true}},
		"new, with a file system": {found: contentOf("xfs"), tags: []string{wellknown.NewTag}, want: "xfs",
			decision: decision{"xfs", false}},
		"recorded and formatted": {found: contentOf("xfs"), tags: []string{wellknown.FormattedTagPrefix + "xfs"},
			recorded: true, want: "xfs", decision: decision{"xfs", false}},
		"both tags": {found: contentOf("ext4"), tags: append(formatting, formatted...),
			want: "ext4", decision: decision{"ext4", false}},
		"both tags and nothing on it": {tags: append(formatting, formatted...), want: "ext4", code: codes.DataLoss},
		"LUKS": {found: mounter.Content{Kind: "crypto_LUKS"}, want: "ext4",
			code: codes.FailedPrecondition},
		"a partition table": {found: mounter.Content{Kind: "a partition table (gpt)"}, code: codes.FailedPrecondition},
		"a RAID member":     {found: mounter.Content{Kind: "linux_raid_member"}, want: "xfs", code: codes.FailedPrecondition},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := decide(volume.Volume{ID: id, LV: &lvm.LV{Tags: test.tags},
				Recorded: test.recorded}, test.found, test.want, test.readOnly)
			if status.Code(err) != test.code || got != test.decision {
				t.Errorf("got %+v, %v", got, err)
			}
		})
	}
}

func TestStageFormatsOnce(t *testing.T) {
	b := newBench(t)
	b.wantCode(b.stage("ext4", writer), codes.OK)
	b.wantDid("format mkfs.ext4", "mount ext4 noatime", "setMode")
	if !slices.Equal(b.volumes.lv.Tags, []string{wellknown.FormattedTagPrefix + "ext4"}) {
		t.Errorf("got the tags %q", b.volumes.lv.Tags)
	}
	b.wantCode(b.stage("ext4", writer), codes.OK)
	b.wantDid("grow false")
	for range 2 {
		b.wantCode(b.stage("xfs", writer), codes.AlreadyExists, id, "ext4", "xfs is requested")
		b.wantDid()
	}

	b.unstage()
	b.wantCode(b.stage("ext4", writer), codes.OK)
	b.wantDid("check ext4", "mount ext4 noatime", "grow false")

	// The file system disappears, as when a disk returns zeros.
	b.unstage()
	b.host.found = mounter.Content{}
	b.wantCode(b.stage("ext4", writer), codes.DataLoss, id, "ext4")
	b.wantDid()
}

// TestGrowthIsRepeatedUntilItSucceeds: the mount stays after a failure, so the next call finds it.
func TestGrowthIsRepeatedUntilItSucceeds(t *testing.T) {
	b := newBench(t)
	b.host.found = contentOf("xfs")
	b.host.errors["grow"] = errors.New("xfs_growfs: exit status 1")
	b.wantCode(b.stage("xfs", writer), codes.Internal, id, "node1", "xfs_growfs")
	b.wantDid("check xfs", "mount xfs noatime,nouuid", "grow false")
	for range 2 {
		b.wantCode(b.stage("xfs", writer), codes.Internal, id, "node1", "xfs_growfs")
		b.wantDid("grow false")
	}
	b.host.errors["grow"] = nil
	for range 2 {
		b.wantCode(b.stage("xfs", writer), codes.OK)
		b.wantDid("grow false")
	}
	// A volume that is read only is not expanded, also if it is mounted.
	for range 2 {
		b.wantCode(b.stage("xfs", csi.VolumeCapability_AccessMode_SINGLE_NODE_READER_ONLY), codes.OK)
		b.wantDid()
	}
}

// TestAFoundFileSystemIsNoted checks that volumes from a takeover or an older version, which have no tag, are tagged:
// otherwise a later probe that finds them blank would format them.
func TestAFoundFileSystemIsNoted(t *testing.T) {
	formatted := []string{wellknown.FormattedTagPrefix + "xfs"}
	for name, prepare := range map[string]func(b *bench){
		"not mounted yet": func(*bench) {},
		"mounted before the agent was replaced": func(b *bench) {
			b.host.mounts[b.staging] = b.host.device
		},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t)
			b.host.found = contentOf("xfs")
			prepare(b)
			for range 2 {
				b.wantCode(b.stage("xfs", writer), codes.OK)
				if !slices.Equal(b.volumes.lv.Tags, formatted) {
					t.Fatalf("got the tags %q", b.volumes.lv.Tags)
				}
			}
			b.unstage()
			b.host.found = mounter.Content{}
			b.wantCode(b.stage("xfs", writer), codes.DataLoss, id, "xfs")
			b.wantDid()
		})
	}
	t.Run("mounted, and what it has cannot be read", func(t *testing.T) {
		b := newBench(t)
		b.host.mounts[b.staging], b.host.errors["probe"] = b.host.device, errors.New("input/output error")
		b.wantCode(b.stage("xfs", writer), codes.OK)
		if len(b.volumes.lv.Tags) != 0 {
			t.Errorf("got the tags %q", b.volumes.lv.Tags)
		}
	})
	t.Run("the note cannot be made", func(t *testing.T) {
		b := newBench(t)
		b.host.found, b.volumes.tagErr = contentOf("xfs"), status.Error(codes.Unavailable, "a disk is missing")
		b.wantCode(b.stage("xfs", writer), codes.OK) // The data exists: the volume is served, and tagged the next time.
		b.unstage()
		b.volumes.tagErr = nil
		b.wantCode(b.stage("xfs", writer), codes.OK)
		if !slices.Equal(b.volumes.lv.Tags, formatted) {
			t.Errorf("got the tags %q", b.volumes.lv.Tags)
		}
	})
}

// TestALongProgramOutlivesItsCall checks that programs may take longer than the kubelet's timeout of two minutes, as
// e2fsck of a large file system does.
func TestALongProgramOutlivesItsCall(t *testing.T) {
	for what, found := range map[string]mounter.Content{"format": {}, "check": {Kind: "ext4", FileSystem: true}} {
		for _, fails := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s fails=%t", what, fails), func(t *testing.T) {
				b := newBench(t)
				b.host.found = found
				if fails {
					b.host.errors[what] = errors.New("exit status 4")
				}
				runs := 0
				proceed := make(chan struct{})
				cut := make(chan struct{})
				ctx, endCall := context.WithCancel(t.Context())
				b.host.during = func(ctx context.Context, now string) {
					if now != what {
						return
					}
					if runs++; runs == 1 {
						endCall()
						select {
						case <-ctx.Done():
							close(cut)
						case <-proceed:
						}
					}
				}
				request := &csi.NodeStageVolumeRequest{
					VolumeId: id, StagingTargetPath: b.staging, VolumeCapability: capability("ext4", writer),
				}
				_, err := b.server.NodeStageVolume(ctx, request)
				b.wantCode(err, codes.Aborted, id, "node1", b.volumes.lv.Path)
				for range 2 {
					_, err = b.server.NodeStageVolume(t.Context(), request)
					b.wantCode(err, codes.Aborted, id, b.volumes.lv.Path, "since")
					_, err = b.server.NodeUnstageVolume(t.Context(),
						&csi.NodeUnstageVolumeRequest{VolumeId: id, StagingTargetPath: b.staging})
					b.wantCode(err, codes.Aborted, id)
				}
				close(proceed)
				for status.Code(err) == codes.Aborted {
					time.Sleep(time.Millisecond)
					_, err = b.server.NodeStageVolume(t.Context(), request)
				}
				select {
				case <-cut:
					t.Fatal("the program was ended with the call")
				default:
				}
				if !fails {
					b.wantCode(err, codes.OK)
				} else if status.Code(err) == codes.OK || !strings.Contains(err.Error(), "exit status 4") {
					t.Errorf("got %v, want what the program said", err)
				}
				if runs != 1 {
					t.Errorf("%s ran %d times", what, runs)
				}
				if fails { // The error is returned once; then the call retries.
					b.host.errors[what] = nil
					b.wantCode(b.stage("ext4", writer), codes.OK)
				}
			})
		}
	}
}

func (b *bench) unstage() {
	b.Helper()
	for range 2 {
		_, err := b.server.NodeUnstageVolume(b.Context(),
			&csi.NodeUnstageVolumeRequest{VolumeId: id, StagingTargetPath: b.staging})
		b.wantCode(err, codes.OK)
	}
}

// TestStageAfterACrash ends the agent after each step of the first use.
func TestStageAfterACrash(t *testing.T) {
	for _, at := range []string{"format", "mount", "setMode"} {
		t.Run(at, func(t *testing.T) {
			b := newBench(t)
			b.host.errors[at] = errors.New("killed")
			b.wantCode(b.stage("xfs", writer), codes.Internal, "node1", "killed")
			b.host.errors[at] = nil
			b.wantCode(b.stage("xfs", writer), codes.OK)
			if !slices.Equal(b.volumes.lv.Tags, []string{wellknown.FormattedTagPrefix + "xfs"}) ||
				!slices.Contains(b.host.did, "setMode") {
				t.Errorf("got the tags %q, did %q", b.volumes.lv.Tags, b.host.did)
			}
		})
	}
}

// TestAVolumeIsNotUsedBeforeItIsTagged: the record stays until the tag says that the file system is complete.
func TestAVolumeIsNotUsedBeforeItIsTagged(t *testing.T) {
	b := newBench(t)
	b.volumes.tagErr = status.Error(codes.Unavailable, "LVM is locked")
	for range 2 {
		b.wantCode(b.stage("ext4", writer), codes.Unavailable, "LVM is locked")
		if b.host.formats != 1 || len(b.host.records) != 1 {
			t.Errorf("formatted %d times, the records are %v", b.host.formats, b.host.records)
		}
	}
	b.volumes.tagErr = nil
	b.wantCode(b.stage("ext4", writer), codes.OK)
	if b.host.formats != 1 || len(b.host.records) != 0 {
		t.Errorf("formatted %d times, the records are %v", b.host.formats, b.host.records)
	}
}

func TestStageWhenTheReadFails(t *testing.T) {
	for _, name := range []string{"probe", "number", "mounted"} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t)
			b.host.errors[name] = errors.New("input/output error")
			b.wantCode(b.stage("ext4", writer), codes.Internal, id, "input/output error")
			b.wantDid()
		})
	}
	b := newBench(t)
	b.volumes.err = status.Error(codes.Unavailable, "volume group vg1 is not there")
	b.wantCode(b.stage("ext4", writer), codes.Unavailable, "vg1")
	b.wantDid()
}

func TestABrokenFileSystemIsNotMounted(t *testing.T) {
	b := newBench(t)
	b.host.found, b.host.errors["check"] = contentOf("ext4"), errors.New("UNEXPECTED INCONSISTENCY")
	b.wantCode(b.stage("ext4", writer), codes.FailedPrecondition, "UNEXPECTED INCONSISTENCY", id, "node1")
	b.wantDid("check ext4")
}

func TestStageOfAnInactiveVolume(t *testing.T) {
	b := newBench(t)
	b.volumes.lv.Attr = "-wi-------"
	b.volumes.lv.Major = 0
	b.volumes.lv.Minor = 0
	b.wantCode(b.stage("ext4", writer), codes.OK)
	if b.volumes.activated != 1 {
		t.Errorf("activated %d times", b.volumes.activated)
	}
}

func TestAPathThatLeadsElsewhereIsRefused(t *testing.T) {
	b := newBench(t)
	b.host.device = mounter.Number{Major: 254, Minor: 8}
	b.wantCode(b.stage("ext4", writer), codes.Internal, "254:8", "254:7")
	b.wantDid()
}

func TestReadOnly(t *testing.T) {
	b := newBench(t)
	b.host.found = contentOf("xfs")
	b.wantCode(b.stage("xfs", csi.VolumeCapability_AccessMode_SINGLE_NODE_READER_ONLY), codes.OK)
	b.wantDid("check xfs", "mount xfs noatime,nouuid,ro")
}

func (b *bench) publish(block, readOnly bool) error {
	b.host.did = nil
	c := capability("ext4", writer)
	if block {
		c.AccessType = &csi.VolumeCapability_Block{Block: &csi.VolumeCapability_BlockVolume{}}
	}
	_, err := b.server.NodePublishVolume(b.Context(), &csi.NodePublishVolumeRequest{
		VolumeId: id, StagingTargetPath: b.staging, TargetPath: b.target, VolumeCapability: c, Readonly: readOnly})
	return err
}

// An agent that ended between the two steps of a bind mount left a mount that accepts writes.
func TestAReadOnlyMountIsCompleted(t *testing.T) {
	b := newBench(t)
	b.wantCode(b.stage("ext4", writer), codes.OK)
	b.host.mounts[b.target] = b.host.device
	b.wantCode(b.publish(false, false), codes.OK)
	if b.host.readOnly[b.target] {
		t.Error("a volume that is not read-only was mounted read-only")
	}
	b.host.errors["setReadOnly"] = errors.New("device is busy")
	b.wantCode(b.publish(false, true), codes.Internal, "device is busy")
	b.host.errors["setReadOnly"] = nil
	for range 2 {
		b.wantCode(b.publish(false, true), codes.OK)
		if !b.host.readOnly[b.target] {
			t.Error("the mount accepts writes")
		}
	}
}

// If TopoLVM has mounted a volume for a Pod, the kubelet does not stage it for the next Pod.
func TestPublishOfAVolumeThatTopoLVMHasMounted(t *testing.T) {
	b := newBench(t)
	b.host.found = contentOf("ext4")
	b.host.mounts["/pods/1/mount"] = b.host.device
	b.wantCode(b.publish(false, false), codes.OK)
	b.wantDid("check ext4", "mount ext4 noatime", "grow false", "mount  bind")
	if b.host.mounts[b.staging] != b.host.device {
		t.Errorf("mounts %v: the volume is not staged", b.host.mounts)
	}
	b.wantCode(b.publish(false, false), codes.OK)
	b.wantDid()
}

// A Pod never writes to the node's own disk.
func TestNothingIsPublishedThatCannotBeStaged(t *testing.T) {
	for _, name := range []string{"probe", "mount"} {
		b := newBench(t)
		b.host.errors[name] = errors.New("input/output error")
		b.wantCode(b.publish(false, false), codes.Internal, "input/output error")
		if _, err := os.Stat(b.target); err == nil {
			t.Errorf("%s: there is a folder that a Pod could write to", name)
		}
	}
	b := newBench(t)
	b.host.mounts[b.staging] = mounter.Number{Major: 8, Minor: 1}
	b.wantCode(b.publish(false, false), codes.FailedPrecondition, "is not mounted")
	b.wantDid()
}

func TestPublish(t *testing.T) {
	b := newBench(t)
	b.wantCode(b.stage("ext4", writer), codes.OK)
	b.wantCode(b.publish(false, true), codes.OK)
	b.wantDid("mount  bind,ro")
	b.wantCode(b.publish(false, true), codes.OK)
	b.wantDid()
	b.host.mounts[b.target] = mounter.Number{Major: 8, Minor: 1}
	b.wantCode(b.publish(false, false), codes.Internal, "8:1")
	for range 2 {
		_, err := b.server.NodeUnpublishVolume(t.Context(),
			&csi.NodeUnpublishVolumeRequest{VolumeId: id, TargetPath: b.target})
		b.wantCode(err, codes.OK)
	}
}

func TestPublishOfABlockVolume(t *testing.T) {
	b := newBench(t)
	b.wantCode(b.publish(true, false), codes.OK)
	b.wantDid("mount  bind")
	b.wantCode(b.publish(true, false), codes.OK)
	b.wantDid()
}

func TestTwoCallsForOneVolume(t *testing.T) {
	b := newBench(t)
	if err := b.server.Locks.Enter(id); err != nil {
		t.Fatal(err)
	}
	b.wantCode(b.stage("ext4", writer), codes.Aborted, id)
	b.wantCode(b.publish(false, false), codes.Aborted, id)
	if err := b.server.Locks.Enter("another"); err != nil {
		t.Errorf("another volume waits: %v", err)
	}
	b.server.Locks.Leave(id)
	b.wantCode(b.stage("ext4", writer), codes.OK)
}

func TestExpand(t *testing.T) {
	b := newBench(t)
	b.wantCode(b.stage("ext4", writer), codes.OK)
	expand := func(path string) error {
		b.host.did = nil
		_, err := b.server.NodeExpandVolume(t.Context(), &csi.NodeExpandVolumeRequest{VolumeId: id, VolumePath: path})
		return err
	}
	b.wantCode(expand(b.staging), codes.OK)
	b.wantDid("grow true")
	b.wantCode(expand(b.target), codes.FailedPrecondition, "0:0")
	b.wantDid()
}

func TestStats(t *testing.T) {
	b := newBench(t)
	stats := func(path string) (*csi.NodeGetVolumeStatsResponse, error) {
		return b.server.NodeGetVolumeStats(t.Context(), &csi.NodeGetVolumeStatsRequest{VolumeId: id, VolumePath: path})
	}
	got, err := stats(t.TempDir())
	b.wantCode(err, codes.OK)
	if len(got.Usage) == 0 || got.Usage[0].Total == 0 {
		t.Errorf("got %+v", got)
	}
	_, err = stats(filepath.Join(t.TempDir(), "none"))
	b.wantCode(err, codes.NotFound)
}

func TestStageOfANewVolume(t *testing.T) {
	for _, at := range []string{"", "format", "mount", "setMode"} {
		b := newBench(t)
		b.volumes.lv.Tags = []string{"lvms.uid=x", wellknown.NewTag}
		if at != "" {
			b.host.errors[at] = errors.New("killed")
			if err := b.stage("xfs", writer); err == nil {
				t.Fatal("no error")
			}
			if !slices.Equal(b.volumes.lv.Tags, []string{"lvms.uid=x", wellknown.NewTag}) ||
				b.host.records[id] != (recordOf(ownUUID, true)) {
				t.Errorf("killed at %s: the tags are %q, the records %v", at, b.volumes.lv.Tags, b.host.records)
			}
			delete(b.host.errors, at)
		}
		b.wantCode(b.stage("xfs", writer), codes.OK)
		if b.volumes.tagged != 1 || len(b.host.records) != 0 {
			t.Errorf("killed at %q: %d changes of tags, the records are %v", at, b.volumes.tagged, b.host.records)
		}
		if want := []string{"lvms.uid=x", wellknown.FormattedTagPrefix + "xfs"}; !slices.Equal(b.volumes.lv.Tags, want) {
			t.Errorf("killed at %q: the tags are %q", at, b.volumes.lv.Tags)
		}
		b.unstage()
		b.wantCode(b.stage("xfs", writer), codes.OK)
		if slices.ContainsFunc(b.host.did, func(d string) bool { return strings.HasPrefix(d, "format") }) {
			t.Errorf("killed at %q: formatted a second time: %q", at, b.host.did)
		}
	}
}

// TestAVolumeWithoutTheTagOfANewOneIsRecorded stages a blank volume of TopoLVM or an older version: no tag says that it
// is being formatted, because a snapshot would inherit it.
func TestAVolumeWithoutTheTagOfANewOneIsRecorded(t *testing.T) {
	b := newBench(t)
	b.host.errors["format"] = errors.New("killed")
	b.wantCode(b.stage("xfs", writer), codes.Internal, "killed")
	if len(b.volumes.lv.Tags) > 0 || b.host.records[id] != (recordOf(ownUUID, false)) {
		t.Errorf("the tags are %q, the records %v", b.volumes.lv.Tags, b.host.records)
	}
	delete(b.host.errors, "format")
	b.wantCode(b.stage("xfs", writer), codes.OK)
	b.wantDid("format mkfs.xfs", "mount xfs noatime,nouuid", "setMode")
	if len(b.host.records) > 0 {
		t.Errorf("the records are %v", b.host.records)
	}
	if !slices.Equal(b.volumes.lv.Tags, []string{wellknown.FormattedTagPrefix + "xfs"}) {
		t.Errorf("the tags are %q", b.volumes.lv.Tags)
	}
}

// TestARecordIsOfOneLogicalVolume has a volume with a file system, which may be incomplete.
func TestARecordIsOfOneLogicalVolume(t *testing.T) {
	isNew := []string{wellknown.NewTag}
	formatted := []string{wellknown.FormattedTagPrefix + "xfs"}
	for name, test := range map[string]struct {
		record  volume.Record
		tags    []string
		formats int
	}{
		"new":                      {recordOf(ownUUID, true), isNew, 1},
		"new, used since":          {recordOf(ownUUID, true), nil, 0},
		"not new":                  {recordOf(ownUUID, false), nil, 1},
		"another one":              {recordOf("other", false), nil, 0},
		"another new one":          {recordOf("other", true), isNew, 0},
		"complete":                 {recordOf(ownUUID, false), formatted, 0},
		"new, complete":            {recordOf(ownUUID, true), append(isNew, formatted...), 0},
		"an earlier version":       {recordOf("", true), isNew, 1},
		"an earlier version, used": {recordOf("", true), nil, 0},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t)
			b.host.found, b.host.records[id] = contentOf("xfs"), test.record
			b.volumes.lv.Tags = slices.Clone(test.tags)
			for range 2 {
				b.wantCode(b.stage("xfs", writer), codes.OK)
				if b.host.formats != test.formats || len(b.host.records) > 0 ||
					!slices.Equal(b.volumes.lv.Tags, formatted) {
					t.Errorf("formatted %d times, the records are %v, the tags %q", b.host.formats, b.host.records,
						b.volumes.lv.Tags)
				}
			}
		})
	}
}

// TestABlockVolumeHasNoRecord: what a Pod writes to it is not a partial file system.
func TestABlockVolumeHasNoRecord(t *testing.T) {
	for _, tags := range [][]string{{wellknown.NewTag}, nil} {
		b := newBench(t)
		b.volumes.lv.Tags = tags
		b.host.records[id] = recordOf(ownUUID, false)
		b.host.errors["forget"] = errors.New("read-only file system")
		b.wantCode(b.publish(true, false), codes.Internal, id, "node1", "read-only file system")
		if len(b.host.mounts) > 0 {
			t.Errorf("published %v", b.host.mounts)
		}
		delete(b.host.errors, "forget")
		for range 2 {
			b.wantCode(b.publish(true, false), codes.OK)
			if len(b.host.records) > 0 || len(b.volumes.lv.Tags) > 0 {
				t.Errorf("the records are %v, the tags %q", b.host.records, b.volumes.lv.Tags)
			}
		}
	}
}

// TestAVolumeThatIsHeldIsNotFormatted, and a volume that is being formatted cannot be held.
func TestAVolumeThatIsHeldIsNotFormatted(t *testing.T) {
	b := newBench(t)
	b.volumes.lv.Tags = []string{wellknown.NewTag}
	hold := func() (func(), error) { return b.server.HoldUnformatted(id, ownUUID, b.volumes.lv.Tags) }
	for range 2 {
		release, err := hold()
		b.wantCode(err, codes.OK)
		_, err = hold()
		b.wantCode(err, codes.Aborted, id)
		b.wantCode(b.stage("xfs", writer), codes.Aborted, id)
		b.wantDid()
		release()
	}
	b.host.errors["recorded"] = errors.New("input/output error")
	for range 2 {
		_, err := hold()
		b.wantCode(err, codes.Unavailable, id, "node1", "input/output error")
	}
	delete(b.host.errors, "recorded")
	b.host.errors["format"] = errors.New("killed")
	b.wantCode(b.stage("xfs", writer), codes.Internal, "killed")
	for range 2 {
		_, err := hold()
		b.wantCode(err, codes.Aborted, id, "node1", "not complete")
	}
	release, err := b.server.HoldUnformatted(id, "other", nil)
	b.wantCode(err, codes.OK)
	release()
	delete(b.host.errors, "format")
	b.wantCode(b.stage("xfs", writer), codes.OK)
	release, err = hold()
	b.wantCode(err, codes.OK)
	release()
}

// TestNothingIsFormattedWithoutARecord has a node whose records cannot be read, written or removed.
func TestNothingIsFormattedWithoutARecord(t *testing.T) {
	for _, tags := range [][]string{{wellknown.NewTag}, nil} {
		b := newBench(t)
		b.volumes.lv.Tags = tags
		b.volumes.uuidErr = status.Error(codes.Unavailable, "LVM is locked")
		b.wantCode(b.stage("xfs", writer), codes.Unavailable, id, "node1", "LVM is locked")
		b.host.records[id] = recordOf(ownUUID, true)
		b.wantCode(b.stage("xfs", writer), codes.Unavailable, id, "node1", "LVM is locked")
		if b.host.formats > 0 || len(b.host.mounts) > 0 || b.volumes.tagged > 0 {
			t.Errorf("without a UUID: did %q, and mounted %v", b.host.did, b.host.mounts)
		}
	}
	for _, at := range []string{"isZero", "recorded", "record"} {
		b := newBench(t)
		b.volumes.lv.Tags = []string{wellknown.NewTag}
		b.host.errors[at] = errors.New("input/output error")
		b.wantCode(b.stage("xfs", writer), codes.Internal, id, "node1", "input/output error")
		if b.host.formats > 0 || len(b.host.mounts) > 0 || b.volumes.tagged > 0 {
			t.Errorf("%s failed: did %q, and mounted %v", at, b.host.did, b.host.mounts)
		}
	}
	// A Pod does not get the volume before the record is removed: with it, restored metadata of a new volume would
	// permit the formatting of data.
	b := newBench(t)
	b.volumes.lv.Tags = []string{wellknown.NewTag}
	b.host.errors["forget"] = errors.New("read-only file system")
	for range 2 {
		b.wantCode(b.stage("xfs", writer), codes.Internal, id, "read-only file system")
	}
	b.host.errors["forget"] = nil
	b.wantCode(b.stage("xfs", writer), codes.OK)
}

func TestABlockVolumeIsNotNewAnyMoreWhenAPodHasIt(t *testing.T) {
	b := newBench(t)
	b.volumes.lv.Tags = []string{wellknown.NewTag, "lvms.uid=x"}
	b.volumes.tagErr = errors.New("LVM is busy")
	if err := b.publish(true, false); err == nil || len(b.host.mounts) > 0 {
		t.Errorf("got %v and %v", err, b.host.mounts)
	}
	b.volumes.tagErr = nil
	b.wantCode(b.publish(true, false), codes.OK)
	if !slices.Equal(b.volumes.lv.Tags, []string{"lvms.uid=x"}) {
		t.Errorf("got %q", b.volumes.lv.Tags)
	}
}

func TestMkfsOptions(t *testing.T) {
	b := newBench(t)
	_, err := b.server.NodeStageVolume(t.Context(),
		&csi.NodeStageVolumeRequest{VolumeId: id, StagingTargetPath: b.staging,
			VolumeCapability: capability("ext4", writer),
			VolumeContext:    map[string]string{wellknown.MkfsOptionsParameter: "-N 1000  -E lazy_itable_init=0"}})
	b.wantCode(err, codes.OK)
	if want := "mkfs.ext4 -q -F -m0 -b 4096 -N 1000 -E lazy_itable_init=0"; b.host.mkfs != want {
		t.Errorf("got %q, want %q", b.host.mkfs, want)
	}
	b = newBench(t)
	_, err = b.server.NodeStageVolume(t.Context(),
		&csi.NodeStageVolumeRequest{VolumeId: id, StagingTargetPath: b.staging,
			VolumeCapability: capability("ext4", writer),
			VolumeContext:    map[string]string{wellknown.MkfsOptionsParameter: "/dev/sda"}})
	b.wantCode(err, codes.InvalidArgument, "/dev/sda")
	if len(b.host.did) > 0 {
		t.Errorf("did %q", b.host.did)
	}
}

func TestASingleWriterIsSingle(t *testing.T) {
	b := newBench(t)
	single := capability("ext4", csi.VolumeCapability_AccessMode_SINGLE_NODE_SINGLE_WRITER)
	b.wantCode(b.stage("ext4", csi.VolumeCapability_AccessMode_SINGLE_NODE_SINGLE_WRITER), codes.OK)
	publish := func(target string) error {
		_, err := b.server.NodePublishVolume(t.Context(),
			&csi.NodePublishVolumeRequest{VolumeId: id, StagingTargetPath: b.staging, TargetPath: target,
				VolumeCapability: single})
		return err
	}
	b.wantCode(publish(b.target), codes.OK)
	b.wantCode(publish(b.target), codes.OK)
	b.wantCode(publish(b.target+"2"), codes.FailedPrecondition, b.target)
	b.host.errors["mountPoints"] = errors.New("unreadable")
	b.wantCode(publish(b.target+"2"), codes.Internal, "unreadable")
}

// LVM metadata from before the first use was restored: the tag marks the volume as new, but it has data.
func TestANewVolumeWithAFileSystemIsNotFormatted(t *testing.T) {
	b := newBench(t)
	b.volumes.lv.Tags = []string{wellknown.NewTag}
	b.host.found = contentOf("xfs")
	b.wantCode(b.stage("xfs", writer), codes.OK)
	formats := func(d string) bool { return strings.HasPrefix(d, "format") }
	noted := []string{wellknown.FormattedTagPrefix + "xfs"}
	if slices.ContainsFunc(b.host.did, formats) || !slices.Equal(b.volumes.lv.Tags, noted) {
		t.Errorf("did %q, the tags are %q", b.host.did, b.volumes.lv.Tags)
	}
	b = newBench(t)
	b.volumes.lv.Tags = []string{wellknown.NewTag}
	b.host.found = contentOf("ext4")
	b.wantCode(b.stage("xfs", writer), codes.FailedPrecondition, "ext4")
}
