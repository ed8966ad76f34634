//go:build lab

package sanity

import (
	"context"
	"maps"
	"os"
	"slices"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"github.com/topolvm/topolvm"
	"google.golang.org/protobuf/proto"
)

// call is a call of the scenario.
type call struct {
	name string
	do   func(context.Context, *subject) (proto.Message, error)
}

// scenario returns the calls, in order: what a cluster asks of a driver in the life of volumes, and what a driver must
// refuse.
func scenario() []call {
	return slices.Concat(offers(), creations(), refusals(), publications(), expansions(), snapshots(), removals())
}

func offers() []call {
	return []call{
		{"GetPluginInfo", func(ctx context.Context, d *subject) (proto.Message, error) {
			return d.identity.GetPluginInfo(ctx, &csi.GetPluginInfoRequest{})
		}},
		{"GetPluginCapabilities", func(ctx context.Context, d *subject) (proto.Message, error) {
			return d.identity.GetPluginCapabilities(ctx, &csi.GetPluginCapabilitiesRequest{})
		}},
		{"Probe", func(ctx context.Context, d *subject) (proto.Message, error) {
			return d.identity.Probe(ctx, &csi.ProbeRequest{})
		}},
		{"ControllerGetCapabilities", func(ctx context.Context, d *subject) (proto.Message, error) {
			return d.controller.ControllerGetCapabilities(ctx, &csi.ControllerGetCapabilitiesRequest{})
		}},
		{"NodeGetCapabilities", func(ctx context.Context, d *subject) (proto.Message, error) {
			return d.node.NodeGetCapabilities(ctx, &csi.NodeGetCapabilitiesRequest{})
		}},
		{"NodeGetInfo", func(ctx context.Context, d *subject) (proto.Message, error) {
			return d.node.NodeGetInfo(ctx, &csi.NodeGetInfoRequest{})
		}},
		capacityOf("GetCapacity of a thick class", thickClass, nodeName),
		capacityOf("GetCapacity of a node that does not exist", thickClass, "node9"),
		capacityOf("GetCapacity of a class that does not exist", "other", nodeName),
	}
}

func capacityOf(name, class, node string) call {
	return call{name, func(ctx context.Context, d *subject) (proto.Message, error) {
		return d.controller.GetCapacity(ctx, &csi.GetCapacityRequest{AccessibleTopology: onNode(node),
			Parameters: map[string]string{topolvm.GetDeviceClassKey(): class}})
	}}
}

func onNode(name string) *csi.Topology {
	return &csi.Topology{Segments: map[string]string{topolvm.GetTopologyNodeKey(): name}}
}

// mounted and block are the capabilities of a volume with one writer.
func mounted(fsType string) *csi.VolumeCapability {
	return &csi.VolumeCapability{
		AccessType: &csi.VolumeCapability_Mount{Mount: &csi.VolumeCapability_MountVolume{FsType: fsType}},
		AccessMode: &csi.VolumeCapability_AccessMode{Mode: csi.VolumeCapability_AccessMode_SINGLE_NODE_WRITER},
	}
}

func block() *csi.VolumeCapability {
	return &csi.VolumeCapability{
		AccessType: &csi.VolumeCapability_Block{Block: &csi.VolumeCapability_BlockVolume{}},
		AccessMode: &csi.VolumeCapability_AccessMode{Mode: csi.VolumeCapability_AccessMode_SINGLE_NODE_WRITER},
	}
}

// request returns the request of a volume with a file system on this node, with changes.
func request(name, class string, bytes int64, changes ...func(*csi.CreateVolumeRequest)) *csi.CreateVolumeRequest {
	r := &csi.CreateVolumeRequest{
		Name: name, CapacityRange: &csi.CapacityRange{RequiredBytes: bytes},
		VolumeCapabilities: []*csi.VolumeCapability{mounted("ext4")},
		Parameters:         map[string]string{topolvm.GetDeviceClassKey(): class},
		AccessibilityRequirements: &csi.TopologyRequirement{
			Requisite: []*csi.Topology{onNode(nodeName)}, Preferred: []*csi.Topology{onNode(nodeName)}},
	}
	for _, change := range changes {
		change(r)
	}
	return r
}

