// The kinds of lvm.topolvm.io/v1alpha1 as JSON has them. api/v1alpha1 is the source; only what the pages read is here.
// Objects keep fields that these types do not name: what is read is written back whole.

export const GROUP = 'lvm.topolvm.io';
export const VERSION = 'v1alpha1';
export const API_VERSION = `${GROUP}/${VERSION}`;
/** Where the operator is unless the server of this plugin says otherwise. */
export const DEFAULT_NAMESPACE = 'openshift-lvm-storage';

export interface Meta {
  name?: string;
  namespace?: string;
  uid?: string;
  resourceVersion?: string;
  generation?: number;
  labels?: Record<string, string>;
  annotations?: Record<string, string>;
  creationTimestamp?: string;
  deletionTimestamp?: string;
}

export interface Condition {
  type: string;
  status: 'True' | 'False' | 'Unknown';
  reason?: string;
  message?: string;
  lastTransitionTime?: string;
  observedGeneration?: number;
}

/** A quantity of Kubernetes: "8Gi", or a number of bytes. */
export type Quantity = string | number;

export interface Requirement {
  key: string;
  operator: 'In' | 'NotIn' | 'Exists' | 'DoesNotExist' | 'Gt' | 'Lt';
  values?: string[];
}
export interface NodeSelectorTerm {
  matchExpressions?: Requirement[];
  matchFields?: Requirement[];
}
export interface NodeSelector {
  nodeSelectorTerms: NodeSelectorTerm[];
}
export interface Toleration {
  key?: string;
  operator?: 'Exists' | 'Equal';
  value?: string;
  effect?: string;
}

export interface DeviceSelector {
  paths?: string[];
  optionalPaths?: string[];
  minSize?: Quantity;
  maxSize?: Quantity;
  rotational?: boolean;
  models?: string[];
  vendors?: string[];
  serials?: string[];
  transports?: string[];
  removable?: boolean;
  forceWipeDevicesAndDestroyAllData?: boolean;
}
export type NodeDeviceSelector = DeviceSelector & { nodeSelector?: NodeSelector };

export interface ThinPoolConfig {
  name: string;
  sizePercent?: number;
  overprovisionRatio: number;
  highWaterMarkPercent?: number;
  chunkSizeCalculationPolicy?: 'Host' | 'Static';
  chunkSize?: Quantity;
  metadataSizeCalculationPolicy?: 'Host' | 'Static';
  metadataSize?: Quantity;
  autoExtend?: { thresholdPercent?: number; stepPercent?: number };
}

export type RAIDType = 'raid1' | 'raid4' | 'raid5' | 'raid6' | 'raid10';
export interface RAIDConfig {
  type: RAIDType;
  mirrors?: number;
  stripes?: number;
  stripeSize?: Quantity;
}

export interface StorageClassOptions {
  reclaimPolicy?: 'Delete' | 'Retain';
  volumeBindingMode?: 'WaitForFirstConsumer' | 'Immediate';
  additionalParameters?: Record<string, string>;
  additionalLabels?: Record<string, string>;
}

export interface DeviceRequest {
  node: string;
  device: string;
  action: 'Cordon' | 'Drain' | 'Remove';
}

export interface DeviceClass {
  name: string;
  default?: boolean;
  fstype?: 'xfs' | 'ext4';
  nodeSelector?: NodeSelector;
  deviceSelector?: DeviceSelector;
  deviceSelectors?: NodeDeviceSelector[];
  deviceDiscoveryPolicy?: 'Static' | 'Dynamic';
  thinPoolConfig?: ThinPoolConfig;
  raidConfig?: RAIDConfig;
  storageClassOptions?: StorageClassOptions;
  deviceRequests?: DeviceRequest[];
  adopt?: { node: string; volumeGroupUUID: string }[];
}

export type State = 'Progressing' | 'Ready' | 'Failed' | 'Degraded' | 'Unknown' | 'Removed';

export interface ThinPoolStatus {
  name: string;
  size: Quantity;
  metadataSize: Quantity;
  dataPercent: number;
  metadataPercent: number;
  free?: Quantity;
  virtualSize?: Quantity;
}

export type PhysicalVolumeState = 'Ready' | 'Cordoned' | 'Draining' | 'Drained' | 'Blocked' | 'Missing' | 'Failing';

export interface PhysicalVolumeStatus {
  uuid: string;
  name?: string;
  deviceID?: string;
  path?: string;
  size?: Quantity;
  free?: Quantity;
  state: PhysicalVolumeState;
  movedPercent?: number;
  message?: string;
}

