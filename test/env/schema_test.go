//go:build env

package env

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/api/resource"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	lvmv1alpha1 "github.com/lvm-storage/lvm-operator/api/v1alpha1"
)

var server *Env

func TestMain(m *testing.M) { Main(m, func(e *Env) { server = e }) }

func cluster(t *testing.T, storage string) *lvmv1alpha1.LVMCluster {
	t.Helper()
	c := &lvmv1alpha1.LVMCluster{}
	c.Name = "my-lvmcluster"
	c.Namespace = Namespace
	if err := yaml.UnmarshalStrict([]byte(storage), &c.Spec.Storage); err != nil {
		t.Fatal(err)
	}
	return c
}

func wantRefusal(t *testing.T, err error, want string) {
	t.Helper()
	if err == nil {
		t.Fatalf("accepted, want a refusal with %q", want)
	}
	if !strings.Contains(err.Error(), want) {
		t.Fatalf("refused with\n  %v\nwant\n  %q", err, want)
	}
}

func TestCreateAndUpdateAreRefusedWith(t *testing.T) {
	tests := map[string]struct{ storage, want string }{
		"path not under /dev": {
			`{deviceClasses: [{name: vg1, deviceSelector: {paths: [/tmp/disk]}}]}`,
			`spec.storage.deviceClasses[0].deviceSelector.paths[0]: Invalid value: "/tmp/disk": spec.storage.deviceClasses[0].deviceSelector.paths[0] in body should match '^/dev(/+[^/.][^/]*)+$'`},
		"path that leaves /dev": {
			`{deviceClasses: [{name: vg1, deviceSelector: {optionalPaths: [/dev/../tmp/disk]}}]}`,
			`optionalPaths[0]: Invalid value: "/dev/../tmp/disk"`},
		"two defaults": {
			`{deviceClasses: [{name: vg1, default: true}, {name: vg2, default: true}]}`,
			`only one device class can be the default: set default to true in one device class only`},
		"empty device selector": {
			`{deviceClasses: [{name: vg1, deviceSelector: {}}]}`,
			`set paths, optionalPaths or at least one property of devices`},
		"name with a capital": {`{deviceClasses: [{name: VG1}]}`,
			`spec.storage.deviceClasses[0].name: Invalid value: "VG1"`},
		"name beyond an annotation": {`{deviceClasses: [{name: ` + strings.Repeat("a", 64) + `}]}`,
			`name can have at most 63 characters: it is the name of an annotation of the Node`},
		"name beyond a StorageClass": {`{deviceClasses: [{name: ` + strings.Repeat("a", 246) + `}]}`,
			`deviceClasses[0].name: Too long: may not be`},
		"unknown reclaim policy": {`{deviceClasses: [{name: vg1, storageClassOptions: {reclaimPolicy: Recycle}}]}`,
			`supported values: "Delete", "Retain"`},
		"unknown binding mode": {
			`{deviceClasses: [{name: vg1, storageClassOptions: {volumeBindingMode: Never}}]}`,
			`supported values: "WaitForFirstConsumer", "Immediate"`},
		"seventeen labels": {
			`{deviceClasses: [{name: vg1, storageClassOptions: {additionalLabels: {a: "", b: "", c: "", d: "", e: "", f: "", g: "", h: "", i: "", j: "", k: "", l: "", m: "", n: "", o: "", p: "", q: ""}}}]}`, `additionalLabels: Too many: 17`},
		"a selector for an existing group": {
			`{deviceClasses: [{name: vg1, existingVolumeGroup: data, deviceSelector: {paths: [/dev/sdb]}}]}`,
			`cannot be set together with existingVolumeGroup: the volume group and its devices are not changed`},
		"redundancy in an existing group": {
			`{deviceClasses: [{name: vg1, existingVolumeGroup: data, raidConfig: {type: raid1}}]}`,
			`cannot be set together with existingVolumeGroup`},
		"a cluster to adopt from, for an existing group": {
			`{deviceClasses: [{name: vg1, existingVolumeGroup: data, adoptClusters: [c1]}]}`,
			`cannot be set together with existingVolumeGroup`},
		"approval in an existing group": {
			`{deviceClasses: [{name: vg1, existingVolumeGroup: data, approval: Required}]}`,
			`approval cannot be set together with existingVolumeGroup`},
		"another approval": {`{deviceClasses: [{name: vg1, approval: Sometimes}]}`, `supported values: "Required"`},
		"no identity of a cluster": {`{deviceClasses: [{name: vg1, adoptClusters: ["c 1"]}]}`,
			`deviceClasses[0].adoptClusters[0]: Invalid value: "c 1"`},
		"a cluster twice": {`{deviceClasses: [{name: vg1, adoptClusters: [c1, c1]}]}`, `Duplicate value: "c1"`},
		"a request for a device of an existing group": {
			`{deviceClasses: [{name: vg1, existingVolumeGroup: data, deviceRequests: [{node: n, device: /dev/sdb, action: Drain}]}]}`,
			`cannot be set together with existingVolumeGroup`},
		"an existing pool that grows": {
			`{deviceClasses: [{name: vg1, existingVolumeGroup: data, thinPoolConfig: {name: p, overprovisionRatio: 1, autoExtend: {}}}]}`,
			`the thin pool must exist and is not changed`},
		"metadata of an existing pool": {
			`{deviceClasses: [{name: vg1, existingVolumeGroup: data, thinPoolConfig: {name: p, overprovisionRatio: 1, metadataSizeCalculationPolicy: Static}}]}`,
			`the thin pool must exist and is not changed`},
		"settings of no existing group": {
			`{deviceClasses: [{name: vg1, existingVolumeGroupConfig: {spareGiB: 10}}]}`,
			`existingVolumeGroupConfig requires existingVolumeGroup`},
		"stripes of thin volumes": {
			`{deviceClasses: [{name: vg1, existingVolumeGroup: data, existingVolumeGroupConfig: {stripes: 2}, thinPoolConfig: {name: p, overprovisionRatio: 1}}]}`,
			`cannot be set together with thinPoolConfig: the blocks of thin volumes`},
		"options for thin volumes": {
			`{deviceClasses: [{name: vg1, existingVolumeGroup: data, existingVolumeGroupConfig: {lvcreateOptions: [--type=raid1]}, thinPoolConfig: {name: p, overprovisionRatio: 1}}]}`,
			`cannot be set together with thinPoolConfig: the blocks of thin volumes`},
		"allocation of thin volumes": {
			`{deviceClasses: [{name: vg1, existingVolumeGroup: data, existingVolumeGroupConfig: {allocation: Any}, thinPoolConfig: {name: p, overprovisionRatio: 1}}]}`,
			`cannot be set together with thinPoolConfig: the blocks of thin volumes`},
		"an unknown allocation in an existing group": {
			`{deviceClasses: [{name: vg1, existingVolumeGroup: data, existingVolumeGroupConfig: {allocation: Contiguous}}]}`,
			`supported values: "Any", "SingleDevice"`},
		"stripes on one device of an existing group": {
			`{deviceClasses: [{name: vg1, existingVolumeGroup: data, existingVolumeGroupConfig: {allocation: SingleDevice, stripes: 2}}]}`,
			`are mutually exclusive: their volumes are on several devices`},
		"redundancy on one device": {
			`{deviceClasses: [{name: vg1, existingVolumeGroup: data, existingVolumeGroupConfig: {allocation: SingleDevice, lvcreateOptions: [--readahead=1, --type=raid1]}}]}`,
			`are mutually exclusive: their volumes are on several devices`},
		"a stripe size without stripes": {
			`{deviceClasses: [{name: vg1, existingVolumeGroup: data, existingVolumeGroupConfig: {stripeSize: 64Ki}}]}`,
			`stripeSize requires stripes`},
		"stripes of an existing thin pool": {
			`{deviceClasses: [{name: vg1, existingVolumeGroup: data, thinPoolConfig: {name: p, overprovisionRatio: 1, stripes: 2}}]}`,
			`the thin pool must exist and is not changed`},
		"a stripe size of a thin pool without stripes": {
			`{deviceClasses: [{name: vg1, thinPoolConfig: {name: p, overprovisionRatio: 1, stripeSize: 64Ki}}]}`,
			`stripeSize requires stripes`},
		"one stripe of a thin pool": {`{deviceClasses: [{name: vg1, thinPoolConfig: {name: p, overprovisionRatio: 1, stripes: 1}}]}`,
			`should be greater than or equal to 2`},
		"stripes twice": {
			`{deviceClasses: [{name: vg1, existingVolumeGroup: data, existingVolumeGroupConfig: {stripes: 2, lvcreateOptions: [--type=raid5, --stripesize=8k]}}]}`,
			`are mutually exclusive: remove one of them`},
		"an option that is not allowed": {
			`{deviceClasses: [{name: vg1, existingVolumeGroup: data, existingVolumeGroupConfig: {lvcreateOptions: [--config=x]}}]}`,
			`must be --nosync, or one of --type`}, // Kubernetes 1.30 does not show the value
		"a type that is not allowed": {
			`{deviceClasses: [{name: vg1, existingVolumeGroup: data, existingVolumeGroupConfig: {lvcreateOptions: [--type=cache]}}]}`,
			`must be --nosync, or one of --type (linear, striped or a type of RAID)`},
		"an option in two words": {
			`{deviceClasses: [{name: vg1, existingVolumeGroup: data, existingVolumeGroupConfig: {lvcreateOptions: [--type, raid1]}}]}`,
			`with = and a value, for example --type=raid1`},
		"no name of an existing group": {`{deviceClasses: [{name: vg1, existingVolumeGroup: "-x"}]}`,
			`deviceClasses[0].existingVolumeGroup: Invalid value: "-x"`},
		"unknown file system": {`{deviceClasses: [{name: vg1, fstype: btrfs}]}`,
			`supported values: "xfs", "ext4"`},
		"no overprovision ratio": {
			`{deviceClasses: [{name: vg1, thinPoolConfig: {name: p, overprovisionRatio: 0}}]}`,
			`should be greater than or equal to 1`},
		"overprovision ratio of 101": {
			`{deviceClasses: [{name: vg1, thinPoolConfig: {name: p, overprovisionRatio: 101}}]}`,
			`should be less than or equal to 100`},
		"no retention": {`{deviceClasses: [{name: vg1, deletedVolumeRetention: 59m}]}`, `must be at least 1h`},
		"retention without unit": {`{deviceClasses: [{name: vg1, deletedVolumeRetention: "7"}]}`,
			`deletedVolumeRetention in body should match`},
		"zeros for thin volumes": {
			`{deviceClasses: [{name: vg1, thinPoolConfig: {name: p, overprovisionRatio: 1}, eraseOnDelete: Zero}]}`,
			`eraseOnDelete Zero cannot be set together with thinPoolConfig`},
		"unknown method to erase": {`{deviceClasses: [{name: vg1, eraseOnDelete: Shred}]}`,
			`supported values: "None", "Discard", "Zero"`},
		"two limits for a namespace": {
			`{deviceClasses: [{name: vg1, namespaceLimits: [{namespace: a, perNode: 1Gi}, {namespace: a, perNode: 2Gi}]}]}`,
			`namespaceLimits[1]: Duplicate value: `},
		"two limits for all others": {
			`{deviceClasses: [{name: vg1, namespaceLimits: [{perNode: 1Gi}, {perNode: 2Gi}]}]}`,
			`namespaceLimits[1]: Duplicate value: `},
		"no name of a namespace": {`{deviceClasses: [{name: vg1, namespaceLimits: [{namespace: A, perNode: 1Gi}]}]}`,
			`namespaceLimits[0].namespace: Invalid value: "A"`},
		"unknown schedule of trims": {`{deviceClasses: [{name: vg1, trim: {schedule: Monthly}}]}`,
			`supported values: "None", "Daily", "Weekly"`},
		"threshold of a pool for thick volumes": {
			`{deviceClasses: [{name: vg1, trim: {poolUsageThresholdPercent: 80}}]}`,
			`trim.poolUsageThresholdPercent requires thinPoolConfig`},
		"discards of an existing pool": {
			`{deviceClasses: [{name: vg1, existingVolumeGroup: data, thinPoolConfig: {name: p, overprovisionRatio: 1, discards: PassDown}}]}`,
			`thinPoolConfig.discards cannot be set together with existingVolumeGroup`},
		"a pool that ignores discards": {
			`{deviceClasses: [{name: vg1, thinPoolConfig: {name: p, overprovisionRatio: 1, discards: Ignore}}]}`,
			`supported values: "PassDown", "NoPassDown"`},
		"threshold of a full pool": {
			`{deviceClasses: [{name: vg1, thinPoolConfig: {name: p, overprovisionRatio: 1}, trim: {poolUsageThresholdPercent: 100}}]}`,
			`should be less than or equal to 99`},
		"size percent of 5": {
			`{deviceClasses: [{name: vg1, thinPoolConfig: {name: p, overprovisionRatio: 1, sizePercent: 5}}]}`,
			`should be greater than or equal to 10`},
		"selector and selectors": {
			`{deviceClasses: [{name: vg1, deviceSelector: {paths: [/dev/sda]}, deviceSelectors: [{paths: [/dev/sdb]}]}]}`,
			`deviceSelector and deviceSelectors are mutually exclusive`},
		"empty selector of some nodes": {`{deviceClasses: [{name: vg1, deviceSelectors: [{}]}]}`,
			`set paths, optionalPaths or at least one property of devices`},
		"wipe without a name": {
			`{deviceClasses: [{name: vg1, deviceSelector: {minSize: 1Gi, forceWipeDevicesAndDestroyAllData: true}}]}`,
			`only devices that are named there are wiped`},
		"redundancy and a thin pool": {
			`{deviceClasses: [{name: vg1, raidConfig: {type: raid1}, thinPoolConfig: {name: p, overprovisionRatio: 1}}]}`,
			`raidConfig and thinPoolConfig are mutually exclusive`},
		"unknown level": {`{deviceClasses: [{name: vg1, raidConfig: {type: raid0}}]}`,
			`supported values: "raid1"`},
		"mirrors of raid5": {`{deviceClasses: [{name: vg1, raidConfig: {type: raid5, mirrors: 1}}]}`,
			`mirrors can only be set for raid1 and raid10`},
		"stripes of raid1": {`{deviceClasses: [{name: vg1, raidConfig: {type: raid1, stripes: 2}}]}`,
			`stripes cannot be set for raid1`},
		"stripe size of raid1": {`{deviceClasses: [{name: vg1, raidConfig: {type: raid1, stripeSize: 64Ki}}]}`,
			`stripeSize cannot be set for raid1`},
		"two stripes of raid6": {`{deviceClasses: [{name: vg1, raidConfig: {type: raid6, stripes: 2}}]}`,
			`raid6 requires at least 3 stripes`},
		"unknown action": {
			`{deviceClasses: [{name: vg1, deviceRequests: [{node: n, device: d, action: Burn}]}]}`,
			`supported values: "Cordon", "Drain", "Remove"`},
		"one device asked for twice": {
			`{deviceClasses: [{name: vg1, deviceRequests: [{node: n, device: d, action: Cordon}, {node: n, device: d, action: Drain}]}]}`, `Duplicate value`},
		"mirrors beyond LVM's": {`{deviceClasses: [{name: vg1, raidConfig: {type: raid1, mirrors: 10}}]}`,
			`should be less than or equal to 9`},
		"no mirror": {`{deviceClasses: [{name: vg1, raidConfig: {type: raid10, mirrors: 0}}]}`,
			`should be greater than or equal to 1`},
		"one stripe": {`{deviceClasses: [{name: vg1, raidConfig: {type: raid5, stripes: 1}}]}`,
			`should be greater than or equal to 2`},
		"two mirrors of raid10": {`{deviceClasses: [{name: vg1, raidConfig: {type: raid10, mirrors: 2}}]}`,
			`mirrors must be 1 for raid10: LVM does not support more`},
		"mirrors of raid6": {`{deviceClasses: [{name: vg1, raidConfig: {type: raid6, mirrors: 1}}]}`,
			`mirrors can only be set for raid1 and raid10`},
		"no level": {`{deviceClasses: [{name: vg1, raidConfig: {mirrors: 1}}]}`,
			`Unsupported value: "": supported values: "raid1"`},
		"path that is a folder": {`{deviceClasses: [{name: vg1, deviceSelectors: [{optionalPaths: [/dev/]}]}]}`,
			`deviceSelectors[0].optionalPaths[0]: Invalid value: "/dev/"`},
		"wipe on some nodes, unnamed": {
			`{deviceClasses: [{name: vg1, deviceSelectors: [{models: [X], forceWipeDevicesAndDestroyAllData: true}]}]}`,
			`only devices that are named there are wiped`},
		"request without a node": {
			`{deviceClasses: [{name: vg1, deviceRequests: [{node: "", device: d, action: Drain}]}]}`,
			`deviceRequests[0].node`},
		"request without a device": {
			`{deviceClasses: [{name: vg1, deviceRequests: [{node: n, device: "", action: Drain}]}]}`,
			`deviceRequests[0].device`},
		"adoption without a group": {`{deviceClasses: [{name: vg1, adopt: [{node: n, volumeGroupUUID: ""}]}]}`,
			`adopt[0].volumeGroupUUID`},
		"one node adopts two": {
			`{deviceClasses: [{name: vg1, adopt: [{node: n, volumeGroupUUID: a}, {node: n, volumeGroupUUID: b}]}]}`,
			`Duplicate value`},
		"seventeen labels of devices": {
			`{deviceClasses: [{name: vg1, deviceSelector: {labels: {a: "", b: "", c: "", d: "", e: "", f: "", g: "", h: "", i: "", j: "", k: "", l: "", m: "", n: "", o: "", p: "", q: ""}}}]}`, `deviceSelector.labels: Too many: 17`},
		"no labels of devices": {`{deviceClasses: [{name: vg1, deviceSelector: {labels: {}}}]}`,
			`set paths, optionalPaths or at least one property of devices`},
		"empty property": {`{deviceClasses: [{name: vg1, deviceSelector: {models: [""]}}]}`,
			`deviceSelector.models[0]`},
		"growth from 96 percent": {
			`{deviceClasses: [{name: vg1, thinPoolConfig: {name: p, overprovisionRatio: 1, autoExtend: {thresholdPercent: 96}}}]}`, `should be less than or equal to 95`},
		"a mark of 49 percent": {
			`{deviceClasses: [{name: vg1, thinPoolConfig: {name: p, overprovisionRatio: 1, highWaterMarkPercent: 49}}]}`, `should be greater than or equal to 50`},
		"a mark of 101 percent": {
			`{deviceClasses: [{name: vg1, thinPoolConfig: {name: p, overprovisionRatio: 1, highWaterMarkPercent: 101}}]}`, `should be less than or equal to 100`},
		"thick settings of a pool": {
			`{deviceClasses: [{name: vg1, thickConfig: {}, thinPoolConfig: {name: p, overprovisionRatio: 1}}]}`,
			`thickConfig cannot be set together with`},
		"thick settings with redundancy": {
			`{deviceClasses: [{name: vg1, thickConfig: {}, raidConfig: {type: raid1}}]}`,
			`thickConfig cannot be set together with`},
		"thick settings of an existing group": {
			`{deviceClasses: [{name: vg1, thickConfig: {}, existingVolumeGroup: data}]}`,
			`thickConfig cannot be set together with`},
		"another allocation": {
			`{deviceClasses: [{name: vg1, thickConfig: {allocation: Contiguous}}]}`, `supported values: "Any", "SingleDevice"`},
		"stripes on a single device": {
			`{deviceClasses: [{name: vg1, thickConfig: {allocation: SingleDevice, stripes: 2}}]}`,
			`stripes and allocation SingleDevice are mutually exclusive`},
		"one stripe of thick volumes": {
			`{deviceClasses: [{name: vg1, thickConfig: {stripes: 1}}]}`, `should be greater than or equal to 2`},
		"129 stripes of thick volumes": {
			`{deviceClasses: [{name: vg1, thickConfig: {stripes: 129}}]}`, `should be less than or equal to 128`},
		"a stripe size of thick volumes alone": {
			`{deviceClasses: [{name: vg1, thickConfig: {stripeSize: 64Ki}}]}`, `stripeSize requires stripes`},
		"an option with a type": {
			`{deviceClasses: [{name: vg1, thickConfig: {lvcreateOptions: [--type=raid1]}}]}`, `must be --readahead=auto`},
		"an option with a second one": {
			`{deviceClasses: [{name: vg1, thickConfig: {lvcreateOptions: ["--readahead=1 --type=raid1"]}}]}`,
			`must be --readahead=auto`},
		"two options of thick volumes": {
			`{deviceClasses: [{name: vg1, thickConfig: {lvcreateOptions: [--readahead=1, --readahead=2]}}]}`,
			`must have at most 1 item`},
		"growth above the mark": {
			`{deviceClasses: [{name: vg1, thinPoolConfig: {name: p, overprovisionRatio: 1, highWaterMarkPercent: 79, autoExtend: {}}}]}`, `autoExtend.thresholdPercent must not be greater than highWaterMarkPercent`},
		"growth by 4 percent": {
			`{deviceClasses: [{name: vg1, thinPoolConfig: {name: p, overprovisionRatio: 1, autoExtend: {stepPercent: 4}}}]}`, `should be greater than or equal to 5`},
		"growth by 101 percent": {
			`{deviceClasses: [{name: vg1, thinPoolConfig: {name: p, overprovisionRatio: 1, autoExtend: {stepPercent: 101}}}]}`, `should be less than or equal to 100`},
		"growth from 10 percent": {
			`{deviceClasses: [{name: vg1, thinPoolConfig: {name: p, overprovisionRatio: 1, autoExtend: {thresholdPercent: 10}}}]}`, `should be greater than or equal to 50`},
	}
	ctx := context.Background()
	before := cluster(t, `{deviceClasses: [{name: other}]}`)
	before.Name = "before"
	if err := server.Client.Create(ctx, before); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = server.Client.Delete(ctx, before) })
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			after := cluster(t, tt.storage)
			changed := before.DeepCopy()
			changed.Spec = *after.Spec.DeepCopy()
			wantRefusal(t, server.Client.Create(ctx, after, client.DryRunAll), tt.want)
			wantRefusal(t, server.Client.Update(ctx, changed, client.DryRunAll), tt.want)
		})
	}
}