// create is a call that creates a volume.
func create(name string, r *csi.CreateVolumeRequest) call {
	return call{name, func(ctx context.Context, d *subject) (proto.Message, error) {
		answer, err := d.controller.CreateVolume(ctx, r)
		if err == nil {
			d.ids[r.GetName()] = answer.GetVolume().GetVolumeId()
		}
		return answer, err
	}}
}

const mib = 1 << 20

func creations() []call {
	return []call{
		create("CreateVolume", request("pvc-1", thinClass, volumeSize)),
		create("CreateVolume, again", request("pvc-1", thinClass, volumeSize)),
		create("CreateVolume, again with another size", request("pvc-1", thinClass, expandedSize)),
		create("CreateVolume in a thick class", request("pvc-2", thickClass, volumeSize)),
		create("CreateVolume of a block volume", request("pvc-3", thinClass, 100*mib,
			func(r *csi.CreateVolumeRequest) { r.VolumeCapabilities = []*csi.VolumeCapability{block()} })),
		create("CreateVolume with XFS", request("pvc-4", thinClass, volumeSize,
			func(r *csi.CreateVolumeRequest) { r.VolumeCapabilities = []*csi.VolumeCapability{mounted("xfs")} })),
		create("CreateVolume without a size", request("pvc-5", thinClass, 0)),
		create("CreateVolume of 1 byte", request("pvc-6", thinClass, 1)),
		create("CreateVolume of a size that is no multiple of an extent", request("pvc-7", thinClass, 50_000_001)),
		create("CreateVolume without a node", request("pvc-8", thickClass, 100*mib,
			func(r *csi.CreateVolumeRequest) { r.AccessibilityRequirements = nil })),
		create("CreateVolume with capital letters in the name", request("PVC-9", thinClass, 100*mib)),
	}
}

func refusals() []call {
	return []call{
		create("CreateVolume without a name", request("", thinClass, volumeSize)),
		create("CreateVolume without a capability", request("bad-1", thinClass, volumeSize,
			func(r *csi.CreateVolumeRequest) { r.VolumeCapabilities = nil })),
		create("CreateVolume for many nodes", request("bad-2", thinClass, volumeSize, func(r *csi.CreateVolumeRequest) {
			r.VolumeCapabilities[0].AccessMode.Mode = csi.VolumeCapability_AccessMode_MULTI_NODE_MULTI_WRITER
		})),
		create("CreateVolume with a size above the limit", request("bad-3", thinClass, volumeSize,
			func(r *csi.CreateVolumeRequest) { r.CapacityRange.LimitBytes = volumeSize - 4*mib })),
		create("CreateVolume with a negative size", request("bad-4", thinClass, -1)),
		create("CreateVolume with a limit below one extent", request("bad-5", thinClass, 0,
			func(r *csi.CreateVolumeRequest) { r.CapacityRange.LimitBytes = mib })),
		create("CreateVolume in a class that does not exist", request("bad-6", "other", volumeSize)),
		create("CreateVolume that does not fit", request("bad-7", thickClass, 1<<40)),
		create("CreateVolume without a node, that does not fit", request("bad-8", thickClass, 1<<40,
			func(r *csi.CreateVolumeRequest) { r.AccessibilityRequirements = nil })),
		create("CreateVolume with a topology that names no node", request("bad-9", thinClass, volumeSize,
			func(r *csi.CreateVolumeRequest) {
				r.AccessibilityRequirements = &csi.TopologyRequirement{Requisite: []*csi.Topology{
					{Segments: map[string]string{"zone": "a"}}}}
			})),
		validate("ValidateVolumeCapabilities", "pvc-1", mounted("ext4")),
		validate("ValidateVolumeCapabilities of a volume that does not exist", "none", mounted("ext4")),
		validate("ValidateVolumeCapabilities without a capability", "pvc-1"),
	}
}

