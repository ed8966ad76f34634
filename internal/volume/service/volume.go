package service

import (
	"fmt"

	"github.com/lvm-storage/lvm-operator/api/v1alpha1"
)

// Volume names a volume of a node in messages about its file system.
type Volume struct {
	// Class is the device class, and Name the name of the logical volume.
	Class, Name string
	// Claim is the claim as namespace/name, or "" if it is not known.
	Claim string
}

// String returns the name of the volume and its claim.
func (v Volume) String() string {
	if v.Claim == "" {
		return fmt.Sprintf("%s/%s", v.Class, v.Name)
	}
	return fmt.Sprintf("%s/%s (claim %s)", v.Class, v.Name, v.Claim)
}

// RepairAdvice says how the file system of the volume is repaired.
func (v Volume) RepairAdvice(node string) string {
	return fmt.Sprintf(
		"delete the Pods that use the claim, so that the volume is unmounted, and create an LVMRecovery "+
			"{nodeName: %s, deviceClassName: %s, action: %s, volumes: [%s]}, which checks the file system and changes "+
			"nothing until it is approved; if it cannot be repaired, restore the volume from a snapshot or a backup",
		node, v.Class, v1alpha1.RecoveryCheckFileSystems, v.Name)
}