func TestAccepted(t *testing.T) {
	for name, storage := range map[string]string{
		"no device class":                 `{}`,
		"two slashes":                     `{deviceClasses: [{name: vg1, deviceSelector: {paths: [/dev//disk/by-id//x]}}]}`,
		"every property":                  `{deviceClasses: [{name: vg1, deviceSelector: {minSize: 1Gi, maxSize: 2Gi, rotational: false, models: ["X*"], vendors: [Y], serials: [Z], transports: [nvme], removable: true}}]}`,
		"a StorageClass":                  `{deviceClasses: [{name: vg1, storageClassOptions: {reclaimPolicy: Retain, volumeBindingMode: Immediate, additionalParameters: {a: b}, additionalLabels: {c: d}}}]}`,
		"labels of devices":               `{deviceClasses: [{name: vg1, deviceSelectors: [{labels: {tier: fast, example.com/rack: ""}}]}]}`,
		"one property":                    `{deviceClasses: [{name: vg1, deviceSelectors: [{rotational: false}]}]}`,
		"an existing group":               `{deviceClasses: [{name: vg1, existingVolumeGroup: Data_1, thinPoolConfig: {name: p, overprovisionRatio: 1}}, {name: vg2, existingVolumeGroup: Data_1}]}`,
		"settings of an existing group":   `{deviceClasses: [{name: vg1, existingVolumeGroup: data, existingVolumeGroupConfig: {spareGiB: 10, stripes: 2, stripeSize: 64Ki, lvcreateOptions: [--readahead=auto]}}, {name: vg2, existingVolumeGroup: b, existingVolumeGroupConfig: {lvcreateOptions: [--type=raid6_ls_6, --stripes=3, --stripesize=64k, --regionsize=2M, --nosync, --minrecoveryrate=10, --mirrors=1]}}]}`,
		"one device of an existing group": `{deviceClasses: [{name: vg1, existingVolumeGroup: data, existingVolumeGroupConfig: {allocation: SingleDevice, lvcreateOptions: [--type=linear, --readahead=1]}}, {name: vg2, existingVolumeGroup: b, existingVolumeGroupConfig: {allocation: Any, stripes: 2, lvcreateOptions: [--readahead=1]}}]}`,
		"a mirror":                        `{deviceClasses: [{name: vg1, raidConfig: {type: raid1, mirrors: 9}}]}`,
		"raid4":                           `{deviceClasses: [{name: vg1, raidConfig: {type: raid4, stripes: 60, stripeSize: 4Ki}}]}`,
		"raid6":                           `{deviceClasses: [{name: vg1, raidConfig: {type: raid6, stripes: 3}}]}`,
		"raid10":                          `{deviceClasses: [{name: vg1, raidConfig: {type: raid10, mirrors: 1, stripes: 2, stripeSize: 4Mi}}]}`,
		"wipe with a name":                `{deviceClasses: [{name: vg1, deviceSelector: {optionalPaths: [/dev/disk/by-id/x], forceWipeDevicesAndDestroyAllData: true}}]}`,
		"no wipe, no name":                `{deviceClasses: [{name: vg1, deviceSelector: {minSize: 1Gi, forceWipeDevicesAndDestroyAllData: false}}]}`,
		"growth at the mark":              `{deviceClasses: [{name: vg1, thinPoolConfig: {name: p, overprovisionRatio: 1, highWaterMarkPercent: 80, autoExtend: {}}}]}`,
		"no mark":                         `{deviceClasses: [{name: vg1, thinPoolConfig: {name: p, overprovisionRatio: 1, highWaterMarkPercent: 100}}]}`,
		"limits of growth":                `{deviceClasses: [{name: vg1, thinPoolConfig: {name: p, overprovisionRatio: 1, autoExtend: {thresholdPercent: 95, stepPercent: 100}}}]}`,
		"least growth":                    `{deviceClasses: [{name: vg1, thinPoolConfig: {name: p, overprovisionRatio: 1, autoExtend: {thresholdPercent: 50, stepPercent: 5}}}]}`,
		"requests":                        `{deviceClasses: [{name: vg1, deviceRequests: [{node: n, device: d, action: Cordon}, {node: n, device: e, action: Drain, suspend: true}, {node: m, device: d, action: Remove}], adopt: [{node: n, volumeGroupUUID: u}]}]}`,
		"thick on one device":             `{deviceClasses: [{name: vg1, thickConfig: {allocation: SingleDevice, lvcreateOptions: [--readahead=8192]}}, {name: vg2, thickConfig: {}}]}`,
		"thick and striped":               `{deviceClasses: [{name: vg1, thickConfig: {allocation: Any, stripes: 128, stripeSize: 4Mi, lvcreateOptions: [--readahead=none]}}]}`,
		"trims of thick volumes":          `{deviceClasses: [{name: vg1, trim: {}}, {name: vg2, trim: {schedule: None}}]}`,
		"trims for a pool":                `{deviceClasses: [{name: vg1, thinPoolConfig: {name: p, overprovisionRatio: 1, discards: NoPassDown}, trim: {schedule: Daily, poolUsageThresholdPercent: 99}}]}`,
		"empty deviceSelectors":           `{deviceClasses: [{name: vg1, deviceSelector: {paths: [/dev/sda]}, deviceSelectors: []}]}`,
	} {
		if err := server.Client.Create(context.Background(), cluster(t, storage), client.DryRunAll); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestSamplesAreAccepted checks that the samples of the repository are valid and have no unknown fields.
func TestSamplesAreAccepted(t *testing.T) {
	repository, err := root()
	if err != nil {
		t.Fatal(err)
	}
	samples, err := filepath.Glob(filepath.Join(repository, "config", "samples", "lvm_*.yaml"))
	if err != nil || len(samples) < 3 {
		t.Fatalf("samples %q, %v", samples, err)
	}
	for _, sample := range samples {
		data, err := os.ReadFile(sample)
		if err != nil {
			t.Fatal(err)
		}
		c := &lvmv1alpha1.LVMCluster{}
		if err := yaml.UnmarshalStrict(data, c); err != nil {
			t.Errorf("%s: %v", sample, err)
		}
		if err := server.Client.Create(context.Background(), c, client.DryRunAll); err != nil {
			t.Errorf("%s: %v", sample, err)
		}
	}
}

func TestDefaultsAreInTheSchema(t *testing.T) {
	c := cluster(t, `{deviceClasses: [{name: vg1, thinPoolConfig: {name: pool, overprovisionRatio: 10}}]}`)
	if err := server.Client.Create(context.Background(), c, client.DryRunAll); err != nil {
		t.Fatal(err)
	}
	class := c.Spec.Storage.DeviceClasses[0]
	pool := class.ThinPoolConfig
	if class.FilesystemType != lvmv1alpha1.FilesystemTypeXFS || class.DeviceDiscoveryPolicy != "" {
		t.Errorf("class defaults: %+v", class)
	}
	grown := cluster(t,
		`{deviceClasses: [{name: vg1, thinPoolConfig: {name: pool, overprovisionRatio: 10, autoExtend: {}}}]}`)
	if err := server.Client.Create(context.Background(), grown, client.DryRunAll); err != nil {
		t.Fatal(err)
	}
	if got, want := *grown.Spec.Storage.DeviceClasses[0].ThinPoolConfig.AutoExtend,
		(lvmv1alpha1.AutoExtend{ThresholdPercent: 80, StepPercent: 20}); got != want {
		t.Errorf("growth defaults: %+v", got)
	}
	trimmed := cluster(t, `{deviceClasses: [{name: vg1, trim: {}}]}`)
	if err := server.Client.Create(context.Background(), trimmed, client.DryRunAll); err != nil {
		t.Fatal(err)
	}
	if got := trimmed.Spec.Storage.DeviceClasses[0].Trim; got == nil ||
		*got != (lvmv1alpha1.TrimConfig{Schedule: lvmv1alpha1.TrimWeekly}) || class.Trim != nil {
		t.Errorf("trim defaults: %+v, %+v if it is not set", got, class.Trim)
	}
	if pool.SizePercent != 90 || pool.ChunkSizeCalculationPolicy != lvmv1alpha1.SizeCalculationStatic ||
		pool.MetadataSizeCalculationPolicy != lvmv1alpha1.SizeCalculationHost {
		t.Errorf("pool defaults: %+v", pool)
	}
}

func TestRedundancyCannotBeChanged(t *testing.T) {
	ctx := context.Background()
	c := cluster(t,
		`{deviceClasses: [{name: vg1, raidConfig: {type: raid5, stripes: 2, stripeSize: 64Ki}}, {name: vg2}]}`)
	if err := server.Client.Create(ctx, c); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = server.Client.Delete(ctx, c) })
	for name, change := range map[string]func([]lvmv1alpha1.DeviceClass){
		"raidConfig is immutable": func(
			c []lvmv1alpha1.DeviceClass) {
			c[0].RAIDConfig.Type = lvmv1alpha1.RAIDType4
		},
		"raidConfig cannot be added": func(c []lvmv1alpha1.DeviceClass) { c[1].RAIDConfig = c[0].RAIDConfig },
		"to or removed from":         func(c []lvmv1alpha1.DeviceClass) { c[0].RAIDConfig = nil },
	} {
		changed := c.DeepCopy()
		change(changed.Spec.Storage.DeviceClasses)
		wantRefusal(t, server.Client.Update(ctx, changed, client.DryRunAll), name)
	}
	for name, change := range map[string]func(*lvmv1alpha1.RAIDConfig){
		"stripes":     func(r *lvmv1alpha1.RAIDConfig) { r.Stripes = nil },
		"stripe size": func(r *lvmv1alpha1.RAIDConfig) { r.StripeSize = nil },
	} {
		changed := c.DeepCopy()
		change(changed.Spec.Storage.DeviceClasses[0].RAIDConfig)
		t.Run(name, func(t *testing.T) {
			wantRefusal(t, server.Client.Update(ctx, changed, client.DryRunAll), "raidConfig is immutable")
		})
	}
	changed := c.DeepCopy()
	changed.Spec.Storage.DeviceClasses[0].DeviceRequests = []lvmv1alpha1.DeviceRequest{{Node: "n", Device: "/dev/sda",
		Action: lvmv1alpha1.DeviceActionDrain}}
	if err := server.Client.Update(ctx, changed, client.DryRunAll); err != nil {
		t.Errorf("a request for a device: %v", err)
	}
}

