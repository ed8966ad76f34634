package sidecar

// Permissions of TopoLVM's CSI controller and of its PersistentVolumeClaim controller in the operator's process. An
// update of a Pod makes its kubelet grow a file system at once, and not only at the next sync of the Pod.
// +kubebuilder:rbac:groups=topolvm.io,resources=logicalvolumes,verbs=get;list;watch;create;patch;delete
// +kubebuilder:rbac:groups="",resources=persistentvolumeclaims,verbs=get;list;watch;update
// +kubebuilder:rbac:groups="",resources=pods,verbs=list;update
// +kubebuilder:rbac:groups=storage.k8s.io,resources=storageclasses;csidrivers,verbs=get;list;watch
