package main

import (
	"context"

	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/lvm-storage/lvm-operator/internal/volume/service"
	"github.com/lvm-storage/lvm-operator/vgmanager/lvm/changedblocks"
	"github.com/lvm-storage/lvm-operator/vgmanager/lvm/lvmexec"
	"github.com/lvm-storage/lvm-operator/vgmanager/machine/devicemapper"
	"github.com/lvm-storage/lvm-operator/vgmanager/outside/agentcert"
	"github.com/lvm-storage/lvm-operator/vgmanager/outside/agentserver"
	"github.com/lvm-storage/lvm-operator/vgmanager/volume/copies"
	"github.com/lvm-storage/lvm-operator/vgmanager/volume/engine"
)

// addAgentServer adds the certificate of the agent, the server for the operator, and the one for other agents. It
// returns what finds other agents.
func addAgentServer(mgr ctrl.Manager, nodeName, namespace string, engine *engine.Engine, volumes *lvmexec.LVM,
	kernel *devicemapper.Reader, locks *service.Locks, o vgmanagerOptions) (*copies.Agents, error) {
	certificate := agentcert.New(mgr.GetClient(), nodeName, namespace)
	if err := certificate.SetupWithManager(mgr); err != nil {
		return nil, err
	}
	reader := changedblocks.New(volumes, kernel, changedblocks.OpenSnapshot)
	sender := &copies.Sender{Live: mgr.GetAPIReader(), Node: nodeName, Volumes: engine,
		Allocations: copies.Remember(reader), Locks: locks,
		Wait: copies.NewBandwidth(mgr.GetClient(), namespace).Wait}
	agents := &copies.Agents{Live: mgr.GetAPIReader(), Namespace: namespace, Credentials: certificate}
	if err := mgr.Add(copies.NewServer(copies.Options{Address: o.peerAddress, Credentials: certificate,
		Configure: o.profile.Configure}, sender)); err != nil {
		return nil, err
	}
	return agents, mgr.Add(agentserver.New(agentserver.Options{
		Address: o.agentAddress, Credentials: certificate, Configure: o.profile.Configure,
		Snapshots: changedblocks.NewServer(reader, agentserver.Locate(mgr.GetClient(), nodeName, engine)),
		Prepare: func(ctx context.Context) error {
			return agentserver.ReleaseAll(ctx, engine, reader.Release)
		},
	}))
}
