// The devices of a device class, and what is asked for them. docs/how-to/look-after-devices.md says what the requests do; the node agent
// does it (vgmanager/volumegroup/plan/drain.go).
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

/** Requests whose device is in no volume group of the class any longer, on nodes that have told what they have. */
export function doneRequests(c: DeviceClass, statuses: NodeStatus[]): DeviceRequest[] {
  const members = membersOf(c.name, statuses);
  const told = new Set(statuses.filter((s) => s.status?.nodeStatus?.some((g) => g.name === c.name && g.physicalVolumes)).map((s) => s.metadata.name));
  return (c.deviceRequests ?? []).filter((r) => told.has(r.node) && !members.some((m) => isAbout(r, m)));
}

export type Wish = 'Cordon' | 'Drain' | 'Remove';

function withRequests(c: DeviceClass, deviceRequests: DeviceRequest[]): DeviceClass {
  const { deviceRequests: _, ...rest } = c;
  return deviceRequests.length ? { ...rest, deviceRequests } : rest;
}

/**
 * Asks for something to be done with a member, or for nothing any longer. The request names the UUID of the physical volume: it is on the device
 * itself, and no other device can come to have it.
 */
export function withWish(c: DeviceClass, member: Member, wish: Wish | undefined): DeviceClass {
  const others = (c.deviceRequests ?? []).filter((r) => !isAbout(r, member));
  return withRequests(c, wish ? [...others, { node: member.node, device: member.pv.uuid, action: wish }] : others);
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
    info(msg('What is on it stays there and is served. Nothing new is put on it.').key),
    ...(room === 0 ? [warning(msg('No other device of the group has room: nothing can grow in it, and no volume with extents of its own can be made, as long as this holds.').key)] : []),
    info(msg('It is taken back by taking the request out.').key),
  ];
}

function ofDrain(member: Member, size: (bytes: number) => string): Consequence[] {
  const [used, room] = [usedOf(member), roomBeside(member)];
  const missing = (member.group.physicalVolumes ?? []).filter((pv) => pv.state === 'Missing').length;
  const moving = (member.group.physicalVolumes ?? []).find((pv) => pv.uuid !== member.pv.uuid && pv.state === 'Draining');
  const list: Consequence[] = [];
  if (member.pv.state === 'Failing') list.push(danger(msg('The device gives errors: what cannot be read of it cannot be moved. Have a backup of its volumes first.').key));
  if (used === 0) return [...list, info(msg('It is empty: nothing has to be moved.').key)];
  if (missing > 0) list.push(danger(msg('A device of the group is missing: LVM moves nothing until it is back or taken out. Nothing begins before that.').key));
  if (used === undefined || room === undefined) list.push(warning(msg('It is not known whether the other devices have room for what is on it. If they have not, nothing begins, and the device says why.').key));
  else if (room < used)
    list.push(danger(msg('{{used}} of it are in use and the other devices have {{room}} free: nothing would begin, and the device would be blocked. Add a device first, or delete volumes.').key, { used: size(used), room: size(room) }));
  else list.push(info(msg('{{used}} are moved to the other devices of the group on node {{node}}, which have {{room}} free. Volumes are in use meanwhile, and slower.').key, { used: size(used), room: size(room), node: member.node }));
  if (moving) list.push(info(msg('It waits until the move from {{name}} is done: one device at a time.').key, { name: moving.name ?? moving.uuid }));
  return [...list, info(msg('It is all or nothing: until the end, and after an interruption, the data is where it was.').key)];
}

const ofDrained = (): Consequence[] => [info(msg('The device stays in the group, empty and closed, until the request is taken out.').key)];

function ofRemoval(c: DeviceClass, member: Member, size: (bytes: number) => string): Consequence[] {
  const [left, bytes] = [(member.group.physicalVolumes ?? []).length - 1, bytesOf(member.pv.size)];
  const list: Consequence[] = [];
  if (left < 1) list.push(danger(msg('It is the only device of the group on node {{node}}, and stays: to give the group up, take the device class out.').key, { node: member.node }));
  if (c.raidConfig && left < minimumDevices(c.raidConfig) && left >= 1)
    list.push(danger(msg('{{level}} needs at least {{least}} devices, and {{left}} would be left: it stays until another one is added.').key, { level: c.raidConfig.type, least: minimumDevices(c.raidConfig), left }));
  return [
    ...list,
    info(msg('Then it leaves the volume group, which is {{size}} smaller, and its label is removed. An event says when it may be detached.').key, { size: bytes === undefined ? '?' : size(bytes) }),
    info(msg('It is not taken again while the request stands, also where its path is still in the selector.').key),
  ];
}

function ofMissing(c: DeviceClass, wish: Wish): Consequence[] {
  if (wish !== 'Remove') return [danger(msg('The device is not there: nothing can be moved from it. If it was only unplugged, plug it in again.').key)];
  const back = info(msg('If it was only unplugged, plug it in again in place of this: what is on it is used again.').key);
  return c.raidConfig
    ? [back, info(msg('Each volume that lost a part is rebuilt on the devices that are there, one after another. Then the lost device leaves the group. Add a new device first, if there is none to spare.').key)]
    : [back, danger(msg('What was on it alone is lost. Nothing is thrown away by this: while a volume has a part there, the device stays and says which ones have to be restored from a backup and deleted first.').key)];
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
    ...(c.deviceRequests ?? []).map((r) => `deviceRequests: {node: ${r.node}, device: ${r.device}, action: ${r.action}}`),
  ];
  const [old, now] = [lines(before), lines(after)];
  return [...old.filter((l) => !now.includes(l)).map((l) => `- ${l}`), ...now.filter((l) => !old.includes(l)).map((l) => `+ ${l}`)];
}
