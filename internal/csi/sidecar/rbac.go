package sidecar

// What TopoLVM's CSI controller and its controller of PersistentVolumeClaims need in the operator's process.
// A pod is updated to make its kubelet grow a file system at once instead of at its next full look at the pod.
//
// +kubebuilder:rbac:groups=topolvm.io,resources=logicalvolumes,verbs=get;list;watch;create;patch;delete
// +kubebuilder:rbac:groups="",resources=persistentvolumeclaims,verbs=get;list;watch;update
// +kubebuilder:rbac:groups="",resources=pods,verbs=list;update
// +kubebuilder:rbac:groups=storage.k8s.io,resources=storageclasses;csidrivers,verbs=get;list;watch
