package main

import (
	"context"

	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/lvm-storage/lvm-operator/vgmanager/agentcert"
	"github.com/lvm-storage/lvm-operator/vgmanager/agentserver"
	"github.com/lvm-storage/lvm-operator/vgmanager/changedblocks"
	"github.com/lvm-storage/lvm-operator/vgmanager/devicemapper"
	"github.com/lvm-storage/lvm-operator/vgmanager/lvm"
	"github.com/lvm-storage/lvm-operator/vgmanager/lvmd"
)

// addAgentServer adds the certificate of the agent, and the server for the operator.
func addAgentServer(mgr ctrl.Manager, nodeName, namespace string, engine *lvmd.Engine, volumes *lvm.LVM,
	kernel *devicemapper.Reader, o vgmanagerOptions) error {
	certificate := agentcert.New(mgr.GetClient(), nodeName, namespace)
	if err := certificate.SetupWithManager(mgr); err != nil {
		return err
	}
	reader := changedblocks.New(volumes, kernel, changedblocks.OpenSnapshot)
	return mgr.Add(agentserver.New(agentserver.Options{
		Address: o.agentAddress, Credentials: certificate, Configure: o.profile.Configure,
		Snapshots: changedblocks.NewServer(reader, agentserver.Locate(mgr.GetClient(), nodeName, engine)),
		Prepare: func(ctx context.Context) error {
			return agentserver.ReleaseAll(ctx, engine, reader.Release)
		},
	}))
}