/** The volume group of a device class on a node. */
export interface VGStatus {
  name: string;
  status?: State;
  reason?: string;
  conditions?: Condition[];
  devices?: string[];
  physicalVolumes?: PhysicalVolumeStatus[];
  excluded?: { name: string; reasons: string[] }[];
  orphanCount?: number;
  size?: Quantity;
  free?: Quantity;
  thinPool?: ThinPoolStatus;
  raidStatus?: { status: 'Healthy' | 'Degraded' | 'Failed'; memberCount: number; degradedMemberCount: number; minSyncPercent?: number };
  uuid?: string;
}

export interface LVMCluster {
  apiVersion: string;
  kind: string;
  metadata: Meta;
  spec?: { tolerations?: Toleration[]; storage?: { deviceClasses?: DeviceClass[] } };
  status?: {
    ready?: boolean;
    state?: State;
    observedGeneration?: number;
    volumeGroups?: string;
    size?: Quantity;
    free?: Quantity;
    conditions?: Condition[];
    deviceClassStatuses?: { name: string; nodeStatus?: (VGStatus & { node: string })[] }[];
  };
}

export type DeviceState = 'Available' | 'InUse' | 'Excluded' | 'Missing' | 'Failing' | 'Unknown';

/** A block device of a node. */
export interface Device {
  name: string;
  id?: string;
  kernelName?: string;
  type?: string;
  byID?: string[];
  byPath?: string[];
  size?: Quantity;
  model?: string;
  vendor?: string;
  serial?: string;
  wwn?: string;
  transport?: string;
  rotational?: boolean;
  removable?: boolean;
  readOnly?: boolean;
  partitions?: string[];
  holders?: string[];
  signatures?: { type: string; uuid?: string; label?: string }[];
  mountPoints?: string[];
  volumeGroup?: string;
  pvUUID?: string;
  state: DeviceState;
  reasons?: { code: string; message?: string }[];
  eligibility?: { deviceClass: string; eligible: boolean; reasons?: string[] }[];
  fingerprint?: string;
  firstSeen?: string;
  lastSeen?: string;
}

/** What one node agent has seen. It has the name of its node. */
export interface NodeStatus {
  apiVersion?: string;
  kind?: string;
  metadata: Meta;
  status?: {
    conditions?: Condition[];
    devices?: Device[];
    devicesOmitted?: number;
    nodeStatus?: VGStatus[];
  };
}

export interface Node {
  apiVersion?: string;
  kind?: string;
  metadata: Meta;
  spec?: { unschedulable?: boolean; taints?: { key: string; value?: string; effect: string }[] };
  status?: { conditions?: Condition[]; nodeInfo?: { architecture?: string } };
}

export interface KubeEvent {
  metadata: Meta;
  type?: string;
  reason?: string;
  message?: string;
  count?: number;
  firstTimestamp?: string;
  lastTimestamp?: string;
  eventTime?: string;
  series?: { count?: number; lastObservedTime?: string };
  involvedObject?: { kind?: string; name?: string; namespace?: string };
}

/** TopoLVM's object for a logical volume: topolvm.io/v1, cluster-scoped. */
export interface LogicalVolume {
  metadata: Meta;
  /** source is the name of another LogicalVolume; accessType is ro for a snapshot and rw for a copy. */
  spec: { name: string; nodeName: string; size: Quantity; deviceClass?: string; source?: string; accessType?: 'ro' | 'rw' };
  status?: { volumeID?: string; code?: number; message?: string; currentSize?: Quantity };
}

export interface PersistentVolume {
  metadata: Meta;
  spec: { claimRef?: { namespace?: string; name?: string }; csi?: { driver: string; volumeHandle: string }; persistentVolumeReclaimPolicy?: string };
  status?: { phase?: string };
}

export interface Claim {
  metadata: Meta;
  spec?: { volumeName?: string; storageClassName?: string };
  status?: { phase?: string };
}

/** The CSI driver. */
export const DRIVER = 'topolvm.io';
/** What a LogicalVolume was made for, as NAMESPACE/NAME; what is wrong with it; that nothing in the cluster knows it. */
export const CLAIM_ANNOTATION = 'lvm.topolvm.io/claim';
export const CONDITION_ANNOTATION = 'lvm.topolvm.io/condition';
export const UNCLAIMED_ANNOTATION = 'lvm.topolvm.io/unclaimed';

export const clusterModel = { apiGroup: GROUP, apiVersion: VERSION, kind: 'LVMCluster', plural: 'lvmclusters', namespaced: true } as const;
export const nodeStatusModel = { apiGroup: GROUP, apiVersion: VERSION, kind: 'LVMVolumeGroupNodeStatus', plural: 'lvmvolumegroupnodestatuses', namespaced: true } as const;

export const classesOf = (cluster?: LVMCluster): DeviceClass[] => cluster?.spec?.storage?.deviceClasses ?? [];
export const storageClassName = (deviceClass: string): string => `lvms-${deviceClass}`;
