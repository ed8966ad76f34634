// Package vgmanager is the folder of the node agent: the only code of the product that runs a command on a host.
// cmd/lvms puts its packages together with TopoLVM's controller of LogicalVolumes, CSI node service and metrics, which
// need these rights beside those of volumegroup:
//
// TopoLVM writes the capacity of its node as annotations, and a finalizer, on the Node.
// +kubebuilder:rbac:groups="",resources=nodes,verbs=get;list;watch;update;patch
// +kubebuilder:rbac:groups=topolvm.io,resources=logicalvolumes;logicalvolumes/status,verbs=get;list;watch;create;update;patch;delete
// The UID of kube-system is the identity of the cluster, which volume groups are marked with.
// +kubebuilder:rbac:groups="",resources=namespaces,resourceNames=kube-system,verbs=get
// Metrics are for those whom the API server lets read them.
// +kubebuilder:rbac:groups=authentication.k8s.io,resources=tokenreviews,verbs=create
// +kubebuilder:rbac:groups=authorization.k8s.io,resources=subjectaccessreviews,verbs=create
package vgmanager
