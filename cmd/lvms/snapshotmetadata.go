package main

import (
	"context"
	"crypto/tls"
	"fmt"

	"github.com/kubernetes-csi/external-snapshot-metadata/pkg/api"
	"google.golang.org/grpc"
	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/lvm-storage/lvm-operator/api/wellknown"
	"github.com/lvm-storage/lvm-operator/controllers/installed"
	"github.com/lvm-storage/lvm-operator/internal/cluster/platform"
	"github.com/lvm-storage/lvm-operator/internal/csi/snapshotmetadata"
	"github.com/lvm-storage/lvm-operator/internal/tls/agentca"
	"github.com/lvm-storage/lvm-operator/internal/tls/pki"
	"github.com/lvm-storage/lvm-operator/internal/tls/servingcert"
	"github.com/lvm-storage/lvm-operator/internal/tls/streamserver"
)

// newAgentCA returns the authority of the node agents, which is deleted with the operator. It also signs the
// certificate of the server for changed blocks.
func (o *operator) newAgentCA() *agentca.Store {
	return agentca.NewStore(o.direct, o.namespace, agentca.Options{
		Hosts: pki.ServiceNames(o.namespace, wellknown.SnapshotMetadataService),
		Owner: func(ctx context.Context) (*metav1.OwnerReference, error) {
			deployment, err := installed.Deployment(ctx, o.direct, o.namespace)
			if err != nil {
				return nil, err
			}
			if deployment == nil {
				return nil, fmt.Errorf("the Deployment %s/%s does not exist or is being deleted", o.namespace,
					installed.Name)
			}
			return &metav1.OwnerReference{APIVersion: appsv1.SchemeGroupVersion.String(), Kind: "Deployment",
				Name: deployment.Name, UID: deployment.UID}, nil
		},
	})
}

// addSnapshotMetadata adds the server for backup software, and the object with which it is found. It returns the relay
// to the node agents, which CSI also serves.
func (o *operator) addSnapshotMetadata(mgr ctrl.Manager) (*snapshotmetadata.Relay, error) {
	dialer := &snapshotmetadata.Dialer{Live: mgr.GetAPIReader(), Namespace: o.namespace, Credentials: o.agentCA}
	relay := &snapshotmetadata.Relay{Live: mgr.GetAPIReader(), NameOf: o.volumes.Name, Dial: dialer.Dial}
	publisher := snapshotmetadata.NewPublisher(snapshotmetadata.PublisherOptions{Client: o.direct,
		Serves: platform.Serves(o.apis), Namespace: o.namespace, Trusted: o.agentCA.Trusted,
		Enabled: o.snapshotMetadataAddress != ""})
	if err := mgr.Add(publisher); err != nil || o.snapshotMetadataAddress == "" {
		return relay, err
	}
	config := &tls.Config{MinVersion: tls.VersionTLS12}
	servingcert.Configure(o.agentCA.Serving())(config)
	o.profile.Configure(config)
	server := snapshotmetadata.New(snapshotmetadata.Options{Client: mgr.GetClient(), Live: mgr.GetAPIReader(),
		Relay: relay})
	return relay, mgr.Add(streamserver.New(streamserver.Options{Address: o.snapshotMetadataAddress, TLS: config,
		Register: func(s grpc.ServiceRegistrar) { api.RegisterSnapshotMetadataServer(s, server) }}))
}
