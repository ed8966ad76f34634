package layers

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"strings"
)

// PhysicalVolumeSize is the least size of a device for PhysicalVolume with the group of Group, in bytes.
const PhysicalVolumeSize = 32 << 20

const (
	// areaOffset is the offset of the metadata area, and dataOffset that of the data: the defaults of pvcreate.
	areaOffset, dataOffset = 4096, 1 << 20
	// areaHeader is the size of the header of the metadata area, after which the text begins.
	areaHeader = 512
	extent     = 4 << 20
)

// Group is a volume group on one physical volume. With Volume, it has a logical volume of one extent with this name.
type Group struct {
	// UUID and PV are the UUIDs of the group and of its physical volume, as LVM prints them.
	Name, UUID, PV string
	Tags           []string
	Volume         string
}

// Metadata returns the group in LVM's format (lib/format_text/export.c), which vgcfgbackup writes too.
func (g Group) Metadata() string {
	quoted := make([]string, len(g.Tags))
	for i, tag := range g.Tags {
		quoted[i] = fmt.Sprintf("%q", tag)
	}
	volumes := ""
	if g.Volume != "" {
		volumes = fmt.Sprintf(`
logical_volumes {
%s {
id = "lvlvlv-0000-0000-0000-0000-0000-000001"
status = ["READ", "WRITE", "VISIBLE"]
flags = []
segment_count = 1
segment1 {
start_extent = 0
extent_count = 1
type = "striped"
stripe_count = 1
stripes = ["pv0", 0]
}
}
}
`, g.Volume)
	}
	return fmt.Sprintf(`%s {
id = %q
seqno = 3
format = "lvm2"
status = ["RESIZEABLE", "READ", "WRITE"]
flags = []
tags = [%s]
extent_size = %d
max_lv = 0
max_pv = 0
metadata_copies = 0
physical_volumes {
pv0 {
id = %q
device = "/dev/vda"
status = ["ALLOCATABLE"]
flags = []
dev_size = %d
pe_start = %d
pe_count = %d
}
}
%s}
contents = "Text Format Volume Group"
version = 1
description = ""
creation_host = "guest"
creation_time = 1700000000
`, g.Name, g.UUID, strings.Join(quoted, ", "), extent/512, g.PV, PhysicalVolumeSize/512, dataOffset/512,
		(PhysicalVolumeSize-dataOffset)/extent, volumes)
}

// PhysicalVolume returns the beginning of a device that is a physical volume with a UUID, as LVM prints it, and with
// metadata of a volume group (lib/label/label.h and lib/format_text/layout.h of LVM). It is what pvcreate and vgcreate
// write, on a device of any size.
func PhysicalVolume(uuid, metadata string) []byte {
	text := append([]byte(metadata), 0)
	device := make([]byte, areaOffset+areaHeader+len(text))
	little := binary.LittleEndian

	label := device[512:1024]
	copy(label, "LABELONE")
	little.PutUint64(label[8:], 1)   // the sector of the label
	little.PutUint32(label[20:], 32) // the offset of the header of the physical volume
	copy(label[24:], "LVM2 001")
	copy(label[32:64], strings.ReplaceAll(uuid, "-", ""))
	header := []uint64{PhysicalVolumeSize, dataOffset, 0, 0, 0, areaOffset, dataOffset - areaOffset, 0, 0}
	for i, value := range header {
		little.PutUint64(label[64+8*i:], value)
	}
	extension := label[64+8*len(header):]
	little.PutUint32(extension, 2)     // version
	little.PutUint32(extension[4:], 1) // the physical volume is in a volume group
	little.PutUint32(label[16:], lvmChecksum(label[20:]))

	area := device[areaOffset : areaOffset+areaHeader]
	copy(area[4:], " LVM2 x[5A%r0N*>")
	little.PutUint32(area[20:], 1) // version
	for i, value := range []uint64{areaOffset, dataOffset - areaOffset, areaHeader, uint64(len(text))} {
		little.PutUint64(area[24+8*i:], value)
	}
	little.PutUint32(area[56:], lvmChecksum(text))
	little.PutUint32(area, lvmChecksum(area[4:]))
	copy(device[areaOffset+areaHeader:], text)
	return device
}

// lvmChecksum returns the CRC of LVM (lib/misc/crc.h), which inverts the value neither before nor after.
func lvmChecksum(b []byte) uint32 {
	const initial uint32 = 0xf597a6cf
	return ^crc32.Update(^initial, crc32.IEEETable, b)
}

// Partitioned returns the beginning of a device with one partition for LVM, which has the content at PartitionOffset.
func Partitioned(content []byte) []byte {
	device := make([]byte, PartitionOffset+len(content))
	entry := device[446:]
	entry[4] = 0x8e // Linux LVM
	binary.LittleEndian.PutUint32(entry[8:], PartitionOffset/512)
	binary.LittleEndian.PutUint32(entry[12:], PhysicalVolumeSize/512)
	copy(device[510:], "\x55\xaa")
	copy(device[PartitionOffset:], content)
	return device
}

// PartitionOffset is where the partition of Partitioned begins, in bytes.
const PartitionOffset = 1 << 20
