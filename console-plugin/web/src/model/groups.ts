// Volume groups that the nodes have already: adopt takes one over with its volumes, existingVolumeGroup uses one without changing it.
import type { Device, DeviceClass, VGStatus } from '../api/types';
import { bytesOf } from './quantity';
import { modeOf, tick, untick, type Seen } from './selection';

/**
 * adopt: a volume group of this product, for example of another cluster; existing: one of an administrator; either: the list of devices does not
 * say which, because it was shortened or LVM does not list the volume group.
 */
export type Way = 'adopt' | 'existing' | 'either';

/** A volume group of a node. */
export interface Group {
  seen: Seen;
  name: string;
  uuid: string;
  devices: Device[];
  way: Way;
  /** The device classes that use it as existingVolumeGroup. */
  users: string[];
}

const nodeOf = (seen: Seen): string => seen.node.metadata.name ?? '';

/** The node agent names the field in the reason of the device (vgmanager/group/volumegroup/plan/selection/destroy.go, Ways). */
export function wayOf(devices: Device[]): Way {
  const reasons = devices.flatMap((d) => d.reasons ?? []);
  if (reasons.some((r) => r.code === 'IsOSDisk')) return 'existing';
  const text = reasons.filter((r) => r.code === 'InVolumeGroup').map((r) => r.message ?? '').join('\n');
  if (text.includes('existingVolumeGroup: ')) return 'existing';
  return text.includes('adopt of a device class') ? 'adopt' : 'either';
}

/** Whether an entry of the node status is for a volume group. While a device class cannot use its volume group, its entry has no UUID. */
const isOf = (entry: VGStatus, name: string, uuid: string): boolean =>
  entry.uuid ? entry.uuid === uuid : (entry.volumeGroup ?? entry.name) === name && entry.status !== 'Failed';

/** The volume groups of a node that device classes can adopt or use, by name. */
export function groupsOn(seen: Seen): Group[] {
  const members = new Map<string, Device[]>();
  for (const d of seen.devices) if (d.volumeGroup && d.volumeGroupUUID && d.state !== 'Missing') members.set(d.volumeGroupUUID, [...(members.get(d.volumeGroupUUID) ?? []), d]);
  return [...members]
    .flatMap(([uuid, devices]): Group[] => {
      const name = devices[0]?.volumeGroup ?? '';
      const entries = (seen.status?.status?.nodeStatus ?? []).filter((e) => isOf(e, name, uuid));
      if (entries.some((e) => !e.volumeGroup)) return [];
      return [{ seen, name, uuid, devices, way: entries.length > 0 ? 'existing' : wayOf(devices), users: entries.map((e) => e.name) }];
    })
    .sort((a, b) => a.name.localeCompare(b.name) || a.uuid.localeCompare(b.uuid));
}

export const sizeOf = (g: Group): number => g.devices.reduce((sum, d) => sum + (bytesOf(d.size) ?? 0), 0);

export const adoptable = (nodes: Seen[]): Group[] => nodes.flatMap(groupsOn).filter((g) => g.way !== 'existing');

/** A name that volume groups of several nodes can have. */
export interface Shared {
  name: string;
  groups: Group[];
}

/** The volume groups that a device class can use as existingVolumeGroup, by name. */
export function existing(nodes: Seen[]): Shared[] {
  const byName = new Map<string, Group[]>();
  for (const g of nodes.flatMap(groupsOn)) if (g.way !== 'adopt') byName.set(g.name, [...(byName.get(g.name) ?? []), g]);
  return [...byName].map(([name, groups]) => ({ name, groups })).sort((a, b) => a.name.localeCompare(b.name));
}

/** The nodes that have listed their devices, but not the volume group of a device class. */
export const nodesWithout = (name: string, nodes: Seen[]): string[] =>
  nodes.filter((seen) => seen.status && !seen.devices.some((d) => d.volumeGroup === name)).map(nodeOf);

export const isAdoptedGroup = (c: DeviceClass, g: Group): boolean => (c.adopt ?? []).some((a) => a.node === nodeOf(g.seen) && a.volumeGroupUUID === g.uuid);

/** Entries of adopt for volume groups that no node lists. */
export const adoptedElsewhere = (c: DeviceClass, nodes: Seen[]) => {
  const groups = nodes.flatMap(groupsOn);
  return (c.adopt ?? []).filter((a) => !groups.some((g) => nodeOf(g.seen) === a.node && g.uuid === a.volumeGroupUUID));
};

/** Takes a volume group out of adopt, and its devices out of the selectors: otherwise they would be destroyed. */
export function withoutAdopted(c: DeviceClass, g: Group): DeviceClass {
  const { adopt = [], ...rest } = c;
  const kept = adopt.filter((a) => a.node !== nodeOf(g.seen) || a.volumeGroupUUID !== g.uuid);
  const next: DeviceClass = kept.length > 0 ? { ...rest, adopt: kept } : rest;
  return modeOf(next) === 'paths' ? g.devices.reduce((n, d) => untick(n, g.seen, d), next) : next;
}

/** Adopts a volume group, instead of another one of its node, and names its devices if the class names devices. */
export function withAdopted(c: DeviceClass, g: Group, nodes: Seen[], was?: DeviceClass): DeviceClass {
  const before = groupsOn(g.seen).filter((o) => isAdoptedGroup(c, o)).reduce(withoutAdopted, c);
  const others = (before.adopt ?? []).filter((a) => a.node !== nodeOf(g.seen));
  const next: DeviceClass = { ...before, adopt: [...others, { node: nodeOf(g.seen), volumeGroupUUID: g.uuid }] };
  return modeOf(next) === 'paths' ? g.devices.reduce((n, d) => tick(n, g.seen, d, nodes, was), next) : next;
}
