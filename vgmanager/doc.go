// Package vgmanager is the folder of the node agent: the only code of the product that runs a command on a host.
// cmd/lvms puts its packages together; beside their rights the agent needs these:
//
// The UID of kube-system is the identity of the cluster, which volume groups are marked with.
// +kubebuilder:rbac:groups="",resources=namespaces,resourceNames=kube-system,verbs=get
// Metrics are for those whom the API server lets read them.
// +kubebuilder:rbac:groups=authentication.k8s.io,resources=tokenreviews,verbs=create
// +kubebuilder:rbac:groups="",resources=configmaps,resourceNames=extension-apiserver-authentication,verbs=get
// +kubebuilder:rbac:groups=authorization.k8s.io,resources=subjectaccessreviews,verbs=create
// On OpenShift, TLS is served as the cluster asks for it (internal/tlsprofile).
// +kubebuilder:rbac:groups=config.openshift.io,resources=apiservers,resourceNames=cluster,verbs=list;watch
package vgmanager
