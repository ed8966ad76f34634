// What a person wants to know first: is all well, and if not, what is wrong.
import type { Condition, Device, KubeEvent, LVMCluster, Node, NodeStatus, PhysicalVolumeStatus, VGStatus } from '../api/types';
import type { FiringAlert } from './alerting';
import { physicalVolumeOf } from './members';
import { isReady } from './nodes';
import { msg, type Message } from './message';
import { bytesOf } from './quantity';

export type Level = 'success' | 'warning' | 'danger' | 'info';

export interface Health {
  level: Level;
  sentence: Message;
  /** What is wrong, in the words of the operator. */
  details: string[];
}

const condition = (cluster: LVMCluster, type: string): Condition | undefined => cluster.status?.conditions?.find((c) => c.type === type);

export function healthOf(cluster: LVMCluster): Health {
  const { status, metadata } = cluster;
  const ready = condition(cluster, 'Ready');
  const details = ready?.message && ready.status !== 'True' ? ready.message.split('\n').filter(Boolean) : [];
  if (metadata.deletionTimestamp) return { level: 'warning', sentence: msg('The LVMCluster is being deleted.'), details };
  if (!status?.state || (status.observedGeneration ?? 0) < (metadata.generation ?? 0))
    return { level: 'info', sentence: msg('The operator has not processed the last change yet.'), details: [] };
  const groups = status.volumeGroups ?? '0/0';
  switch (status.state) {
    case 'Ready':
      return groups === '0/0' || condition(cluster, 'VolumeGroupsReady')?.reason === 'VGsUnmanaged'
        ? { level: 'info', sentence: msg('The nodes list their devices. No device class uses them yet.'), details: [] }
        : { level: 'success', sentence: msg('Healthy: {{groups}} volume groups are ready.', { groups }), details: [] };
    case 'Progressing':
      return { level: 'info', sentence: msg('Storage is being set up: {{groups}} volume groups are ready.', { groups }), details };
    case 'Degraded':
      return { level: 'warning', sentence: msg('Degraded: {{groups}} volume groups are ready.', { groups }), details };
    case 'Failed':
      return { level: 'danger', sentence: msg('Storage setup failed: {{groups}} volume groups are ready.', { groups }), details };
    default:
      return { level: 'warning', sentence: msg('The state of local storage is unknown.'), details };
  }
}

/** The same with what Prometheus knows: nothing is well while an alert fires that asks for somebody. */
export function headlineOf(cluster: LVMCluster, alerts: FiringAlert[]): Health {
  const health = healthOf(cluster);
  const count = (severity: string): number => alerts.filter((a) => a.severity === severity).length;
  const [critical, warnings] = [count('critical'), count('warning')];
  if (health.level === 'danger' || (health.level === 'warning' && critical === 0)) return health;
  if (critical > 0) return { ...health, level: 'danger', sentence: msg('{{count}} critical alerts are firing.', { count: critical }) };
  if (warnings > 0) return { ...health, level: 'warning', sentence: msg('{{count}} warning alerts are firing.', { count: warnings }) };
  return health;
}

/** A device class on a node, in bytes. */
export interface Usage {
  deviceClass: string;
  node: string;
  group: VGStatus;
  size?: number;
  /** What holds data: in a thin class of the pool, else what volumes have. */
  used?: number;
  free?: number;
  /** What volumes of a thin pool have together, and how full it is. */
  virtual?: number;
  dataPercent?: number;
  metadataPercent?: number;
  /** The node does not answer, so that this is old. */
  stale: boolean;
}

export function usageOf(statuses: NodeStatus[], nodes: Map<string, Node>): Usage[] {
  return statuses.flatMap((s) =>
    (s.status?.nodeStatus ?? []).map((group): Usage => {
      const name = s.metadata.name ?? '';
      const node = nodes.get(name);
      const base = { deviceClass: group.name, node: name, group, stale: node !== undefined && !isReady(node) };
      const pool = group.thinPool;
      if (pool) {
        const size = bytesOf(pool.size);
        const free = bytesOf(pool.free) ?? (size === undefined ? undefined : Math.floor((size * (100 - pool.dataPercent)) / 100));
        return { ...base, size, free, used: minus(size, free), virtual: bytesOf(pool.virtualSize), dataPercent: pool.dataPercent, metadataPercent: pool.metadataPercent };
      }
      const [size, free] = [bytesOf(group.size), bytesOf(group.free)];
      return { ...base, size, free, used: minus(size, free) };
    }),
  );
}

const minus = (a?: number, b?: number): number | undefined => (a === undefined || b === undefined ? undefined : Math.max(0, a - b));

/** The sum of what is known; undefined where nothing is. */
export const total = (list: (number | undefined)[]): number | undefined => {
  const known = list.filter((n): n is number => n !== undefined);
  return known.length ? known.reduce((a, b) => a + b, 0) : undefined;
};

export interface DeviceRow {
  node: string;
  device: Device;
  /** What is going on with it as a device of a volume group: it is closed, being emptied, empty, or blocked. */
  going?: PhysicalVolumeStatus;
  /** New Pods do not get the volumes that have data on it. */
  suspended: boolean;
}

/** All devices, those that need attention first. */
export function deviceRows(statuses: NodeStatus[]): DeviceRow[] {
  const order: Device['state'][] = ['Failing', 'Missing', 'Unknown', 'Available', 'Excluded', 'InUse'];
  const rank = (r: DeviceRow) => (r.going ? 2.5 : order.indexOf(r.device.state));
  return statuses
    .flatMap((s) => (s.status?.devices ?? []).map((device): DeviceRow => ({ node: s.metadata.name ?? '', device, ...memberOf(s, device) })))
    .sort((a, b) => rank(a) - rank(b) || a.node.localeCompare(b.node) || a.device.name.localeCompare(b.device.name));
}

/** Only what the state of the device itself does not say. */
function memberOf(status: NodeStatus, device: Device): Pick<DeviceRow, 'going' | 'suspended'> {
  const pv = device.volumeGroup ? physicalVolumeOf(status, device) : undefined;
  const going = pv && device.state === 'InUse' && ['Cordoned', 'Draining', 'Drained', 'Blocked'].includes(pv.state) ? pv : undefined;
  return { going, suspended: !!pv?.suspended };
}

export const eventTime = (e: KubeEvent): string => e.series?.lastObservedTime ?? e.lastTimestamp ?? e.eventTime ?? e.firstTimestamp ?? e.metadata.creationTimestamp ?? '';

/** The events about our kinds, the newest first. */
export function ownEvents(events: KubeEvent[], limit: number): KubeEvent[] {
  const kinds = ['LVMCluster', 'LVMVolumeGroup', 'LVMVolumeGroupNodeStatus', 'LVMRecovery'];
  return events
    .filter((e) => kinds.includes(e.involvedObject?.kind ?? ''))
    .sort((a, b) => eventTime(b).localeCompare(eventTime(a)))
    .slice(0, limit);
}
