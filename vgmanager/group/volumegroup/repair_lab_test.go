//go:build lab

package volumegroup

import (
	"bytes"
	"crypto/rand"
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/lvm-storage/lvm-operator/api/v1alpha1"
	"github.com/lvm-storage/lvm-operator/test/lane"
	"github.com/lvm-storage/lvm-operator/test/nodelvm"
	"github.com/lvm-storage/lvm-operator/vgmanager/volume/engine"
)

// metadataBlock is the size of a block of thin metadata in bytes (drivers/md/dm-thin-metadata.h).
const metadataBlock = 4096

// damage is damage to the metadata of a thin pool.
type damage struct {
	name string
	// do changes the metadata, which is a list of blocks.
	do func(t *testing.T, blocks [][]byte)
	// reason is the reason in the status. repair is how the plan repairs the pool. loses: volumes are lost or damaged.
	reason string
	repair v1alpha1.ThinPoolRepair
	loses  bool
	// earlier: thin_repair 1.x returns to an earlier state of the metadata if it finds one.
	earlier bool
}

// A lost superblock is not among them: thin_dump 0.9.0, which Debian 12 has, crashes for some metadata without one.
var damages = []damage{
	{name: "needs a check", do: setNeedsCheck, reason: v1alpha1.ReasonThinPoolNeedsCheck,
		repair: v1alpha1.RepairClearCheck},
	{name: "space map", do: overwriteSpaceMap, reason: v1alpha1.ReasonThinPoolFailed, repair: v1alpha1.RepairRebuild},
	{name: "mappings", do: overwriteMappings, reason: v1alpha1.ReasonThinPoolFailed, repair: v1alpha1.RepairRebuild,
		loses: true},
	{name: "list of volumes", do: overwriteVolumeList, reason: v1alpha1.ReasonThinPoolFailed,
		repair: v1alpha1.RepairRebuild, loses: true, earlier: true},
}

// setNeedsCheck sets the flag that the kernel sets when it cannot write metadata.
func setNeedsCheck(t *testing.T, blocks [][]byte) {
	superblock := blocks[0]
	if got := checksum(superblock); got != binary.LittleEndian.Uint32(superblock) {
		t.Fatalf("the checksum of the superblock is %x, want %x", binary.LittleEndian.Uint32(superblock), got)
	}
	binary.LittleEndian.PutUint32(superblock[4:], 1)
	binary.LittleEndian.PutUint32(superblock, checksum(superblock))
}

// checksum returns the checksum of a superblock (SUPERBLOCK_CSUM_XOR in drivers/md/dm-thin-metadata.c).
func checksum(superblock []byte) uint32 {
	return ^crc32.Checksum(superblock[4:], crc32.MakeTable(crc32.Castagnoli)) ^ 160774
}

// overwriteMappings overwrites a leaf of the mappings of a volume. Blocks that are no longer used can have earlier
// leaves, so it follows the tree.
func overwriteMappings(t *testing.T, blocks [][]byte) {
	const minMappings = 100
	// struct thin_disk_superblock: data_mapping_root is at 320. Its values are the roots of the mappings of each
	// volume.
	for _, root := range leafValues(blocks, binary.LittleEndian.Uint64(blocks[0][320:])) {
		for _, leaf := range leaves(blocks, root) {
			if binary.LittleEndian.Uint32(blocks[leaf][16:]) >= minMappings {
				scramble(t, blocks[leaf])
				return
			}
		}
	}
	t.Fatal("the metadata has no leaf with mappings")
}

// leaves returns the leaves of a tree (struct node_header in drivers/md/persistent-data/dm-btree-internal.h).
func leaves(blocks [][]byte, root uint64) []uint64 {
	const internal = 1
	if binary.LittleEndian.Uint32(blocks[root][4:]) != internal {
		return []uint64{root}
	}
	var list []uint64
	for _, child := range nodeValues(blocks[root]) {
		list = append(list, leaves(blocks, child)...)
	}
	return list
}

// leafValues returns the values of a tree.
func leafValues(blocks [][]byte, root uint64) []uint64 {
	var values []uint64
	for _, leaf := range leaves(blocks, root) {
		values = append(values, nodeValues(blocks[leaf])...)
	}
	return values
}

