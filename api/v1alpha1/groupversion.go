package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// GroupVersion is the API group and version of the kinds in this package.
var GroupVersion = schema.GroupVersion{Group: "lvm.topolvm.io", Version: "v1alpha1"}

// AddToScheme registers the kinds of this package.
func AddToScheme(scheme *runtime.Scheme) error {
	scheme.AddKnownTypes(GroupVersion,
		&LVMCluster{}, &LVMClusterList{},
		&LVMVolumeGroup{}, &LVMVolumeGroupList{},
		&LVMVolumeGroupNodeStatus{}, &LVMVolumeGroupNodeStatusList{},
		&LVMRecovery{}, &LVMRecoveryList{},
		&LVMDeviceApproval{}, &LVMDeviceApprovalList{},
		&VolumeMove{}, &VolumeMoveList{},
	)
	metav1.AddToGroupVersion(scheme, GroupVersion)
	return nil
}
