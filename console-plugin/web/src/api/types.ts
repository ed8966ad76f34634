// The kinds that the pages read. Those of this product come from the CRDs, by generated.ts; those of Kubernetes have only
// the fields that are read. Objects keep other fields: what is read is written back whole.
import type { components } from './generated';

export const GROUP = 'lvm.topolvm.io';
export const VERSION = 'v1alpha1';
export const API_VERSION = `${GROUP}/${VERSION}`;
/** Where the operator is unless the server of this plugin says otherwise. */
export const DEFAULT_NAMESPACE = 'openshift-lvm-storage';

export interface Meta {
  name?: string;
  generateName?: string;
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

type Schemas = components['schemas'];
type Item<T> = NonNullable<T> extends (infer I)[] ? I : never;
type Replace<T, By> = Omit<T, keyof By> & By;

type ClusterSpec = NonNullable<Schemas['LVMCluster']['spec']>;
type ClusterStatus = NonNullable<Schemas['LVMCluster']['status']>;
type StatusOfNode = NonNullable<Schemas['LVMVolumeGroupNodeStatus']['status']>;
type StatusOfGroup = Item<StatusOfNode['nodeStatus']>;

export type DeviceClass = Item<NonNullable<ClusterSpec['storage']>['deviceClasses']>;
export type DeviceSelector = NonNullable<DeviceClass['deviceSelector']>;
export type NodeDeviceSelector = Item<DeviceClass['deviceSelectors']>;
export type ThinPoolConfig = NonNullable<DeviceClass['thinPoolConfig']>;
export type RAIDConfig = NonNullable<DeviceClass['raidConfig']>;
export type RAIDType = RAIDConfig['type'];
export type DeviceRequest = Item<DeviceClass['deviceRequests']>;
export type NodeSelector = NonNullable<DeviceClass['nodeSelector']>;
export type NodeSelectorTerm = Item<NodeSelector['nodeSelectorTerms']>;
export type Requirement = Item<NodeSelectorTerm['matchExpressions']>;
export type Toleration = Item<ClusterSpec['tolerations']>;

// The CRDs have the states of a status as plain strings.
export type State = 'Progressing' | 'Ready' | 'Failed' | 'Degraded' | 'Unknown' | 'Removed';
export type PhysicalVolumeState = 'Ready' | 'Cordoned' | 'Draining' | 'Drained' | 'Blocked' | 'Missing' | 'Failing';
export type DeviceState = 'Available' | 'InUse' | 'Excluded' | 'Missing' | 'Failing' | 'Unknown';

export type PhysicalVolumeStatus = Replace<Item<StatusOfGroup['physicalVolumes']>, { state: PhysicalVolumeState }>;
/** The volume group of a device class on a node. */
export type VGStatus = Replace<StatusOfGroup, { status?: State; conditions?: Condition[]; physicalVolumes?: PhysicalVolumeStatus[] }>;

export interface LVMCluster {
  apiVersion: string;
  kind: string;
  metadata: Meta;
  spec?: ClusterSpec;
  status?: Replace<ClusterStatus, { state?: State; conditions?: Condition[]; deviceClassStatuses?: { name: string; nodeStatus?: (VGStatus & { node: string })[] }[] }>;
}

/** A block device of a node. */
export type Device = Replace<Item<StatusOfNode['devices']>, { state: DeviceState }>;

/** The report of one node agent. It has the name of its node. */
export interface NodeStatus {
  apiVersion?: string;
  kind?: string;
  metadata: Meta;
  status?: Replace<StatusOfNode, { conditions?: Condition[]; devices?: Device[]; nodeStatus?: VGStatus[] }>;
}

/** TopoLVM's object for a logical volume: topolvm.io/v1, cluster-scoped. */
export interface LogicalVolume {
  metadata: Meta;
  spec: NonNullable<Schemas['LogicalVolume']['spec']>;
  status?: Schemas['LogicalVolume']['status'];
}

export type RecoveryAction = Schemas['LVMRecovery']['spec']['action'];
/** The CRD has it as a plain string. */
export type RecoveryPhase = 'NotApplicable' | 'Preparing' | 'AwaitingApproval' | 'Running' | 'Succeeded';
type StatusOfRecovery = NonNullable<Schemas['LVMRecovery']['status']>;
export type RecoveryPlan = NonNullable<StatusOfRecovery['plan']>;
export type RecoveryVolume = Item<RecoveryPlan['lostVolumes']>;
/** One action that makes a device class of a node usable again. */
export interface LVMRecovery {
  apiVersion?: string;
  kind?: string;
  metadata: Meta;
  spec: Schemas['LVMRecovery']['spec'];
  status?: Replace<StatusOfRecovery, { phase?: RecoveryPhase }>;
}

/** An approval of one device of a node for a device class with approval: Required. */
export interface DeviceApproval {
  apiVersion?: string;
  kind?: string;
  metadata: Meta;
  spec: Schemas['LVMDeviceApproval']['spec'];
}

/** The CRD has it as a plain string. */
export type MovePhase = 'Pending' | 'Copying' | 'WaitingForPods' | 'Switching' | 'KeepingSource' | 'Completed' | 'Failed';
/** A move of the volume of a claim to another node. */
export interface VolumeMove {
  apiVersion?: string;
  kind?: string;
  metadata: Meta;
  spec: Schemas['VolumeMove']['spec'];
  status?: Replace<NonNullable<Schemas['VolumeMove']['status']>, { phase?: MovePhase }>;
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
/** Who suspended a volume, when and why; which suspended devices have its data. */
export const SUSPENDED_ANNOTATION = 'lvm.topolvm.io/suspended';
export const SUSPENDED_DEVICES_ANNOTATION = 'lvm.topolvm.io/suspended-devices';
/** On LogicalVolumes that were created for a VolumeMove: its UID. */
export const MOVE_ANNOTATION = 'lvm.topolvm.io/move';
/** The requested I/O limits of a volume; those that the node agent applies; which ones it refused, and why. */
export const IO_LIMITS_ANNOTATION = 'lvm.topolvm.io/io-limits';
export const IO_LIMITS_IN_FORCE_ANNOTATION = 'lvm.topolvm.io/io-limits-in-force';
export const IO_LIMITS_ERROR_ANNOTATION = 'lvm.topolvm.io/io-limits-error';

export const clusterModel = { apiGroup: GROUP, apiVersion: VERSION, kind: 'LVMCluster', plural: 'lvmclusters', namespaced: true } as const;
export const nodeStatusModel = { apiGroup: GROUP, apiVersion: VERSION, kind: 'LVMVolumeGroupNodeStatus', plural: 'lvmvolumegroupnodestatuses', namespaced: true } as const;
export const recoveryModel = { apiGroup: GROUP, apiVersion: VERSION, kind: 'LVMRecovery', plural: 'lvmrecoveries', namespaced: true } as const;
export const approvalModel = { apiGroup: GROUP, apiVersion: VERSION, kind: 'LVMDeviceApproval', plural: 'lvmdeviceapprovals', namespaced: true } as const;
export const moveModel = { apiGroup: GROUP, apiVersion: VERSION, kind: 'VolumeMove', plural: 'volumemoves', namespaced: true } as const;

export const classesOf = (cluster?: LVMCluster): DeviceClass[] => cluster?.spec?.storage?.deviceClasses ?? [];
export const storageClassName = (deviceClass: string): string => `lvms-${deviceClass}`;