func validate(name, volume string, capabilities ...*csi.VolumeCapability) call {
	return call{name, func(ctx context.Context, d *subject) (proto.Message, error) {
		return d.controller.ValidateVolumeCapabilities(ctx, &csi.ValidateVolumeCapabilitiesRequest{
			VolumeId: d.id(volume), VolumeCapabilities: capabilities})
	}}
}

// id returns the handle of a volume, or for one that was never created a text that no volume has.
func (d *subject) id(name string) string {
	if id, known := d.ids[name]; known {
		return id
	}
	return name
}

// publish is a call that publishes a volume, and stages it before if the driver has that.
func publish(name, volume, target string, readonly bool, capability *csi.VolumeCapability) call {
	return call{name, func(ctx context.Context, d *subject) (proto.Message, error) {
		if err := os.MkdirAll(d.under("targets"), 0o755); err != nil {
			return nil, err
		}
		path := d.under("targets", target)
		d.watch(path)
		if d.stages {
			staging := d.under("staging", volume)
			if err := os.MkdirAll(staging, 0o755); err != nil {
				return nil, err
			}
			if _, err := d.node.NodeStageVolume(ctx, &csi.NodeStageVolumeRequest{VolumeId: d.id(volume),
				StagingTargetPath: staging, VolumeCapability: capability}); err != nil {
				return nil, err
			}
		}
		return d.node.NodePublishVolume(ctx, &csi.NodePublishVolumeRequest{VolumeId: d.id(volume), TargetPath: path,
			StagingTargetPath: d.stagingOf(volume), VolumeCapability: capability, Readonly: readonly})
	}}
}

// stagingOf returns the staging path of a volume, which is empty if the driver does not stage.
func (d *subject) stagingOf(volume string) string {
	if d.stages {
		return d.under("staging", volume)
	}
	return ""
}

// watch adds a path whose mount is observed.
func (d *subject) watch(path string) {
	for _, known := range d.targets {
		if known == path {
			return
		}
	}
	d.targets = append(d.targets, path)
}

func unpublish(name, volume, target string) call {
	return call{name, func(ctx context.Context, d *subject) (proto.Message, error) {
		return d.node.NodeUnpublishVolume(ctx, &csi.NodeUnpublishVolumeRequest{VolumeId: d.id(volume),
			TargetPath: d.under("targets", target)})
	}}
}

// unstage is the call that unstages a volume, which a driver without that does not get.
func unstage(name, volume string) call {
	return call{name, func(ctx context.Context, d *subject) (proto.Message, error) {
		if !d.stages {
			return &csi.NodeUnstageVolumeResponse{}, nil
		}
		return d.node.NodeUnstageVolume(ctx, &csi.NodeUnstageVolumeRequest{VolumeId: d.id(volume),
			StagingTargetPath: d.stagingOf(volume)})
	}}
}

// write writes a file to a published volume, as a Pod does.
func write(name, target, content string) call {
	return call{name, func(_ context.Context, d *subject) (proto.Message, error) {
		return &csi.NodePublishVolumeResponse{}, os.WriteFile(d.under("targets", target, "file"), []byte(content), 0o600)
	}}
}

func statistics(name, volume, target string) call {
	return call{name, func(ctx context.Context, d *subject) (proto.Message, error) {
		return d.node.NodeGetVolumeStats(ctx, &csi.NodeGetVolumeStatsRequest{VolumeId: d.id(volume),
			VolumePath: d.under("targets", target)})
	}}
}

