// The devices of a device class, and what is asked for them. docs/how-to/look-after-devices.md says what the requests do; the node agent
// does it (vgmanager/group/volumegroup/plan/members/drain.go).
import { classesOf, type Device, type DeviceClass, type DeviceRequest, type LVMCluster, type NodeStatus, type PhysicalVolumeStatus, type VGStatus } from '../api/types';
import { minimumDevices, physicalVolume } from './capacity';
import { withClass } from './cluster';
import { devicesOf, namesOf, verdictOf } from './devices';
import { msg, type Message } from './message';
import { bytesOf } from './quantity';
import { isNamed, pathsOf, selectorsOf, untick, type Seen } from './selection';

/** A device of a volume group of the class. */
export interface Member {
  node: string;
  group: VGStatus;
  pv: PhysicalVolumeStatus;
  /** The same device in the inventory, while it is there. */
  device?: Device;
}

const order: PhysicalVolumeStatus['state'][] = ['Missing', 'Failing', 'Blocked', 'Draining', 'Drained', 'Cordoned', 'Ready'];

/** All devices of a class, those that need attention first. */
export function membersOf(deviceClass: string, statuses: NodeStatus[]): Member[] {
  return statuses
    .flatMap((s) =>
      (s.status?.nodeStatus ?? [])
        .filter((g) => g.name === deviceClass)
        .flatMap((group) => (group.physicalVolumes ?? []).map((pv) => ({ node: s.metadata.name ?? '', group, pv, device: devicesOf(s).find((d) => isOf(d, pv)) }))),
    )
    .sort((a, b) => order.indexOf(a.pv.state) - order.indexOf(b.pv.state) || a.node.localeCompare(b.node) || (a.pv.name ?? '').localeCompare(b.pv.name ?? ''));
}

const isOf = (d: Device, pv: PhysicalVolumeStatus): boolean => (d.pvUUID ? d.pvUUID === pv.uuid : d.volumeGroup !== undefined && d.name === pv.name);

/** The physical volume that a device of the inventory is. */
export const physicalVolumeOf = (status: NodeStatus | undefined, d: Device): PhysicalVolumeStatus | undefined =>
  (status?.status?.nodeStatus ?? []).flatMap((g) => g.physicalVolumes ?? []).find((pv) => isOf(d, pv));

/** Bytes of a member that logical volumes have. */
export function usedOf({ pv }: Member): number | undefined {
  const [size, free] = [bytesOf(pv.size), bytesOf(pv.free)];
  return size === undefined || free === undefined ? undefined : Math.max(0, size - free);
}

/** Whether a request names a member: by anything that the agent knows it by. */
export function isAbout(request: DeviceRequest, { node, pv, device }: Member): boolean {
  if (request.node !== node) return false;
  return [pv.uuid, pv.name, pv.deviceID, pv.path, ...(device ? namesOf(device) : [])].includes(request.device);
}

export const requestFor = (c: DeviceClass, member: Member): DeviceRequest | undefined => c.deviceRequests?.find((r) => isAbout(r, member));

/** Requests whose device is no longer in a volume group of the class, on nodes that have told what they have. */
export function doneRequests(c: DeviceClass, statuses: NodeStatus[]): DeviceRequest[] {
  const members = membersOf(c.name, statuses);
  const told = new Set(statuses.filter((s) => s.status?.nodeStatus?.some((g) => g.name === c.name && g.physicalVolumes)).map((s) => s.metadata.name));
  return (c.deviceRequests ?? []).filter((r) => told.has(r.node) && !members.some((m) => isAbout(r, m)));
}

export type Wish = 'Cordon' | 'Drain' | 'Remove';

/** A device class with these requests, and without an empty list of them. */
export function withRequests(c: DeviceClass, deviceRequests: DeviceRequest[]): DeviceClass {
  const { deviceRequests: _, ...rest } = c;
  return deviceRequests.length ? { ...rest, deviceRequests } : rest;
}

/**
 * Asks for something to be done with a member, or withdraws the request. The request names the UUID of the physical volume: it is on the device
 * itself, and no other device can come to have it.
 */
export function withWish(c: DeviceClass, member: Member, wish: Wish | undefined): DeviceClass {
  const requests = c.deviceRequests ?? [];
  const others = requests.filter((r) => !isAbout(r, member));
  // Another action does not resume a suspended device.
  const before = requests.find((r) => isAbout(r, member));
  const suspend = before?.suspend ? { suspend: true, ...(before.suspendReason ? { suspendReason: before.suspendReason } : {}) } : {};
  return withRequests(c, wish ? [...others, { node: member.node, device: member.pv.uuid, action: wish, ...suspend }] : others);
}