// nodeValues returns the values of a node, which are behind the space for its keys.
func nodeValues(node []byte) []uint64 {
	const header, size = 32, 8
	entries, space := binary.LittleEndian.Uint32(node[16:]), binary.LittleEndian.Uint32(node[20:])
	var values []uint64
	for i := range entries {
		values = append(values, binary.LittleEndian.Uint64(node[header+size*(space+i):]))
	}
	return values
}

// overwriteVolumeList overwrites the root of the tree that has the mappings of all volumes.
func overwriteVolumeList(t *testing.T, blocks [][]byte) {
	scramble(t, blocks[binary.LittleEndian.Uint64(blocks[0][320:])])
}

// overwriteSpaceMap overwrites the bitmaps of the used blocks, which thin_repair computes again.
func overwriteSpaceMap(t *testing.T, blocks [][]byte) {
	// struct thin_disk_superblock: data_space_map_root is at 64, with its bitmap_root at 16 (struct disk_sm_root).
	root := binary.LittleEndian.Uint64(blocks[0][64+16:])
	if root == 0 || root >= uint64(len(blocks)) {
		t.Fatalf("the space map is at block %d", root)
	}
	scramble(t, blocks[root])
}

func scramble(t *testing.T, b []byte) {
	if _, err := io.ReadFull(rand.Reader, b); err != nil {
		t.Fatal(err)
	}
}

// TestSceneThinPoolIsRepairedWithApproval damages the metadata of a pool. The plan must list exactly what is lost. The
// agent is killed after each command of the repair, and in the middle of it.
func TestSceneThinPoolIsRepairedWithApproval(t *testing.T) {
	type killing struct {
		damage
		mode string
	}
	var all []killing
	for _, mode := range []string{"after", "in the middle of"} {
		for _, d := range damages {
			all = append(all, killing{d, mode})
		}
	}
	for _, k := range lane.Cases(all...) {
		t.Run(fmt.Sprintf("%s, killed %s commands", k.name, k.mode), func(t *testing.T) { k.run(t, k.mode) })
	}
}

func (d damage) run(t *testing.T, mode string) {
	s := newScene(t, func(s *scene) v1alpha1.LVMVolumeGroupSpec {
		spec := thinOf(60)
		spec.DeviceSelector = byPath(s.disks[:2]...)
		return spec
	})
	s.ready()
	names := []string{"a", "b", "c"}
	before := map[string][]byte{}
	for _, name := range names {
		s.fill(s.volume(name, 48<<20), 48<<20)
		before[name] = s.content("/dev/vg1/" + name)
	}
	// A snapshot shares the mappings of its source.
	_, err := s.engine.CreateLVSnapshot(s.Context(), engine.NewSnapshot{Name: "d", Class: "vg1",
		Source: "a", ReadOnly: true})
	s.ok(err)
	s.sh("/usr/sbin/lvchange", "--activate", "y", "--ignoreactivationskip", "vg1/d")
	names, before["d"] = append(names, "d"), before["a"]
	if d.reason == v1alpha1.ReasonThinPoolFailed {
		s.installThinTools() // Without thin_check, LVM activates such a pool.
	}
	s.disaster()
	s.damageMetadata(d.do)
	s.says(v1alpha1.ConditionThinPoolHealthy, d.reason, "LVMRecovery", string(v1alpha1.RecoveryRepairThinPool))
	s.named()
	r := s.requestRepair()
	p := r.Status.Plan
	t.Logf("%s", r.Status.Message)
	if p.Repair != d.repair || (len(p.LostVolumes)+len(p.DamagedVolumes) > 0) != d.loses {
		t.Fatalf("got the plan %+v", p)
	}
	s.approve("wrong")
	for range 3 {
		s.agent.Wake()
		_, err := s.reconcile()
		s.ok(err)
	}
	if got := s.recovery(); got.Status.Phase != v1alpha1.RecoveryAwaitingApproval || got.Status.StartTime != nil {
		t.Fatalf("without an approval: %+v", got.Status)
	}
	s.approve(p.ID)
	// Each agent inspects the metadata again, so the next one must live longer.
	killed := s.recover(mode, func(n int) int { return n + 1 })
	t.Logf("killed %s %v", mode, killed)
	if len(killed) == 0 {
		t.Error("the agent was never killed: this shows nothing")
	}
	s.ready()
	earlier := strings.Contains(r.Status.Message, "earlier state")
	if earlier && !d.earlier {
		t.Errorf("the volumes are from an earlier state, but the present one can be read: %s", r.Status.Message)
	}
	for _, name := range names {
		if !earlier {
			s.wantPrediction(p, name, before[name])
		} else if lost := !s.exists(name); lost != isLost(p, name) {
			t.Errorf("volume %s: lost %t, predicted %t", name, lost, isLost(p, name))
		}
		err := s.engine.RemoveLV(s.Context(), "vg1", name)
		if err != nil && !strings.Contains(err.Error(), "not found") {
			t.Errorf("delete %s: %v", name, err)
		}
	}
	s.fill(s.volume("new", 32<<20), 32<<20)
	if d.repair == v1alpha1.RepairRebuild {
		s.sh("/usr/sbin/lvs", "vg1/pool_meta0")
	}
	s.discard()
}

