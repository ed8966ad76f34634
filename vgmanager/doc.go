// Package vgmanager contains the packages of the node agent. Only they run programs, all of them through host, and
// change devices and mounts. cmd/lvms combines them.
// In addition to the permissions of its packages, the agent needs these:
//
// The cluster ID of OpenShift, or the UID of kube-system, is the identity of the cluster, which is a tag of its volume
// groups.
// +kubebuilder:rbac:groups="",resources=namespaces,resourceNames=kube-system,verbs=get
// +kubebuilder:rbac:groups=config.openshift.io,resources=clusterversions,resourceNames=version,verbs=get
// The API server authenticates and authorizes clients of the metrics.
// +kubebuilder:rbac:groups=authentication.k8s.io,resources=tokenreviews,verbs=create
// +kubebuilder:rbac:groups="",resources=configmaps,resourceNames=extension-apiserver-authentication,verbs=get
// +kubebuilder:rbac:groups=authorization.k8s.io,resources=subjectaccessreviews,verbs=create
// On OpenShift, the TLS settings of the server follow the cluster (internal/tls/tlsprofile).
// +kubebuilder:rbac:groups=config.openshift.io,resources=apiservers,resourceNames=cluster,verbs=list;watch
package vgmanager
