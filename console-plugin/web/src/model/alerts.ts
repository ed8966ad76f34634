// Written by `make generate`, from monitoring/rules.

/** Where the runbooks are, by the name of the alert. */
export const RUNBOOKS = 'https://github.com/lvm-storage/lvm-operator/blob/main/monitoring/runbooks/';

/** What each alert says; $labels are those of the alert. */
export const summaries: Record<string, string> = {
  LVMSThinPoolDataFull: 'The thin pool data of device class {{ $labels.device_class }} on node {{ $labels.node }} is at least 95% full.',
  ThinPoolDataUsageAtThresholdCritical: 'The thin pool data of device class {{ $labels.device_class }} on node {{ $labels.node }} is at least 85% full.',
  LVMSThinPoolDataFillingUpInHours: 'The thin pool data of device class {{ $labels.device_class }} on node {{ $labels.node }} is predicted to be full within 4 hours.',
  ThinPoolDataUsageAtThresholdNearFull: 'The thin pool data of device class {{ $labels.device_class }} on node {{ $labels.node }} is at least 75% full.',
  LVMSThinPoolDataFillingUpInDays: 'The thin pool data of device class {{ $labels.device_class }} on node {{ $labels.node }} is predicted to be full within 4 days.',
  LVMSThinPoolMetadataFull: 'The thin pool metadata of device class {{ $labels.device_class }} on node {{ $labels.node }} is at least 95% full.',
  ThinPoolMetaDataUsageAtThresholdCritical: 'The thin pool metadata of device class {{ $labels.device_class }} on node {{ $labels.node }} is at least 85% full.',
  LVMSThinPoolMetadataFillingUpInHours: 'The thin pool metadata of device class {{ $labels.device_class }} on node {{ $labels.node }} is predicted to be full within 4 hours.',
  ThinPoolMetaDataUsageAtThresholdNearFull: 'The thin pool metadata of device class {{ $labels.device_class }} on node {{ $labels.node }} is at least 75% full.',
  LVMSThinPoolMetadataFillingUpInDays: 'The thin pool metadata of device class {{ $labels.device_class }} on node {{ $labels.node }} is predicted to be full within 4 days.',
  LVMSVolumeGroupFull: 'The volume group of device class {{ $labels.device_class }} on node {{ $labels.node }} is at least 95% full.',
  VolumeGroupUsageAtThresholdCritical: 'The volume group of device class {{ $labels.device_class }} on node {{ $labels.node }} is at least 85% full.',
  LVMSVolumeGroupFillingUpInHours: 'The volume group of device class {{ $labels.device_class }} on node {{ $labels.node }} is predicted to be full within 4 hours.',
  VolumeGroupUsageAtThresholdNearFull: 'The volume group of device class {{ $labels.device_class }} on node {{ $labels.node }} is at least 75% full.',
  LVMSVolumeGroupFillingUpInDays: 'The volume group of device class {{ $labels.device_class }} on node {{ $labels.node }} is predicted to be full within 4 days.',
  LVMSVolumeGroupMetadataFull: 'The LVM metadata area of the volume group of device class {{ $labels.device_class }} on node {{ $labels.node }} is at least 75% full.',
  LVMSThinPoolOvercommitRisk: 'The thin pool of device class {{ $labels.device_class }} on node {{ $labels.node }} is overcommitted, and at least half full.',
  LVMSDeviceMissing: 'A device of device class {{ $labels.device_class }} on node {{ $labels.node }} is missing.',
  LVMSDeviceFailing: 'A device of device class {{ $labels.device_class }} on node {{ $labels.node }} is failing.',
  LVMSDeviceFailurePredicted: 'SMART predicts the failure of disk {{ $labels.device }} on node {{ $labels.node }}.',
  LVMSRAIDFailed: 'Volumes of device class {{ $labels.device_class }} on node {{ $labels.node }} lost more devices than their redundancy tolerates.',
  LVMSRAIDDegraded: 'Volumes of device class {{ $labels.device_class }} on node {{ $labels.node }} have reduced redundancy.',
  LVMSRAIDNotResyncing: 'The synchronization of volumes of device class {{ $labels.device_class }} on node {{ $labels.node }} has stopped.',
  LVMSRAIDSyncSlow: 'Volumes of device class {{ $labels.device_class }} on node {{ $labels.node }} have been synchronizing for 12 hours.',
  LVMSVolumeGroupFailed: 'The volume group of device class {{ $labels.device_class }} on node {{ $labels.node }} has failed.',
  LVMSVolumeGroupDegraded: 'The volume group of device class {{ $labels.device_class }} on node {{ $labels.node }} is degraded.',
  LVMSFileSystemBroken: 'The file system of a volume of device class {{ $labels.device_class }} on node {{ $labels.node }} has failed.',
  LVMSUnmanagedVolumeGroup: 'Node {{ $labels.node }} has a volume group that LVM Storage does not manage.',
  LVMSOperatorDown: 'The LVM Storage operator is down.',
  LVMSAgentDown: 'The node agent on node {{ $labels.node }} is down.',
  LVMSCapacityStale: 'The storage capacity of node {{ $labels.node }} is unknown.',
  LVMSNodeNotObserved: 'The devices of node {{ $labels.node }} cannot be read.',
  LVMSClusterNotReady: 'LVMCluster {{ $labels.lvmcluster }} is not ready.',
  LVMSProvisioningFailing: 'Volumes cannot be created.',
  LVMSExpansionFailing: 'Volumes cannot be expanded.',
  LVMSNodeProbeFailed: 'Node {{ $labels.node }} does not provide volumes of device class {{ $labels.device_class }}.',
  LVMSOrphansGrowing: 'The number of orphans of device class {{ $labels.device_class }} on node {{ $labels.node }} is growing.',
  LVMSCertificateExpiring: 'The certificate {{ $labels.certificate }} of {{ $labels.component }} expires soon.',
};

/** The usage from which on an alert fires, as a ratio of the size. */
export const THRESHOLDS = { nearFull: 0.75, critical: 0.85, full: 0.95 };

/** How the alerts FillingUpInDays predict usage: linearly, from the growth of each window. */
export const PREDICTION = { windows: ['1d', '6h'], days: 4 } as const;