func publications() []call {
	return []call{
		publish("NodePublishVolume", "pvc-1", "pvc-1-a", false, mounted("ext4")),
		publish("NodePublishVolume, again", "pvc-1", "pvc-1-a", false, mounted("ext4")),
		write("a Pod writes", "pvc-1-a", "first"),
		{"a Pod changes the mode of its directory", func(_ context.Context, d *subject) (proto.Message, error) {
			return &csi.NodePublishVolumeResponse{}, os.Chmod(d.under("targets", "pvc-1-a"), 0o750)
		}},
		statistics("NodeGetVolumeStats", "pvc-1", "pvc-1-a"),
		statistics("NodeGetVolumeStats of a path that does not exist", "pvc-1", "none"),
		publish("NodePublishVolume to a second Pod, read-only", "pvc-1", "pvc-1-b", true, mounted("ext4")),
		unpublish("NodeUnpublishVolume of the second Pod", "pvc-1", "pvc-1-b"),
		publish("NodePublishVolume with another type of file system", "pvc-1", "pvc-1-c", false, mounted("xfs")),
		publish("NodePublishVolume with XFS", "pvc-4", "pvc-4", false, mounted("xfs")),
		publish("NodePublishVolume of a thick volume, without a type", "pvc-2", "pvc-2", false, mounted("")),
		publish("NodePublishVolume of a block volume", "pvc-3", "pvc-3", false, block()),
		publish("NodePublishVolume of a block volume, again", "pvc-3", "pvc-3", false, block()),
		statistics("NodeGetVolumeStats of a block volume", "pvc-3", "pvc-3"),
		publish("NodePublishVolume of a volume that does not exist", "none", "none", false, mounted("ext4")),
	}
}

func expand(name, volume string, bytes int64, capability *csi.VolumeCapability) call {
	return call{name, func(ctx context.Context, d *subject) (proto.Message, error) {
		return d.controller.ControllerExpandVolume(ctx, &csi.ControllerExpandVolumeRequest{VolumeId: d.id(volume),
			CapacityRange: &csi.CapacityRange{RequiredBytes: bytes}, VolumeCapability: capability})
	}}
}

func grow(name, volume, target string, bytes int64, capability *csi.VolumeCapability) call {
	return call{name, func(ctx context.Context, d *subject) (proto.Message, error) {
		return d.node.NodeExpandVolume(ctx, &csi.NodeExpandVolumeRequest{VolumeId: d.id(volume),
			VolumePath: d.under("targets", target), StagingTargetPath: d.stagingOf(volume),
			CapacityRange: &csi.CapacityRange{RequiredBytes: bytes}, VolumeCapability: capability})
	}}
}

func expansions() []call {
	return []call{
		expand("ControllerExpandVolume", "pvc-1", expandedSize, mounted("ext4")),
		grow("NodeExpandVolume", "pvc-1", "pvc-1-a", expandedSize, mounted("ext4")),
		expand("ControllerExpandVolume, again", "pvc-1", expandedSize, mounted("ext4")),
		expand("ControllerExpandVolume to less", "pvc-1", volumeSize, mounted("ext4")),
		expand("ControllerExpandVolume of a block volume", "pvc-3", 200*mib, block()),
		grow("NodeExpandVolume of a block volume", "pvc-3", "pvc-3", 200*mib, block()),
		expand("ControllerExpandVolume that does not fit", "pvc-2", 1<<40, mounted("ext4")),
		expand("ControllerExpandVolume after one that does not fit", "pvc-2", expandedSize, mounted("ext4")),
		grow("NodeExpandVolume of a thick volume", "pvc-2", "pvc-2", expandedSize, mounted("ext4")),
		expand("ControllerExpandVolume of a volume that does not exist", "none", expandedSize, mounted("ext4")),
	}
}

func snapshot(name, snapshot, source string) call {
	return call{name, func(ctx context.Context, d *subject) (proto.Message, error) {
		answer, err := d.controller.CreateSnapshot(ctx, &csi.CreateSnapshotRequest{Name: snapshot,
			SourceVolumeId: d.id(source)})
		if err == nil {
			d.ids[snapshot] = answer.GetSnapshot().GetSnapshotId()
		}
		return answer, err
	}}
}

// restore is a call that creates a volume from a snapshot, or from a volume.
func restore(name, volume, class, source string, bytes int64, fromSnapshot bool) call {
	return call{name, func(ctx context.Context, d *subject) (proto.Message, error) {
		content := &csi.VolumeContentSource{Type: &csi.VolumeContentSource_Volume{
			Volume: &csi.VolumeContentSource_VolumeSource{VolumeId: d.id(source)}}}
		if fromSnapshot {
			content = &csi.VolumeContentSource{Type: &csi.VolumeContentSource_Snapshot{
				Snapshot: &csi.VolumeContentSource_SnapshotSource{SnapshotId: d.id(source)}}}
		}
		return create(name, request(volume, class, bytes, func(r *csi.CreateVolumeRequest) {
			r.VolumeContentSource = content
		})).do(ctx, d)
	}}
}

