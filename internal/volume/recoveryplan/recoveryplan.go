// Package recoveryplan has the IDs of the plans of LVMRecoveries, by which they are approved.
package recoveryplan

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"

	"github.com/lvm-storage/lvm-operator/api/v1alpha1"
)

// length is the length of an ID of a plan in hexadecimal digits: 128 bits of a SHA-256, so that nobody finds
// another plan with the ID of an approved one.
const length = 32

// ID returns the ID of a plan for a device class on a node: a hash of what is done with the approval, and of the
// time of the plan's creation. It does not depend on what is for information only. The operator acts on the plan of an
// import, which an agent wrote, so that ID is one of its whole content. All other plans are carried out by the agent
// that made them, which adds what is for information after it has computed the ID.
func ID(action v1alpha1.RecoveryAction, node, class string, p *v1alpha1.RecoveryPlan) string {
	hash := sha256.New()
	add := func(values ...string) {
		_, _ = fmt.Fprintf(hash, "%q\n", values)
	}
	add(string(action), string(p.Repair), p.MetadataSource, node, class, p.VolumeGroupUUID,
		fmt.Sprint(p.CreationTime.Unix()))
	for _, d := range p.Devices {
		add("device", d.UUID)
	}
	for _, d := range p.FailingDevices {
		add("failing", d.UUID)
	}
	for _, list := range [][]v1alpha1.RecoveryVolume{p.ThinPools, p.LostVolumes} {
		for _, v := range list {
			add("volume", v.Name, v.UUID)
		}
	}
	for _, v := range p.ImportedVolumes {
		add("imported", v.Name, v.UUID, fmt.Sprint(v.Size), v.PersistentVolume, v.Claim, v.FromNode, v.FSType)
	}
	for _, v := range p.DamagedVolumes {
		add("damaged", v.UUID, fmt.Sprint(v.LostBytes))
	}
	for _, v := range p.CheckedVolumes {
		add("checked", v.UUID, v.FSType, v.Finding)
	}
	return hex.EncodeToString(hash.Sum(nil))[:length]
}

// IsApproved reports whether the plan in the status is the one that was approved: it has the ID in the spec, and this
// is the ID of its content.
func IsApproved(r *v1alpha1.LVMRecovery) bool {
	return r.Status.Plan != nil && r.Spec.ApprovedPlan == r.Status.Plan.ID && IsGenuine(r)
}

// IsGenuine reports whether the ID of the plan in the status is that of its content.
func IsGenuine(r *v1alpha1.LVMRecovery) bool {
	p := r.Status.Plan
	return p != nil && p.ID == ID(r.Spec.Action, r.Spec.NodeName, r.Spec.DeviceClassName, p)
}
