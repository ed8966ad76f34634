package main

import (
	"context"
	"path/filepath"
	"time"

	"github.com/lvm-storage/lvm-operator/vgmanager/disk/device"
	"github.com/lvm-storage/lvm-operator/vgmanager/group/volumegroup"
	"github.com/lvm-storage/lvm-operator/vgmanager/group/volumegroup/clusterobjects"
	"github.com/lvm-storage/lvm-operator/vgmanager/group/volumegroup/plan/state"
	"github.com/lvm-storage/lvm-operator/vgmanager/lvm"
	"github.com/lvm-storage/lvm-operator/vgmanager/lvm/lvmexec"
	"github.com/lvm-storage/lvm-operator/vgmanager/lvm/thinmeta"
	"github.com/lvm-storage/lvm-operator/vgmanager/machine/devicemapper"
	"github.com/lvm-storage/lvm-operator/vgmanager/machine/host/lvmsource"
	"github.com/lvm-storage/lvm-operator/vgmanager/machine/stack"
	"github.com/lvm-storage/lvm-operator/vgmanager/volume/engine"
)

// storage is what the reconcilers of one node share: its LVM, devices and kernel.
type storage struct {
	runner  *lvmsource.Runner
	volumes *lvmexec.LVM
	devices *device.Node
	kernel  *devicemapper.Reader
	engine  *engine.Engine
	users   *stack.Search
	watch   *watch
	// stateDir is the directory with the device classes and the records of the agent.
	stateDir string
}

func newStorage(runner *lvmsource.Runner, stateDir string) (*storage, error) {
	s := &storage{runner: runner, stateDir: stateDir, volumes: lvmexec.New(runner), devices: device.New(runner),
		kernel: devicemapper.New(), users: stack.NewSearch(stack.New())}
	s.volumes.SkipSilent(silentDevices(s.devices))
	s.volumes.FlushWith(s.devices.Flush)
	s.volumes.ReadGroupsWith(s.devices.ReadPhysicalVolumes)
	s.volumes.PoolsWith(engine.PoolsOf(s.kernel))
	var err error
	if s.engine, err = engine.New(s.volumes, s.kernel, filepath.Join(stateDir, lvmdFile)); err != nil {
		return nil, err
	}
	s.engine.ShareFile()
	s.engine.UsersWith(s.users.Describe)
	s.devices.UseGroups(s.engine.VolumeGroups)
	s.volumes.UseDevices(func() (lvm.Devices, error) {
		readable, guests, err := s.devices.ForLVM()
		return lvm.Devices{Readable: readable, Guests: guests}, err
	})
	s.watch = newWatch(s.volumes, s.kernel, s.engine.UsesExisting)
	return s, nil
}

// groupOptions returns the options with what the reconciler of volume groups needs of the node.
func (s *storage) groupOptions(o volumegroup.Options) volumegroup.Options {
	o.LVM = s.volumes
	o.Devices = s.devices
	o.Classes = s.engine
	o.Health = s.watch
	o.StateDir = s.stateDir
	o.IsBlank = thinmeta.IsBlank
	o.Peers = func(ctx context.Context, attached []device.Device) (*state.Peers, error) {
		return clusterobjects.ReadPeers(ctx, o.Live, o.Namespace, o.Node, time.Now, attached)
	}
	o.Inspect = func(ctx context.Context, pool thinmeta.Pool) (*thinmeta.Metadata, error) {
		return thinmeta.Inspect(ctx, s.runner, pool)
	}
	o.Salvage = func(ctx context.Context, pool thinmeta.Pool, file string) (map[uint64]thinmeta.Device, error) {
		return thinmeta.Salvage(ctx, s.runner, pool, file)
	}
	return o
}
