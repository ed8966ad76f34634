package spec

// Flavor describes how a node differs from a node that has this machine's own root and the defaults of LVM.
type Flavor struct {
	Name string `json:"name"`
	// DevicesFile is the state of LVM's devices file: one of the constants below, or empty for LVM's default.
	DevicesFile string `json:"devicesFile,omitempty"`
	// HostVG is the name of the disk on which the node has its own volume group, with a mounted logical volume.
	HostVG string `json:"hostVG,omitempty"`
	// SectorSize is the sector size of SCSI disks in bytes; 0 means 512.
	SectorSize int `json:"sectorSize,omitempty"`
	// Multipath nodes run multipathd, and each SCSI disk has two paths.
	Multipath bool `json:"multipath,omitempty"`
	// Without are patterns of files that the node does not have.
	Without []string `json:"without,omitempty"`
	// ReadOnlyUsr nodes cannot write to /usr.
	ReadOnlyUsr bool `json:"readOnlyUsr,omitempty"`
	// SELinux nodes enforce a policy that confines Pods.
	SELinux bool `json:"seLinux,omitempty"`
	// Root is the folder of this machine that is the node's root file system. If empty, it is the machine's own root.
	Root string `json:"root,omitempty"`
	// Folders are folders of this machine that a node with another root has at the same paths.
	Folders []string `json:"folders,omitempty"`
}

// States of LVM's devices file.
const (
	// DevicesFileEmpty nodes use the devices file, and it has no entries.
	DevicesFileEmpty = "empty"
	// DevicesFileAbsent nodes are configured to use the devices file, but do not have it.
	DevicesFileAbsent = "absent"
)

// Numbers of paths of a SCSI disk.
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
