//go:build e2e

package rights

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/util/yaml"

	"github.com/lvm-storage/lvm-operator/test/lab"
)

// elsewhere lists permissions that the end-to-end tests do not use, or not always, with what uses them.
var elsewhere = with(map[string]string{
	"lvms-operator may create configmaps in openshift-lvm-storage":                                               wipesAreSaved,
	"lvms-operator may update configmaps lvms-wiped-devices in openshift-lvm-storage":                            wipesAreSaved,
	"lvms-operator may delete configmaps lvms-wiped-devices in openshift-lvm-storage":                            wipesAreSaved,
	"lvms-operator may get configmaps lvms-deleted-volumes in openshift-lvm-storage":                             deletionsAreSaved,
	"lvms-operator may update configmaps lvms-deleted-volumes in openshift-lvm-storage":                          deletionsAreSaved,
	"lvms-operator may delete configmaps lvms-deleted-volumes in openshift-lvm-storage":                          deletionsAreSaved,
	"vg-manager may get configmaps lvms-deleted-volumes in openshift-lvm-storage":                                "vgmanager/volumegroup, TestADeletedVolumeIsRemovedAfterItsRetention",
	"lvms-operator may get logicalvolumes.topolvm.cybozu.com in all namespaces":                                  volumesAreMigrated,
	"lvms-operator may list logicalvolumes.topolvm.cybozu.com in all namespaces":                                 volumesAreMigrated,
	"lvms-operator may patch logicalvolumes.topolvm.cybozu.com in all namespaces":                                volumesAreMigrated,
	"lvms-operator may delete logicalvolumes.topolvm.cybozu.com in all namespaces":                               volumesAreMigrated,
	"lvms-operator may get csinodes.storage.k8s.io in all namespaces":                                            volumesAreMigrated,
	"lvms-operator may list volumeattachments.storage.k8s.io in all namespaces":                                  earlierAreDeleted,
	"vg-manager may list logicalvolumes.topolvm.cybozu.com in all namespaces":                                    earlierAreKept,
	"lvms-operator may delete lvmdeviceapprovals.lvm.topolvm.io in openshift-lvm-storage":                        "controllers/lvmcluster, TestApprovalsAreDeletedWithTheirDeviceClass",
	"lvms-operator may delete persistentvolumeclaims in all namespaces":                                          "controllers/node, claims of a Node that asks for it",
	"lvms-operator may get volumeattributesclasses.storage.k8s.io in all namespaces":                             "internal/csi/sidecar, TestSidecarsServeVolumesCapacityExpansionAndSnapshots",
	"lvms-operator may get volumegroupsnapshotcontents.groupsnapshot.storage.k8s.io in all namespaces":           groupsAreTaken,
	"lvms-operator may patch volumegroupsnapshotcontents.groupsnapshot.storage.k8s.io in all namespaces":         groupsAreTaken,
	"lvms-operator may update volumegroupsnapshotcontents/status.groupsnapshot.storage.k8s.io in all namespaces": groupsAreTaken,
	"lvms-operator may patch volumegroupsnapshotcontents/status.groupsnapshot.storage.k8s.io in all namespaces":  groupsAreTaken,
	"lvms-operator may get volumegroupsnapshotclasses.groupsnapshot.storage.k8s.io in all namespaces":            "controllers/lvmcluster, TestVolumeGroupSnapshotClassSetByAnAdministratorIsKept",
	"lvms-operator may patch events.events.k8s.io in all namespaces":                                             repeats,
	"lvms-operator may patch events in all namespaces":                                                           repeats,
	"vg-manager may patch events.events.k8s.io in openshift-lvm-storage":                                         repeats,
	"vg-manager may patch events.events.k8s.io in all namespaces":                                                repeats,
	"lvms-operator may patch nodes in all namespaces":                                                            "controllers/node, claims of a Node that asks for it",
	"lvms-operator may update secrets lvms-operator-webhook-server-cert in openshift-lvm-storage":                "internal/servingcert/secretcert, a certificate that is about to end",
	"lvms-operator may create persistentvolumeclaims in all namespaces":                                          volumesAreImported,
	"lvms-operator may get nodes in all namespaces":                                                              "controllers/volumeimport, TestObjectsMoveWithTheirVolume",
	"lvms-operator may get lvmrecoveries.lvm.topolvm.io in openshift-lvm-storage":                                volumesAreImported,
	"lvms-operator may patch lvmrecoveries/status.lvm.topolvm.io in openshift-lvm-storage":                       volumesAreImported,
	"lvms-operator may patch persistentvolumeclaims in all namespaces":                                           volumesAreMoved,
	"lvms-operator may watch pods in all namespaces":                                                             "controllers/volumemove, TestTheEndOfAPodIsReported",
	"lvms-operator may get volumemoves.lvm.topolvm.io in openshift-lvm-storage":                                  volumesAreMoved,
	"lvms-operator may patch volumemoves.lvm.topolvm.io in openshift-lvm-storage":                                volumesAreMoved,
	"lvms-operator may patch volumemoves/status.lvm.topolvm.io in openshift-lvm-storage":                         volumesAreMoved,
	"vg-manager may get configmaps lvms-wiped-devices in openshift-lvm-storage":                                  "vgmanager/volumegroup, wipes on nodes that are gone",
	"lvms-operator may update secrets lvms-agent-ca in openshift-lvm-storage":                                    "internal/agentca, TestARotationIsStored",
	"lvms-operator may patch lvmvolumegroupnodestatuses/status.lvm.topolvm.io in openshift-lvm-storage": "" +
		"controllers/lvmcluster, TestDevicesObservedOfASilentAgentIsUnknown",
	"lvms-operator may update lvmclusters/finalizers.lvm.topolvm.io in openshift-lvm-storage": ownersAreChecked,
	"lvms-operator may delete validatingadmissionpolicies.admissionregistration.k8s.io lvms-lvmcluster-namespace in " +
		"all namespaces": ownersAreChecked,
	"lvms-operator may delete validatingadmissionpolicybindings.admissionregistration.k8s.io " +
		"lvms-lvmcluster-namespace in all namespaces": ownersAreChecked,
	"lvms-operator may get snapshotmetadataservices.cbt.storage.k8s.io topolvm.io in all namespaces": "" +
		changesAreBackedUp,
	"lvms-operator may create snapshotmetadataservices.cbt.storage.k8s.io topolvm.io in all namespaces": "" +
		changesAreBackedUp,
	"lvms-operator may patch snapshotmetadataservices.cbt.storage.k8s.io topolvm.io in all namespaces": "" +
		changesAreBackedUp,
	"lvms-operator may delete snapshotmetadataservices.cbt.storage.k8s.io topolvm.io in all namespaces": "" +
		changesAreBackedUp,
	"vg-manager may get lvmdeviceapprovals.lvm.topolvm.io in openshift-lvm-storage":                                 "vgmanager/volumegroup, TestSceneAnApprovedDeviceIsUsed",
	"vg-manager may list persistentvolumes in all namespaces":                                                       "vgmanager/logicalvolume, a LogicalVolume whose PersistentVolume is gone",
	"lvms-operator may delete consoleplugins.console.openshift.io lvms-console in all namespaces":                   ownersAreChecked,
	"lvms-operator may delete consolequickstarts.console.openshift.io lvms-local-volumes in all namespaces":         ownersAreChecked,
	"lvms-operator may delete prometheusrules.monitoring.coreos.com prometheus-lvmo-rules in openshift-lvm-storage": ownersAreChecked,
}, "lvms-operator may %s in openshift-lvm-storage",
	"controllers/metricsaccess gives it to Prometheus, and can give only what the operator has",
	"get services", "watch pods", "get endpoints", "list endpoints", "watch endpoints",
	"get endpointslices.discovery.k8s.io", "list endpointslices.discovery.k8s.io",
	"watch endpointslices.discovery.k8s.io")