/** Takes a request out whose device has left. */
export const withoutRequest = (c: DeviceClass, request: DeviceRequest): DeviceClass =>
  withRequests(c, (c.deviceRequests ?? []).filter((r) => r.node !== request.node || r.device !== request.device));

/** A cluster with a device class changed, by its name; the cluster itself where the class is gone. */
export function withClassNamed(cluster: LVMCluster, name: string, change: (c: DeviceClass) => DeviceClass): LVMCluster {
  const at = classesOf(cluster).findIndex((c) => c.name === name);
  const c = classesOf(cluster)[at];
  return c ? withClass(cluster, at, change(c)) : cluster;
}

/** Members of other nodes that a path leads to as well. */
export function elsewhere(paths: string[], member: Member, members: Member[], nodes: Seen[]): Member[] {
  return members.filter((m) => {
    const seen = nodes.find((s) => s.node.metadata.name === m.node);
    return m.node !== member.node && paths.some((p) => p === m.pv.path || (m.device !== undefined && seen?.lookup(p) === m.device));
  });
}

/** The paths of a class by which it has a member. */
export function pathsTo(c: DeviceClass, member: Member, seen: Seen | undefined): string[] {
  return selectorsOf(c)
    .flatMap(pathsOf)
    .filter((p) => p === member.pv.path || (member.device !== undefined && seen?.lookup(p) === member.device));
}

/** Takes the paths to a member out; undefined where it is named by none, or one of them leads to a device of another node as well. */
export function withoutPaths(c: DeviceClass, member: Member, members: Member[], nodes: Seen[]): DeviceClass | undefined {
  const seen = nodes.find((s) => s.node.metadata.name === member.node);
  const paths = pathsTo(c, member, seen);
  if (!seen || !member.device || paths.length === 0 || !isNamed(c, seen, member.device) || elsewhere(paths, member, members, nodes).length > 0) return undefined;
  const next = untick(c, seen, member.device);
  // Without any path the class would take nothing, or with a rule beside it something else.
  return selectorsOf(next).some((s) => pathsOf(s).length > 0) ? next : undefined;
}

export interface Consequence {
  level: 'info' | 'warning' | 'danger';
  text: Message;
}

/** Where the other devices of a group would take what is on a member. */
function roomBeside(member: Member): number | undefined {
  let room = 0;
  for (const pv of member.group.physicalVolumes ?? []) {
    if (pv.uuid === member.pv.uuid || pv.state !== 'Ready') continue;
    const free = bytesOf(pv.free);
    if (free === undefined) return undefined;
    room += free;
  }
  return room;
}

const info = (key: string, values?: Message['values']): Consequence => ({ level: 'info', text: msg(key, values) });
const warning = (key: string, values?: Message['values']): Consequence => ({ level: 'warning', text: msg(key, values) });
const danger = (key: string, values?: Message['values']): Consequence => ({ level: 'danger', text: msg(key, values) });

/** What a wish leads to, in words; the worst first. size writes bytes for people. */
export function consequencesOf(c: DeviceClass, member: Member, wish: Wish, size: (bytes: number) => string): Consequence[] {
  const list = member.pv.state === 'Missing' ? ofMissing(c, wish) : wish === 'Cordon' ? ofCordon(member) : [...ofDrain(member, size), ...(wish === 'Remove' ? ofRemoval(c, member, size) : ofDrained())];
  const levels = ['danger', 'warning', 'info'];
  return list.sort((a, b) => levels.indexOf(a.level) - levels.indexOf(b.level));
}

function ofCordon(member: Member): Consequence[] {
  const room = roomBeside(member);
  return [
    info(msg('Existing data stays available. No new data is placed on the device.').key),
    ...(room === 0 ? [warning(msg('No other device of the volume group has free space: while this request exists, volumes that need new extents can be neither created nor expanded.').key)] : []),
    info(msg('To undo this, remove the request.').key),
  ];
}