func TestStripesCannotBeChanged(t *testing.T) {
	ctx := context.Background()
	c := cluster(t, `{deviceClasses: [{name: vg1, thinPoolConfig: {name: p, overprovisionRatio: 1, stripes: 2, `+
		`stripeSize: 64Ki}}, {name: vg2, thinPoolConfig: {name: p, overprovisionRatio: 1}}]}`)
	if err := server.Client.Create(ctx, c); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = server.Client.Delete(ctx, c) })
	for name, change := range map[string]func(striped, plain *lvmv1alpha1.ThinPoolConfig){
		"more stripes":         func(s, _ *lvmv1alpha1.ThinPoolConfig) { s.Stripes = new(int32(3)) },
		"another size":         func(s, _ *lvmv1alpha1.ThinPoolConfig) { s.StripeSize = new(resource.MustParse("128Ki")) },
		"the default size":     func(s, _ *lvmv1alpha1.ThinPoolConfig) { s.StripeSize = nil },
		"no stripes":           func(s, _ *lvmv1alpha1.ThinPoolConfig) { s.Stripes, s.StripeSize = nil, nil },
		"stripes of a present": func(_, p *lvmv1alpha1.ThinPoolConfig) { p.Stripes = new(int32(2)) },
	} {
		t.Run(name, func(t *testing.T) {
			changed := c.DeepCopy()
			classes := changed.Spec.Storage.DeviceClasses
			change(classes[0].ThinPoolConfig, classes[1].ThinPoolConfig)
			wantRefusal(t, server.Client.Update(ctx, changed, client.DryRunAll), "stripes and stripeSize are immutable")
		})
	}
	changed := c.DeepCopy()
	changed.Spec.Storage.DeviceClasses[0].ThinPoolConfig.OverprovisionRatio = 2
	if err := server.Client.Update(ctx, changed, client.DryRunAll); err != nil {
		t.Errorf("another ratio: %v", err)
	}
}