// with adds permissions that have the same reason.
func with(all map[string]string, format, reason string, rights ...string) map[string]string {
	for _, r := range rights {
		all[fmt.Sprintf(format, r)] = reason
	}
	return all
}

const (
	groupsAreTaken    = "test/e2e/groupsnapshot, in the long lane"
	wipesAreSaved     = "controllers/node, TestWipesAreSavedBeforeTheNodeStatusGoes"
	deletionsAreSaved = "controllers/node, TestARecordOfDeletedVolumesIsExtended"
	// The test of the package also runs with the operator's permissions.
	volumesAreImported = "controllers/volumeimport, TestObjectsAreCreatedForVolumes"
	volumesAreMoved    = "controllers/volumemove, TestAVolumeIsMovedWhilePodsUseIt"
	volumesAreMigrated = "controllers/volumeimport, TestAVolumeIsMigrated"
	earlierAreDeleted  = "controllers/volumeimport, TestAReleasedVolumeIsDeleted"
	earlierAreKept     = "vgmanager/logicalvolume, TestVolumesOfTheEarlierDriverAreNoOrphans"
	// changesAreBackedUp: the other clusters do not have the API.
	changesAreBackedUp = "test/e2e/backup, and internal/csi/snapshotmetadata, TestTheServiceFollowsTheAPI"
	repeats            = "client-go patches an event that repeats"
	// ownersAreChecked: a change of an owner reference requires permission to delete the object.
	ownersAreChecked = "the API server of OpenShift (OwnerReferencesPermissionEnforcement)"
)

