package main

import (
	"os"
	"sync"

	topolvmcontroller "github.com/topolvm/topolvm/pkg/controller"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/metrics"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"github.com/lvm-storage/lvm-operator/controllers/agentcert"
	"github.com/lvm-storage/lvm-operator/controllers/alertrules"
	"github.com/lvm-storage/lvm-operator/controllers/consoleplugin"
	"github.com/lvm-storage/lvm-operator/controllers/lvmcluster"
	"github.com/lvm-storage/lvm-operator/controllers/lvmcluster/operand"
	"github.com/lvm-storage/lvm-operator/controllers/metricsaccess"
	"github.com/lvm-storage/lvm-operator/controllers/networkpolicies"
	"github.com/lvm-storage/lvm-operator/controllers/node"
	"github.com/lvm-storage/lvm-operator/controllers/nodeprobe"
	"github.com/lvm-storage/lvm-operator/controllers/statuscopy"
	"github.com/lvm-storage/lvm-operator/controllers/volumehealth"
	"github.com/lvm-storage/lvm-operator/controllers/volumeimport"
	"github.com/lvm-storage/lvm-operator/controllers/volumemove"
	"github.com/lvm-storage/lvm-operator/internal/admission/deletionwebhook"
	"github.com/lvm-storage/lvm-operator/internal/admission/podwebhook"
	"github.com/lvm-storage/lvm-operator/internal/admission/webhook"
	"github.com/lvm-storage/lvm-operator/internal/cluster/olm"
	"github.com/lvm-storage/lvm-operator/internal/cluster/platform"
	"github.com/lvm-storage/lvm-operator/internal/kube/event"
)

// addControllers adds the controllers of the operator, and its webhooks.
func addControllers(mgr ctrl.Manager, o *operator) error {
	direct, namespace, image, found := o.direct, o.namespace, o.image, o.found
	if err := metrics.Registry.Register(lvmcluster.NewCollector(mgr.GetClient(), namespace)); err != nil {
		return err
	}
	gate, err := olm.FromEnvironment(direct)
	if err != nil {
		return err
	}
	deletions := deletionwebhook.NewRegistration(deletionwebhook.Options{Client: direct, Namespace: namespace,
		Certificate: o.webhookCert})
	if err := mgr.Add(deletions); err != nil {
		return err
	}
	recorder := mgr.GetEventRecorder("lvms-operator")
	clusters := lvmcluster.New(mgr.GetClient(), mgr.GetAPIReader(), recorder,
		lvmcluster.Options{Namespace: namespace, Permissions: o.watch, UpgradeGate: gate,
			OtherTargets: olm.OtherTargets(os.Getenv(olm.TargetsVariable), namespace),
			Options: operand.Options{Image: image, Platform: found, VolumeMetrics: o.volumeMetrics,
				SmartInterval: o.smartInterval, Layout: o.layout, ClusterID: o.clusterID, Identity: o.identity.ID,
				DeletionWebhook: deletions}})
	imports := volumeimport.New(mgr.GetClient(), mgr.GetAPIReader(), recorder, namespace)
	imports.LegacyServed = sync.OnceFunc(func() { close(o.earlierServed) })
	for _, controller := range []interface{ SetupWithManager(mgr ctrl.Manager) error }{
		clusters,
		agentcert.New(mgr.GetClient(), o.agentCA, recorder),
		node.New(mgr.GetClient(), mgr.GetCache(), mgr.GetAPIReader(), namespace),
		node.NewClaims(mgr.GetClient(), mgr.GetAPIReader(), namespace, recorder),
		imports,
		volumehealth.New(mgr.GetClient(), mgr.GetAPIReader(), o.volumes.Name),
		volumemove.New(mgr.GetClient(), mgr.GetAPIReader(), mgr.GetCache(), recorder, namespace),
		statuscopy.New(mgr.GetClient(), namespace),
		&deletionwebhook.Validator{Live: mgr.GetAPIReader(), Namespace: namespace},
	} {
		if err := controller.SetupWithManager(mgr); err != nil {
			return err
		}
	}
	if err := mgr.Add(operand.NewInstallationPolicies(mgr.GetClient(), mgr.GetAPIReader(), namespace)); err != nil {
		return err
	}
	if err := o.addNodeProbes(mgr, recorder); err != nil {
		return err
	}
	if err := addInstalled(mgr, namespace, image, found, o.operatorOptions); err != nil {
		return err
	}
	if err := webhook.Setup(mgr, namespace); err != nil {
		return err
	}
	if err := o.addPodWebhook(mgr); err != nil {
		return err
	}
	if err := topolvmcontroller.SetupPersistentVolumeClaimReconciler(mgr, mgr.GetClient(),
		mgr.GetAPIReader()); err != nil {
		return err
	}
	return mgr.AddReadyzCheck("webhook", mgr.GetWebhookServer().StartedChecker())
}

// addNodeProbes adds the probes of nodes, and their metrics.
func (o *operator) addNodeProbes(mgr ctrl.Manager, recorder event.Recorder) error {
	prober := nodeprobe.New(mgr.GetClient(), mgr.GetAPIReader(), mgr.GetCache(), recorder, nodeprobe.Options{
		Namespace: o.namespace, Image: o.image, Interval: o.nodeProbeInterval, SCC: o.found.SCC})
	if err := metrics.Registry.Register(prober); err != nil {
		return err
	}
	return mgr.Add(prober)
}

// addPodWebhook serves the webhook for Pods if it is on, and registers it or deletes its registration.
func (o *operator) addPodWebhook(mgr ctrl.Manager) error {
	if o.podWebhook {
		mgr.GetWebhookServer().Register(podwebhook.Path,
			&admission.Webhook{Handler: podwebhook.New(mgr.GetClient(), mgr.GetAPIReader())})
	}
	return mgr.Add(podwebhook.NewRegistration(podwebhook.Options{Client: o.direct, Namespace: o.namespace,
		Certificate: o.webhookCert, Enabled: o.podWebhook}))
}

// addInstalled adds the controllers for objects of the installation, which do not depend on an LVMCluster.
func addInstalled(mgr ctrl.Manager, namespace, image string, found platform.Platform, o operatorOptions) error {
	if err := networkpolicies.New(mgr.GetClient(), namespace).SetupWithManager(mgr); err != nil {
		return err
	}
	if found.ServiceMonitors {
		if err := alertrules.New(mgr.GetClient(), namespace, o.runbooks).SetupWithManager(mgr); err != nil {
			return err
		}
	}
	recorder := mgr.GetEventRecorder("lvms-operator")
	if hasPlatformPrometheus(found) {
		if err := metricsaccess.New(mgr.GetClient(), recorder, namespace).SetupWithManager(mgr); err != nil {
			return err
		}
	}
	if !found.Console {
		return nil
	}
	if err := metrics.Registry.Register(consoleplugin.NewCollector(mgr.GetClient(), namespace)); err != nil {
		return err
	}
	return consoleplugin.New(mgr.GetClient(), mgr.GetAPIReader(), recorder,
		consoleplugin.Options{Namespace: namespace, Image: image, TLSProfile: found.TLSProfile}).SetupWithManager(mgr)
}