func snapshots() []call {
	return []call{
		snapshot("CreateSnapshot", "snapshot-1", "pvc-1"),
		snapshot("CreateSnapshot, again", "snapshot-1", "pvc-1"),
		snapshot("CreateSnapshot, again of another volume", "snapshot-1", "pvc-4"),
		snapshot("CreateSnapshot of a volume that does not exist", "snapshot-2", "none"),
		snapshot("CreateSnapshot of a thick volume", "snapshot-3", "pvc-2"),
		write("a Pod writes after the snapshot", "pvc-1-a", "second"),
		restore("CreateVolume from a snapshot", "restored-1", thinClass, "snapshot-1", expandedSize, true),
		publish("NodePublishVolume of a restored volume", "restored-1", "restored-1", false, mounted("ext4")),
		restore("CreateVolume from a snapshot, larger", "restored-2", thinClass, "snapshot-1", 500*mib, true),
		publish("NodePublishVolume of a larger restored volume", "restored-2", "restored-2", false, mounted("ext4")),
		restore("CreateVolume from a snapshot, smaller", "bad-10", thinClass, "snapshot-1", volumeSize, true),
		restore("CreateVolume from a snapshot that does not exist", "bad-12", thinClass, "none", expandedSize, true),
		restore("CreateVolume from a volume", "clone-1", thinClass, "pvc-1", expandedSize, false),
		publish("NodePublishVolume of a clone", "clone-1", "clone-1", false, mounted("ext4")),
		restore("CreateVolume from a volume that does not exist", "bad-13", thinClass, "none", expandedSize, false),
	}
}

func remove(name, volume string) call {
	return call{name, func(ctx context.Context, d *subject) (proto.Message, error) {
		return d.controller.DeleteVolume(ctx, &csi.DeleteVolumeRequest{VolumeId: d.id(volume)})
	}}
}

func removeSnapshot(name, snapshot string) call {
	return call{name, func(ctx context.Context, d *subject) (proto.Message, error) {
		return d.controller.DeleteSnapshot(ctx, &csi.DeleteSnapshotRequest{SnapshotId: d.id(snapshot)})
	}}
}

func removals() []call {
	var all []call
	for _, p := range [][2]string{{"pvc-1", "pvc-1-c"}, {"pvc-1", "pvc-1-a"}, {"pvc-2", "pvc-2"}, {"pvc-4", "pvc-4"},
		{"restored-1", "restored-1"}, {"restored-2", "restored-2"}, {"clone-1", "clone-1"}} {
		all = append(all, unpublish("NodeUnpublishVolume of "+p[1], p[0], p[1]))
		if p[1] != "pvc-1-c" {
			all = append(all, unstage("NodeUnstageVolume of "+p[0], p[0]))
		}
	}
	all = append(all,
		unpublish("NodeUnpublishVolume of a block volume", "pvc-3", "pvc-3"),
		unpublish("NodeUnpublishVolume of a block volume, again", "pvc-3", "pvc-3"),
		unstage("NodeUnstageVolume of a block volume", "pvc-3"),
		unpublish("NodeUnpublishVolume, again", "pvc-1", "pvc-1-a"),
		remove("DeleteVolume of the source of a snapshot", "pvc-1"),
		remove("DeleteVolume, again", "pvc-1"),
		remove("DeleteVolume without a handle", ""),
		removeSnapshot("DeleteSnapshot", "snapshot-1"),
		removeSnapshot("DeleteSnapshot, again", "snapshot-1"),
	)
	return append(all, call{"DeleteVolume of all others", func(ctx context.Context, d *subject) (proto.Message, error) {
		for _, name := range slices.Sorted(maps.Keys(d.ids)) {
			if _, err := remove("", name).do(ctx, d); err != nil {
				return nil, err
			}
		}
		return &csi.DeleteVolumeResponse{}, nil
	}})
}
