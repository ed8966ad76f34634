package main

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/lvm-storage/lvm-operator/api/wellknown"
	"github.com/lvm-storage/lvm-operator/vgmanager/disk/device"
	"github.com/lvm-storage/lvm-operator/vgmanager/disk/direct"
	"github.com/lvm-storage/lvm-operator/vgmanager/disk/health"
	"github.com/lvm-storage/lvm-operator/vgmanager/lvm"
	"github.com/lvm-storage/lvm-operator/vgmanager/lvm/lvmexec"
	"github.com/lvm-storage/lvm-operator/vgmanager/machine/devicemapper"
)

// watch adapts the health monitor to the interfaces of its users.
type watch struct{ monitor *health.Monitor }

// reportAge is the maximum age of the list of physical volumes to check. Changes by this process renew the list; only
// manual changes can make it outdated.
const reportAge = 10 * time.Minute

// reportWait is the timeout of a report, so that an LVM command that hangs does not delay the check.
const reportWait = 2 * time.Second

// newWatch returns a watch that checks the physical volumes of this product's volume groups, and of the volume groups
// of administrators for which usesExisting returns true.
func newWatch(volumes *lvmexec.LVM, kernel *devicemapper.Reader, usesExisting func(vg string) bool) *watch {
	pulse := direct.NewPulse()
	known := map[device.Number]string{}
	failing := func(ctx context.Context) map[string]error {
		short, cancel := context.WithTimeout(ctx, reportWait)
		defer cancel()
		report, err := volumes.Recent(short, reportAge)
		if err != nil {
			// Other users of LVM report this error. The cause is often a device that hangs LVM, so known devices are
			// still checked.
			report = &lvm.Report{}
		}
		failing := map[string]error{}
		for number, err := range pulse.Check(ctx, beats(report, known, usesExisting)) {
			failing[string(number)] = err
		}
		return failing
	}
	return &watch{monitor: health.New(health.Options{Mapper: kernel, Failing: failing,
		Metadata: pulse.Starts, Own: volumes.Changes})}
}

// beats returns the devices of the volume groups that this product uses. LVM no longer lists a volume group if none of
// its devices can be read, so known keeps devices that were listed before as long as the kernel has them.
func beats(report *lvm.Report, known map[device.Number]string, usesExisting func(vg string) bool) []direct.Beat {
	for i := range report.VGs {
		vg := &report.VGs[i]
		if !vg.HasTag(wellknown.OwnerTag) && !usesExisting(vg.Name) {
			continue
		}
		for _, pv := range vg.PVs {
			if pv.Major != 0 {
				known[device.NewNumber(pv.Major, pv.Minor)] = pv.Name
			}
		}
	}
	var list []direct.Beat
	for number, path := range known {
		if _, err := os.Stat("/sys/dev/block/" + string(number)); errors.Is(err, fs.ErrNotExist) {
			delete(known, number)
			continue
		}
		list = append(list, direct.Beat{Number: number, Path: path})
	}
	return list
}

// Failing implements Health of volumegroup and inventory.
func (w *watch) Failing() map[device.Number]error {
	failing := map[device.Number]error{}
	for number, err := range w.monitor.Failing() {
		failing[device.Number(number)] = err
	}
	return failing
}

// Suspended implements Health of volumegroup.
func (w *watch) Suspended() map[device.Number]bool {
	suspended := map[device.Number]bool{}
	for number := range w.monitor.Suspended() {
		suspended[device.Number(number)] = true
	}
	return suspended
}

// Unknown implements Health of volumegroup.
func (w *watch) Unknown(group string) error { return w.monitor.Unknown(group) }

// silentDevices returns a function that tells LVM which devices do not answer. If it cannot find that out, it excludes
// none.
func silentDevices(devices *device.Node) lvmexec.Silent {
	return func(ctx context.Context) map[string][]string {
		silent, err := devices.Silent(ctx)
		logger := log.FromContext(ctx).WithName("devices")
		if err != nil {
			logger.Error(err, "cannot check whether devices answer")
		}
		if len(silent) > 0 {
			logger.Info("LVM commands skip devices that do not answer: see the kernel log; repair or detach them",
				"devices", silent)
		}
		return silent
	}
}