// rightsOf returns the permissions that a file of config/rbac grants to a user.
func rightsOf(user, file string) ([]right, error) {
	root, err := lab.Root()
	if err != nil {
		return nil, err
	}
	data, err := os.ReadFile(filepath.Join(root, "config", "rbac", file))
	if err != nil {
		return nil, err
	}
	var all []right
	for decoder := yaml.NewYAMLOrJSONDecoder(bytes.NewReader(data), 4096); ; {
		role := &rbacv1.Role{}
		if err := decoder.Decode(role); errors.Is(err, io.EOF) {
			return all, nil
		} else if err != nil {
			return nil, fmt.Errorf("%s: %w", file, err)
		}
		for _, rule := range role.Rules {
			all = append(all, rightsOfRule(user, role.Namespace, rule)...)
		}
	}
}

func rightsOfRule(user, namespace string, rule rbacv1.PolicyRule) []right {
	names := rule.ResourceNames
	if len(names) == 0 {
		names = []string{""}
	}
	var all []right
	for _, group := range rule.APIGroups {
		for _, resource := range rule.Resources {
			for _, name := range names {
				for _, verb := range rule.Verbs {
					all = append(all, right{user, namespace, group, resource, name, verb})
				}
			}
		}
	}
	return all
}

// used reads the records of all end-to-end tests.
func used(dir string) (map[right]bool, error) {
	all := map[right]bool{}
	for _, name := range []string{"e2e", "e2e-openshift", "e2e-olm"} {
		data, err := os.ReadFile(filepath.Join(dir, name+".json"))
		if err != nil {
			return nil, fmt.Errorf("the record of a story: %w", err)
		}
		var some []right
		if err := json.Unmarshal(data, &some); err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		for _, r := range some {
			all[r] = true
		}
	}
	return all, nil
}

// An unused permission helps only an intruder. `make test-e2e` runs this after all end-to-end tests.
func TestEveryRightIsUsed(t *testing.T) {
	exercised, err := used(os.Getenv(Dir))
	if err != nil {
		t.Fatalf("%v: `make test-e2e` writes it", err)
	}
	operator, err := rightsOf("lvms-operator", "operator_role.yaml")
	if err != nil {
		t.Fatal(err)
	}
	agent, err := rightsOf("vg-manager", "vg_manager_role.yaml")
	if err != nil {
		t.Fatal(err)
	}
	given := slices.Concat(operator, agent)
	if len(given) <= 50 {
		t.Fatalf("only %d rights were read", len(given))
	}
	unused := map[string]bool{}
	excused := maps.Clone(elsewhere)
	for _, r := range given {
		delete(excused, r.String())
		if !exercised[r] && elsewhere[r.String()] == "" {
			unused[r.String()] = true
		}
	}
	for _, r := range slices.Sorted(maps.Keys(unused)) {
		t.Errorf("%s (config/rbac), and no story used that: remove it, or name the test that uses it", r)
	}
	for _, r := range slices.Sorted(maps.Keys(excused)) {
		t.Errorf("%q is listed here as used elsewhere, but config/rbac does not have it", r)
	}
}