// TestSceneBlankMetadataIsNotActivated overwrites the first block of the metadata with zeros. LVM does not check such
// metadata, and the kernel would write empty metadata over it.
func TestSceneBlankMetadataIsNotActivated(t *testing.T) {
	s := newScene(t, func(s *scene) v1alpha1.LVMVolumeGroupSpec {
		spec := thinOf(60)
		spec.DeviceSelector = byPath(s.disks[0])
		return spec
	})
	s.ready()
	sum := s.fill(s.volume("a", 48<<20), 48<<20)
	var first []byte
	s.damageMetadata(func(_ *testing.T, blocks [][]byte) {
		first = bytes.Clone(blocks[0])
		clear(blocks[0])
	})
	s.says(v1alpha1.ConditionThinPoolHealthy, v1alpha1.ReasonThinPoolFailed, string(v1alpha1.RecoveryRepairThinPool))
	for range 3 {
		s.boot()
		s.agent.Wake()
		_, err := s.reconcile()
		s.Logf("a new agent: %v", err)
		err = s.engine.RemoveLV(s.Context(), "vg1", "a")
		if err == nil {
			t.Error("a volume of the inactive pool was removed")
		}
		if err := s.engine.ActivateLV(s.Context(), "vg1", "a"); err == nil {
			t.Error("a volume of the inactive pool was activated")
		}
	}
	s.damageMetadata(func(t *testing.T, blocks [][]byte) {
		if !bytes.Equal(blocks[0], make([]byte, metadataBlock)) {
			t.Error("the metadata was written")
		}
		copy(blocks[0], first)
	})
	s.boot()
	s.ready()
	s.unchanged("/dev/vg1/a", sum)
	s.discard()
}

// TestSceneBlankMetadataIsNotActivatedWithoutADevice is the same while a device is missing of which the pool has no
// extent: LVM would activate the pool.
func TestSceneBlankMetadataIsNotActivatedWithoutADevice(t *testing.T) {
	s := newScene(t, func(s *scene) v1alpha1.LVMVolumeGroupSpec {
		spec := thinOf(60)
		spec.DeviceSelector = byPath(s.disks[0])
		return spec
	})
	s.ready()
	sum := s.fill(s.volume("a", 48<<20), 48<<20)
	s.sh("/usr/sbin/lvm", "vgextend", "vg1", s.disks[1])
	var first []byte
	s.damageMetadata(func(_ *testing.T, blocks [][]byte) {
		first = bytes.Clone(blocks[0])
		clear(blocks[0])
	})
	s.pull(s.disks[1])
	s.boot()
	s.says(v1alpha1.ConditionDevicesHealthy, v1alpha1.ReasonDeviceMissing)
	s.says(v1alpha1.ConditionThinPoolHealthy, v1alpha1.ReasonThinPoolFailed)
	rescan()
	s.damageMetadata(func(t *testing.T, blocks [][]byte) {
		if !bytes.Equal(blocks[0], make([]byte, metadataBlock)) {
			t.Error("the metadata was written")
		}
		copy(blocks[0], first)
	})
	s.boot()
	s.ready()
	s.unchanged("/dev/vg1/a", sum)
	s.discard()
}

