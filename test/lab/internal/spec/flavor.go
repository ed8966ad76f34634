package spec

// Flavor is how a node differs from one that has this machine's own root and LVM's defaults.
type Flavor struct {
	Name string `json:"name"`
	// DevicesFile is what the node has of LVM's devices file: one of the constants below; empty for LVM's default.
	DevicesFile string `json:"devicesFile,omitempty"`
	// HostVG names the disk on which the node has a volume group of its own, with a mounted logical volume.
	HostVG string `json:"hostVG,omitempty"`
	// SectorSize of SCSI disks in bytes; 0 for 512.
	SectorSize int `json:"sectorSize,omitempty"`
	// Multipath nodes run multipathd, and each SCSI disk has two paths.
	Multipath bool `json:"multipath,omitempty"`
	// Without are patterns of files that the node does not have.
	Without []string `json:"without,omitempty"`
	// ReadOnlyUsr nodes cannot write to /usr.
	ReadOnlyUsr bool `json:"readOnlyUsr,omitempty"`
	// Root is the folder of this machine that is the node's root file system; empty for the machine's own root.
	Root string `json:"root,omitempty"`
	// Folders of this machine are shown on a node with another root, at the same paths.
	Folders []string `json:"folders,omitempty"`
}

// Devices files of a node.
const (
	// DevicesFileEmpty nodes use the devices file, and it has no entries.
	DevicesFileEmpty = "empty"
	// DevicesFileAbsent nodes are told to use the devices file, and do not have it.
	DevicesFileAbsent = "absent"
)

// Ways of a SCSI disk to the node's kernel.
const (
	singlePath = 1
	multiPath  = 2
)

// Paths returns the number of paths of each SCSI disk.
func (f Flavor) Paths() int {
	if f.Multipath {
		return multiPath
	}
	return singlePath
}