function ofDrain(member: Member, size: (bytes: number) => string): Consequence[] {
  const [used, room] = [usedOf(member), roomBeside(member)];
  const missing = (member.group.physicalVolumes ?? []).filter((pv) => pv.state === 'Missing').length;
  const moving = (member.group.physicalVolumes ?? []).find((pv) => pv.uuid !== member.pv.uuid && pv.state === 'Draining');
  const list: Consequence[] = [];
  if (member.pv.state === 'Failing') list.push(danger(msg('The device is failing: data that cannot be read from it cannot be moved. Back up its volumes first.').key));
  if (used === 0) return [...list, info(msg('The device is empty: no data to move.').key)];
  if (missing > 0) list.push(danger(msg('A device of the volume group is missing: LVM moves no data until this device is attached again or removed.').key));
  if (used === undefined || room === undefined) list.push(warning(msg('It is unknown whether the other devices have enough free space. If not, the drain does not start, and the device shows the reason.').key));
  else if (room < used)
    list.push(danger(msg('{{used}} of the device is in use, but the other devices have only {{room}} free: the drain would be blocked. Add a device first, or delete volumes.').key, { used: size(used), room: size(room) }));
  else list.push(info(msg('{{used}} of data is moved to the other devices of the volume group on node {{node}}, which have {{room}} free. The volumes stay in use, but are slower during the move.').key, { used: size(used), room: size(room), node: member.node }));
  if (moving) list.push(info(msg('The drain starts when the drain of {{name}} is complete: one device at a time.').key, { name: moving.name ?? moving.uuid }));
  return [...list, info(msg('The move is atomic: until it is complete, and after an interruption, the data stays where it was.').key)];
}

const ofDrained = (): Consequence[] => [info(msg('The device stays in the volume group, empty and cordoned, until the request is removed.').key)];

function ofRemoval(c: DeviceClass, member: Member, size: (bytes: number) => string): Consequence[] {
  const [left, bytes] = [(member.group.physicalVolumes ?? []).length - 1, bytesOf(member.pv.size)];
  const list: Consequence[] = [];
  if (left < 1) list.push(danger(msg('It is the only device of the volume group on node {{node}} and stays in it: to remove the volume group, remove the device class.').key, { node: member.node }));
  if (c.raidConfig && left < minimumDevices(c.raidConfig) && left >= 1)
    list.push(danger(msg('{{level}} requires at least {{least}} devices, but only {{left}} would be left: the device stays until another one is added.').key, { level: c.raidConfig.type, least: minimumDevices(c.raidConfig), left }));
  return [
    ...list,
    info(msg('Then the device is removed from the volume group, which shrinks by {{size}}, and its LVM label is deleted. An event reports when you can detach the device.').key, { size: bytes === undefined ? '?' : size(bytes) }),
    info(msg('While the request exists, the device is not used again, even if a selector lists its path.').key),
  ];
}

function ofMissing(c: DeviceClass, wish: Wish): Consequence[] {
  if (wish !== 'Remove') return [danger(msg('The device is missing: no data can be moved from it. If it was only detached, attach it again.').key)];
  const back = info(msg('If the device was only detached, attach it again instead: its data is still valid.').key);
  return c.raidConfig
    ? [back, info(msg('Each affected volume is rebuilt on the remaining devices, one after another, then the lost device is removed from the volume group. If there is no spare device, add one first.').key)]
    : [back, danger(msg('Data that is only on this device is lost. No other data is deleted: while a volume has data there, the device stays, and reports which volumes to restore from a backup and delete first.').key)];
}

/** The member as it would be with a further device in its group. */
export const withDevice = (member: Member, bytes: number): Member => {
  const size = physicalVolume(bytes);
  return { ...member, group: { ...member.group, physicalVolumes: [...(member.group.physicalVolumes ?? []), { uuid: '', size, free: size, state: 'Ready' }] } };
};

/** The disks of a node that could take the place of one: blank, or free when they are named. */
export const spares = (seen: Seen | undefined): Device[] => (seen?.devices ?? []).filter((d) => ['usable', 'named'].includes(verdictOf(d, seen?.groups)));

/** What a change writes, line by line: requests and paths that come and go. */
export function changesOf(before: DeviceClass, after: DeviceClass): string[] {
  const lines = (c: DeviceClass) => [
    ...selectorsOf(c).flatMap((s) => (['paths', 'optionalPaths'] as const).flatMap((list) => (s[list] ?? []).map((p) => `${list}: ${p}`))),
    ...(c.deviceRequests ?? []).map((r) => `deviceRequests: {node: ${r.node}, device: ${r.device}, action: ${r.action}${r.suspend ? ', suspend: true' : ''}${r.suspendReason ? `, suspendReason: ${r.suspendReason}` : ''}}`),
  ];
  const [old, now] = [lines(before), lines(after)];
  return [...old.filter((l) => !now.includes(l)).map((l) => `- ${l}`), ...now.filter((l) => !old.includes(l)).map((l) => `+ ${l}`)];
}
