package main

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/log"

	lvmv1alpha1 "github.com/lvm-storage/lvm-operator/api/v1alpha1"
	"github.com/lvm-storage/lvm-operator/vgmanager/device"
	"github.com/lvm-storage/lvm-operator/vgmanager/devicemapper"
	"github.com/lvm-storage/lvm-operator/vgmanager/health"
	"github.com/lvm-storage/lvm-operator/vgmanager/lvm"
)

// watch is what is known about the health of the node between two looks, in the words of those who ask.
type watch struct{ monitor *health.Monitor }

// reportAge is how old the list of physical volumes may be whose pulse is felt: they change by this process, which
// makes the list again, or by hand.
const reportAge = 10 * time.Minute

// reportWait is how long a report may take, so that an LVM that hangs does not hold up the pulse.
const reportWait = 2 * time.Second

// newWatch feels the pulse of the physical volumes of this product's volume groups.
func newWatch(volumes *lvm.LVM, kernel *devicemapper.Reader) *watch {
	pulse := device.NewPulse()
	known := map[device.Number]string{}
	failing := func(ctx context.Context) map[string]error {
		short, cancel := context.WithTimeout(ctx, reportWait)
		defer cancel()
		report, err := volumes.Recent(short, reportAge)
		if err != nil {
			// Those who look at LVM say so themselves. What hangs LVM is often a device, so those that are known are
			// asked all the more.
			report = &lvm.Report{}
		}
		failing := map[string]error{}
		for number, err := range pulse.Check(ctx, beats(report, known)) {
			failing[string(number)] = err
		}
		return failing
	}
	return &watch{monitor: health.New(health.Options{Mapper: kernel, Failing: failing})}
}

// beats are the devices of the volume groups of this product. LVM lists a group no more when none of its devices can be
// read, so what it once listed is remembered as long as the kernel has the device.
func beats(report *lvm.Report, known map[device.Number]string) []device.Beat {
	for i := range report.VGs {
		for _, pv := range report.VGs[i].PVs {
			if number := device.NewNumber(pv.Major,
				pv.Minor); pv.Major != 0 && report.VGs[i].HasTag(lvmv1alpha1.OwnerTag) {
				known[number] = pv.Name
			}
		}
	}
	var list []device.Beat
	for number, path := range known {
		if _, err := os.Stat("/sys/dev/block/" + string(number)); errors.Is(err, fs.ErrNotExist) {
			delete(known, number)
			continue
		}
		list = append(list, device.Beat{Number: number, Path: path})
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

// silentDevices tells LVM which devices do not answer. Where that cannot be found out it leaves none out.
func silentDevices(devices *device.Node) lvm.Silent {
	return func(ctx context.Context) map[string][]string {
		silent, err := devices.Silent(ctx)
		logger := log.FromContext(ctx).WithName("devices")
		if err != nil {
			logger.Error(err, "Devices could not be asked whether they answer")
		}
		if len(silent) > 0 {
			logger.Info("LVM leaves out devices that do not answer: see the kernel's log; repair or detach them",
				"devices", silent)
		}
		return silent
	}
}
