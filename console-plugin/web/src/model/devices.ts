// What a device of the inventory is called, and whether a device class can have it. docs/reference/devices.md has the codes.
import type { Device, DeviceSelector, NodeStatus } from '../api/types';
import type { Message } from './message';
import { bytesOf } from './quantity';
import { reasonsOf } from './reasons';

/** A wipe does away with these. */
const wipeable = new Set(['HasPartitions', 'HasSignature', 'RAIDMember', 'UnknownPV', 'LUKSLocked', 'CephBlueStore']);
/** The reasons that a volume group is: it may have active logical volumes. Those that are in use prevent its destruction on the node. */
const ofGroup = new Set(['InVolumeGroup', 'HasHolders']);
/** A device that is named is used in spite of these. */
const byName = new Set(['Removable', 'UnassignedPV', 'NoStablePath', 'NotSelected', 'NotAtCreation', 'TooYoung']);

/**
 * usable: nothing is against it; named: it has to be named; wipe: it carries something that has to be destroyed first; group: it is in a volume
 * group that no device class has, which has to be destroyed first; ours: a device class has it; blocked: it cannot be used, whatever anybody
 * consents to.
 */
export type Verdict = 'usable' | 'named' | 'wipe' | 'group' | 'ours' | 'blocked';

export function verdictOf(device: Device, ourGroups: ReadonlySet<string> = new Set()): Verdict {
  if (device.volumeGroup && ourGroups.has(device.volumeGroup)) return 'ours';
  if (device.state === 'Available') return 'usable';
  if (device.state !== 'InUse' && device.state !== 'Excluded') return 'blocked';
  const all = (device.reasons ?? []).map((r) => r.code);
  const inGroup = all.includes('InVolumeGroup') && !!device.volumeGroupUUID;
  const codes = inGroup ? all.filter((c) => !ofGroup.has(c)) : all;
  if (inGroup) return codes.every((c) => byName.has(c)) ? 'group' : 'blocked';
  // A state without a reason is one that this version does not know how to judge.
  if (codes.length === 0 || codes.some((c) => !wipeable.has(c) && !byName.has(c))) return 'blocked';
  return codes.some((c) => wipeable.has(c)) ? 'wipe' : 'named';
}

/** All that a device is called by (internal/admission/webhook/inventory.go, namesOf). */
export const namesOf = (d: Device): string[] => [
  d.name,
  ...[d.kernelName, d.id, d.pvUUID].filter((n): n is string => !!n),
  ...(d.byID ?? []).map((link) => `/dev/disk/by-id/${link}`),
  ...(d.byPath ?? []).map((link) => `/dev/disk/by-path/${link}`),
];

/** Links that name the device itself come before links that name its place or its maker. */
const preferred = ['wwn-', 'nvme-eui.', 'nvme-uuid.', 'dm-uuid-', 'md-uuid-', 'scsi-3', 'nvme-', 'scsi-', 'ata-', 'virtio-'];
const rank = (link: string) => {
  const at = preferred.findIndex((p) => link.startsWith(p));
  return at < 0 ? preferred.length : at;
};

/** The path to write for a device: one that stays the same when the kernel gives it another name, if it has one. */
export function stablePath(d: Device): string {
  const [link] = [...(d.byID ?? [])].sort((a, b) => rank(a) - rank(b) || a.localeCompare(b));
  if (link) return `/dev/disk/by-id/${link}`;
  return d.byPath?.[0] ? `/dev/disk/by-path/${d.byPath[0]}` : d.name;
}

export const isStable = (path: string): boolean => path.startsWith('/dev/disk/') || path.startsWith('/dev/mapper/');

/** Finds the device of a node that a path leads to. */
export type Lookup = (name: string) => Device | undefined;

export function lookupOf(devices: Device[]): Lookup {
  const byAnyName = new Map<string, Device>();
  for (const d of devices) for (const name of namesOf(d)) byAnyName.set(name, d);
  return (name) => byAnyName.get(name.startsWith('/') ? name.replace(/\/+/g, '/') : name);
}

const matches = (patterns: string[], value = ''): boolean =>
  patterns.some((p) => {
    const [pattern, text] = [p.toLowerCase(), value.toLowerCase()];
    return pattern.endsWith('*') ? text.startsWith(pattern.slice(0, -1)) : pattern === text;
  });

/** Whether the properties of a selector are those of a device. Paths are not looked at. */
export function hasProperties(s: DeviceSelector, d: Device): boolean {
  const [size, least, most] = [bytesOf(d.size) ?? 0, bytesOf(s.minSize), bytesOf(s.maxSize)];
  return (
    (least === undefined || size >= least) &&
    (most === undefined || size <= most) &&
    (s.rotational === undefined || s.rotational === (d.rotational ?? false)) &&
    (!s.models?.length || matches(s.models, d.model)) &&
    (!s.vendors?.length || matches(s.vendors, d.vendor)) &&
    (!s.serials?.length || matches(s.serials, d.serial)) &&
    (!s.transports?.length || s.transports.some((t) => t.toLowerCase() === d.transport?.toLowerCase())) &&
    Object.entries(s.labels ?? {}).every(([key, value]) => d.labels?.[key] === value)
  );
}

/** The labels of a device as a text, sorted. */
export const labelsOf = (d: Device): string =>
  Object.entries(d.labels ?? {}).map(([key, value]) => `${key}=${value}`).sort().join(', ');

/** Whether a selector without paths takes a device. */
export function foundBy(s: DeviceSelector | undefined, d: Device): boolean {
  const removableOnly = d.reasons?.length && d.reasons.every((r) => r.code === 'Removable' || r.code === 'NoStablePath');
  const free = d.state === 'Available' || (s?.removable === true && removableOnly);
  return !!free && (!s || hasProperties(s, d));
}

/** What is on a device, in words of libblkid and the kernel; m translates. */
export function contentOf(d: Device, m: (message: Message) => string): string {
  const parts = (d.signatures ?? []).map((s) => [s.type, s.label && `“${s.label}”`].filter(Boolean).join(' '));
  if (d.partitions?.length) parts.push(d.partitions.join(', '));
  return [...new Set(parts)].join('; ') || reasonsOf(d).map(m).join('; ');
}

export const devicesOf = (status: NodeStatus | undefined): Device[] => status?.status?.devices ?? [];

/** Whether the list is what is there: false with the reason where the agent could not look. */
export function observed(status: NodeStatus | undefined): { ok: boolean; message?: string } {
  const condition = status?.status?.conditions?.find((c) => c.type === 'DevicesObserved');
  return condition?.status === 'True' ? { ok: true } : { ok: false, message: condition?.message };
}

/** The volume groups that device classes have, by node status. */
export const ourGroups = (status: NodeStatus | undefined): Set<string> => new Set((status?.status?.nodeStatus ?? []).map((g) => g.volumeGroup ?? g.name));