func TestThickSettingsCanBeChanged(t *testing.T) {
	ctx := context.Background()
	c := cluster(t, `{deviceClasses: [{name: vg1, thickConfig: {stripes: 2}}, {name: vg2}]}`)
	if err := server.Client.Create(ctx, c); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = server.Client.Delete(ctx, c) })
	changed := c.DeepCopy()
	changed.Spec.Storage.DeviceClasses[0].ThickConfig = &lvmv1alpha1.ThickConfig{
		Allocation: lvmv1alpha1.AllocationSingleDevice}
	changed.Spec.Storage.DeviceClasses[1].ThickConfig = &lvmv1alpha1.ThickConfig{Stripes: new(int32(4))}
	if err := server.Client.Update(ctx, changed, client.DryRunAll); err != nil {
		t.Errorf("changed and added: %v", err)
	}
	changed = c.DeepCopy()
	changed.Spec.Storage.DeviceClasses[0].ThickConfig = nil
	if err := server.Client.Update(ctx, changed, client.DryRunAll); err != nil {
		t.Errorf("removed: %v", err)
	}
}

func TestAnExistingVolumeGroupCannotBeChanged(t *testing.T) {
	ctx := context.Background()
	c := cluster(t, `{deviceClasses: [{name: vg1, existingVolumeGroup: data}, {name: vg2}]}`)
	if err := server.Client.Create(ctx, c); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = server.Client.Delete(ctx, c) })
	for want, change := range map[string]func([]lvmv1alpha1.DeviceClass){
		"existingVolumeGroup is immutable": func(c []lvmv1alpha1.DeviceClass) { c[0].ExistingVolumeGroup = "other" },
		"existingVolumeGroup cannot be added to": func(c []lvmv1alpha1.DeviceClass) {
			c[1].ExistingVolumeGroup = "data"
		},
		"or removed from an existing device class": func(c []lvmv1alpha1.DeviceClass) { c[0].ExistingVolumeGroup = "" },
	} {
		changed := c.DeepCopy()
		change(changed.Spec.Storage.DeviceClasses)
		wantRefusal(t, server.Client.Update(ctx, changed, client.DryRunAll), want)
	}
}

