package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

var (
	// GroupVersion is the API group and version of the kinds in this package.
	GroupVersion = schema.GroupVersion{Group: "lvm.topolvm.io", Version: "v1alpha1"}

	schemeBuilder = runtime.NewSchemeBuilder(addKnownTypes)

	// AddToScheme registers the kinds of this package.
	AddToScheme = schemeBuilder.AddToScheme
)

func addKnownTypes(scheme *runtime.Scheme) error {
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