// wantPrediction compares a volume with what the plan says of it.
func (s *scene) wantPrediction(p *v1alpha1.RecoveryPlan, name string, before []byte) {
	s.Helper()
	exists := s.exists(name)
	if exists == isLost(p, name) {
		s.Errorf("volume %s: lost %t, predicted %t", name, !exists, isLost(p, name))
	}
	if !exists {
		return
	}
	after := s.content("/dev/vg1/" + name)
	var lost int64
	const chunk = 64 << 10
	for at := 0; at < len(before); at += chunk {
		if bytes.Equal(before[at:at+chunk], after[at:at+chunk]) {
			continue
		}
		lost += chunk
		if !bytes.Equal(after[at:at+chunk], make([]byte, chunk)) {
			s.Errorf("volume %s has other data at %d", name, at)
		}
	}
	var predicted int64
	if at := slices.IndexFunc(p.DamagedVolumes, isNamed(name)); at >= 0 {
		predicted = p.DamagedVolumes[at].LostBytes
	}
	if lost != predicted {
		s.Errorf("volume %s lost %d bytes, predicted %d", name, lost, predicted)
	}
}

func isNamed(name string) func(v1alpha1.RecoveryVolume) bool {
	return func(v v1alpha1.RecoveryVolume) bool { return v.Name == name }
}

func isLost(p *v1alpha1.RecoveryPlan, name string) bool {
	return slices.ContainsFunc(p.LostVolumes, isNamed(name))
}

// exists returns true if LVM knows a volume.
func (s *scene) exists(name string) bool {
	s.Helper()
	_, err := nodelvm.Command("/usr/sbin/lvs", "vg1/"+name).CombinedOutput()
	return err == nil
}

func (s *scene) content(volume string) []byte {
	s.Helper()
	data, err := os.ReadFile(volume)
	s.ok(err)
	return data
}

// damageMetadata changes the metadata of the pool on the disk while the pool is inactive, as after a reboot.
func (s *scene) damageMetadata(do func(*testing.T, [][]byte)) {
	s.Helper()
	s.sh("/usr/sbin/lvm", "vgchange", "--activate", "n", "vg1")
	ranges := strings.TrimSpace(s.output("lvs", "--all", "--noheadings", "-o", "seg_pe_ranges",
		"vg1/pool_tmeta"))
	disk, extents, _ := strings.Cut(ranges, ":")
	first, last, _ := strings.Cut(extents, "-")
	start := s.number(s.output("pvs", "--noheadings", "--nosuffix", "--units", "b", "-o", "pe_start", disk))
	offset := start + s.number(first)*4<<20
	f, err := os.OpenFile(disk, os.O_RDWR|os.O_SYNC, 0)
	s.ok(err)
	defer func() { s.ok(f.Close()) }()
	data := make([]byte, (s.number(last)-s.number(first)+1)*4<<20)
	_, err = f.ReadAt(data, offset)
	s.ok(err)
	do(s.T, slices.Collect(slices.Chunk(data, metadataBlock)))
	_, err = f.WriteAt(data, offset)
	s.ok(err)
	s.sh("/usr/sbin/blockdev", "--flushbufs", disk)
}

// installThinTools installs the tools for thin pools if the node's flavor lacks them: it copies them from the machine,
// as if the administrator installed their package.
func (s *scene) installThinTools() {
	s.Helper()
	const all = "/usr/sbin/pdata_tools"
	if _, err := os.Stat(all); err == nil {
		return
	}
	machine := s.TempDir()
	s.ok(unix.Mount("hostfs", machine, "hostfs", unix.MS_RDONLY, filepath.Dir(all)))
	defer func() { s.ok(unix.Unmount(machine, 0)) }()
	s.sh("/usr/bin/cp", filepath.Join(machine, filepath.Base(all)), all)
	for _, tool := range []string{"check", "dump", "repair", "restore", "ls"} {
		s.ok(os.Symlink(filepath.Base(all), "/usr/sbin/thin_"+tool))
	}
}

func (s *scene) number(text string) int64 {
	s.Helper()
	n, err := strconv.ParseInt(strings.TrimSpace(text), 10, 64)
	s.ok(err)
	return n
}

// requestRepair requests the repair of the pool, and returns the recovery when it has a plan.
func (s *scene) requestRepair() *v1alpha1.LVMRecovery {
	s.Helper()
	return s.plan(v1alpha1.RecoveryRepairThinPool)
}

// repaired approves the plan of a repair, and waits for its end.
func (s *scene) repaired(r *v1alpha1.LVMRecovery) {
	s.Helper()
	s.approve(r.Status.Plan.ID)
	s.converge("repaired", func(v1alpha1.VGStatus) bool {
		return s.recovery().Status.Phase == v1alpha1.RecoverySucceeded
	})
}