func TestUpdateIsRefusedWith(t *testing.T) {
	const before = `{deviceClasses: [{name: vg1, fstype: xfs, nodeSelector: {nodeSelectorTerms: [{matchExpressions: [{key: a, operator: Exists}]}]},
	  thinPoolConfig: {name: pool, overprovisionRatio: 10, sizePercent: 50, chunkSize: 128Ki, metadataSizeCalculationPolicy: Static, metadataSize: 1Gi}},
	  {name: vg2}]}`
	tests := map[string]struct {
		change func(*lvmv1alpha1.DeviceClass)
		want   string
	}{
		"another file system": {func(c *lvmv1alpha1.DeviceClass) { c.FilesystemType = "ext4" },
			"fstype is immutable"},
		"the thin pool is removed": {func(c *lvmv1alpha1.DeviceClass) { c.ThinPoolConfig = nil },
			"thinPoolConfig cannot be added to or removed from"},
		"another pool name": {func(c *lvmv1alpha1.DeviceClass) { c.ThinPoolConfig.Name = "x" },
			"name is immutable"},
		"another size percent": {func(c *lvmv1alpha1.DeviceClass) { c.ThinPoolConfig.SizePercent = 60 },
			"sizePercent is immutable"},
	}
	ctx := context.Background()
	c := cluster(t, before)
	if err := server.Client.Create(ctx, c); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = server.Client.Delete(ctx, c) })
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			changed := c.DeepCopy()
			tt.change(&changed.Spec.Storage.DeviceClasses[0])
			wantRefusal(t, server.Client.Update(ctx, changed, client.DryRunAll), tt.want)
		})
	}
	t.Run("but the overprovision ratio and the nodes may change", func(t *testing.T) {
		changed := c.DeepCopy()
		changed.Spec.Storage.DeviceClasses[0].ThinPoolConfig.OverprovisionRatio = 20
		changed.Spec.Storage.DeviceClasses[0].NodeSelector = nil
		if err := server.Client.Update(ctx, changed, client.DryRunAll); err != nil {
			t.Fatal(err)
		}
	})
}
