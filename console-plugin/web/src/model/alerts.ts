// Written by `make monitoring`, from monitoring/rules.

/** Where the runbooks are, by the name of the alert. */
export const RUNBOOKS = 'https://github.com/lvm-storage/lvm-operator/blob/main/monitoring/runbooks/';

/** What each alert says; $labels are those of the alert. */
export const summaries: Record<string, string> = {
  LVMSThinPoolDataFull: 'The data of the thin pool of device class {{ $labels.device_class }} on node {{ $labels.node }} is as good as full.',
  ThinPoolDataUsageAtThresholdCritical: 'The data of the thin pool of device class {{ $labels.device_class }} on node {{ $labels.node }} is almost full.',
  LVMSThinPoolDataFillingUpInHours: 'The data of the thin pool of device class {{ $labels.device_class }} on node {{ $labels.node }} will be full within four hours.',
  ThinPoolDataUsageAtThresholdNearFull: 'The data of the thin pool of device class {{ $labels.device_class }} on node {{ $labels.node }} is filling up.',
  LVMSThinPoolDataFillingUpInDays: 'The data of the thin pool of device class {{ $labels.device_class }} on node {{ $labels.node }} will be full within four days.',
  LVMSThinPoolMetadataFull: 'The metadata of the thin pool of device class {{ $labels.device_class }} on node {{ $labels.node }} is as good as full.',
  ThinPoolMetaDataUsageAtThresholdCritical: 'The metadata of the thin pool of device class {{ $labels.device_class }} on node {{ $labels.node }} is almost full.',
  LVMSThinPoolMetadataFillingUpInHours: 'The metadata of the thin pool of device class {{ $labels.device_class }} on node {{ $labels.node }} will be full within four hours.',
  ThinPoolMetaDataUsageAtThresholdNearFull: 'The metadata of the thin pool of device class {{ $labels.device_class }} on node {{ $labels.node }} is filling up.',
  LVMSThinPoolMetadataFillingUpInDays: 'The metadata of the thin pool of device class {{ $labels.device_class }} on node {{ $labels.node }} will be full within four days.',
  LVMSVolumeGroupFull: 'The volume group of device class {{ $labels.device_class }} on node {{ $labels.node }} is as good as full.',
  VolumeGroupUsageAtThresholdCritical: 'The volume group of device class {{ $labels.device_class }} on node {{ $labels.node }} is almost full.',
  LVMSVolumeGroupFillingUpInHours: 'The volume group of device class {{ $labels.device_class }} on node {{ $labels.node }} will be full within four hours.',
  VolumeGroupUsageAtThresholdNearFull: 'The volume group of device class {{ $labels.device_class }} on node {{ $labels.node }} is filling up.',
  LVMSVolumeGroupFillingUpInDays: 'The volume group of device class {{ $labels.device_class }} on node {{ $labels.node }} will be full within four days.',
  LVMSThinPoolOvercommitRisk: 'The volumes of device class {{ $labels.device_class }} on node {{ $labels.node }} are promised much more than there is.',
  LVMSDeviceMissing: 'A device of device class {{ $labels.device_class }} on node {{ $labels.node }} is missing.',
  LVMSDeviceFailing: 'A device of device class {{ $labels.device_class }} on node {{ $labels.node }} gives errors.',
  LVMSDeviceFailurePredicted: 'Disk {{ $labels.device }} of node {{ $labels.node }} predicts its failure.',
  LVMSRAIDFailed: 'Redundancy of device class {{ $labels.device_class }} on node {{ $labels.node }} is lost with data.',
  LVMSRAIDDegraded: 'Redundancy of device class {{ $labels.device_class }} on node {{ $labels.node }} is reduced.',
  LVMSRAIDNotResyncing: 'Volumes of device class {{ $labels.device_class }} on node {{ $labels.node }} are not in sync, and nothing goes on.',
  LVMSRAIDSyncSlow: 'Volumes of device class {{ $labels.device_class }} on node {{ $labels.node }} have been synchronizing for half a day.',
  LVMSVolumeGroupFailed: 'The volume group of device class {{ $labels.device_class }} on node {{ $labels.node }} cannot be used.',
  LVMSVolumeGroupDegraded: 'Something is wrong with the volume group of device class {{ $labels.device_class }} on node {{ $labels.node }}.',
  LVMSFileSystemBroken: 'The file system of a volume of device class {{ $labels.device_class }} on node {{ $labels.node }} is broken.',
  LVMSUnmanagedVolumeGroup: 'Node {{ $labels.node }} has a volume group that nothing manages.',
  LVMSOperatorDown: 'No operator of LVM Storage runs.',
  LVMSAgentDown: 'The agent of node {{ $labels.node }} does not answer.',
  LVMSCapacityStale: 'The capacity of node {{ $labels.node }} is not known.',
  LVMSNodeNotObserved: 'The devices of node {{ $labels.node }} cannot be looked at.',
  LVMSClusterNotReady: 'LVMCluster {{ $labels.lvmcluster }} is not ready.',
  LVMSProvisioningFailing: 'No volume can be made.',
  LVMSExpansionFailing: 'No volume can grow.',
  LVMSOrphansGrowing: 'Orphans of device class {{ $labels.device_class }} on node {{ $labels.node }} become more.',
  LVMSCertificateExpiring: 'The certificate {{ $labels.certificate }} of {{ $labels.component }} ends soon.',
};
