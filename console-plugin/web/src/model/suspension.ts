// Suspended volumes and devices: new Pods do not get them. The pages write what kubectl lvms suspend and resume write (cli/device/suspend.go).
import { SUSPENDED_ANNOTATION, SUSPENDED_DEVICES_ANNOTATION, type DeviceClass, type DeviceRequest, type LogicalVolume } from '../api/types';
import { isAbout, requestFor, withRequests, type Consequence, type Member } from './members';
import { msg, type Message } from './message';
import type { Volume } from './volumes';

/** The maximum number of characters of a reason, as in cli/device/suspend.go. */
export const MAX_REASON = 500;
/** The maximum number of names in a sentence. */
const MOST = 10;

/** Why new Pods do not get a volume. */
export interface Suspension {
  /** Who suspended the volume itself, when and why; empty if nobody recorded it. Undefined if it is not suspended itself. */
  own?: string;
  /** The suspended devices that have data of the volume. */
  devices?: string;
}

/** The suspension of a volume; undefined if new Pods get it. Any value of the annotation suspends it. */
export function suspensionOf({ metadata: { annotations = {} } }: LogicalVolume): Suspension | undefined {
  const own = annotations[SUSPENDED_ANNOTATION];
  const devices = annotations[SUSPENDED_DEVICES_ANNOTATION];
  if (own === undefined && !devices) return undefined;
  return { ...(own === undefined ? {} : { own: single(own) }), ...(devices ? { devices } : {}) };
}

const single = (text: string): string => text.split(/\s+/).filter(Boolean).join(' ');

/** The value of the annotation of a volume, and of suspendReason of a device. */
export function suspendedBy(user: string, now: Date, reason: string): string {
  const why = single(reason);
  return `by ${user} at ${now.toISOString().replace(/\.\d+Z$/, 'Z')}${why && `: ${why}`}`;
}

/** What suspendedBy wrote; undefined for another text. */
export function recordOf(own: string): { user: string; time: Date; reason: string } | undefined {
  const [, user, time = '', reason = ''] = /^by (.+?) at (\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ)(?:: (.*))?$/.exec(own) ?? [];
  const date = new Date(time);
  return user && !Number.isNaN(date.getTime()) ? { user, time: date, reason } : undefined;
}

/** Who suspended a volume, when and why, and which devices; a sentence each. time writes a time for people. */
export function detailsOf({ own, devices }: Suspension, time: (date: Date) => string): Message[] {
  const record = own && recordOf(own);
  const list: Message[] = [];
  if (record) list.push(msg('Suspended by {{user}} on {{time}}', { user: record.user, time: time(record.time) }));
  if (record && record.reason) list.push(msg('Reason: {{reason}}', { reason: record.reason }));
  if (own && !record) list.push(msg('{{text}}', { text: own }));
  if (own === '') list.push(msg('Suspended by an unknown user'));
  if (devices) list.push(msg('Suspended device with data of the volume: {{devices}}', { devices }));
  return list;
}

const info = (key: string, values?: Message['values']): Consequence => ({ level: 'info', text: msg(key, values) });
const warning = (key: string, values?: Message['values']): Consequence => ({ level: 'warning', text: msg(key, values) });

/** What the suspension or resumption of a volume leads to. */
export function consequencesForVolume(suspend: boolean, current: Suspension | undefined): Consequence[] {
  if (suspend)
    return [
      info(msg('New Pods do not get the volume: they stay pending, with the event FailedMount, until the volume is resumed.').key),
      info(msg('Pods that run keep the volume, and can write to it. After a restart of their node, they do not get it.').key),
      info(msg('Snapshots, clones and expansion are possible, and the claim can be deleted.').key),
    ];
  const { devices } = current ?? {};
  return devices
    ? [warning(msg('The volume has data on the suspended device {{devices}}. New Pods do not get it until the device is resumed too.').key, { devices })]
    : [info(msg('New Pods get the volume. Pending Pods get it within about two minutes.').key)];
}

/** Suspends a member, with who suspended it, when and why, or resumes it. A request to drain or remove the device stays. Without one, a suspended device is cordoned too. */
export function withSuspension(c: DeviceClass, member: Member, suspend: boolean, suspendReason = ''): DeviceClass {
  const current = requestFor(c, member);
  if ((current?.suspend ?? false) === suspend) return c;
  const others = (c.deviceRequests ?? []).filter((r) => !isAbout(r, member));
  const action = current?.action ?? 'Cordon';
  if (!suspend && action === 'Cordon') return withRequests(c, others);
  return withRequests(c, [...others, { node: member.node, device: member.pv.uuid, action, ...(suspend ? { suspend, ...(suspendReason ? { suspendReason } : {}) } : {}) }]);
}

/** A request in words of the API. */
export const requestText = (r: DeviceRequest): string => (r.suspend ? `${r.action}, suspend: true` : r.action);

/** The volumes of the volume group of a member. Snapshots are left out. */
export const volumesBeside = ({ node, group }: Member, volumes: Volume[]): Volume[] =>
  // A LogicalVolume without a device class is in the default one, which may be any.
  volumes.filter((v) => v.node === node && (!v.lv.spec.deviceClass || v.lv.spec.deviceClass === group.name) && v.kind === 'volume');

/** Names in a sentence, at most MOST of them. */
export const limited = (names: string[]): { names: string; more: number } => ({ names: names.slice(0, MOST).join(', '), more: Math.max(0, names.length - MOST) });

/** What the suspension of a device leads to. volumes are those of its volume group; undefined if they are not known, with the error if reading them failed. */
export function consequencesOfSuspension(member: Member, volumes: string[] | undefined, error?: string): Consequence[] {
  const alone = (member.group.physicalVolumes ?? []).length < 2;
  const { names, more } = limited(volumes ?? []);
  const list = more ? `${names}, …` : names;
  return [
    ...(error ? [warning(msg('The volumes on the device could not be read: {{error}}').key, { error })] : []),
    info(msg('New Pods do not get the volumes that have data on the device: they stay pending, with the event FailedMount, until the device is resumed.').key),
    info(msg('Pods that run keep the volumes, and can write to them. After a restart of their node, they do not get them.').key),
    ...(volumes?.length === 0 ? [info(msg('The volume group has no volumes.').key)] : []),
    ...(volumes?.length && alone ? [info(msg('Volumes with data on the device ({{number}}): {{list}}').key, { number: volumes.length, list })] : []),
    ...(volumes?.length && !alone ? [info(msg('The volume group also has other devices. Volumes that may have data on this device ({{number}}): {{list}}').key, { number: volumes.length, list })] : []),
    member.group.thinPool
      ? info(msg('If the thin pool has data on the device, all its volumes are suspended, and no new volume is created in it. Outside of the thin pool, no new data is placed on the device.').key)
      : info(msg('Existing data stays available. No new data is placed on the device.').key),
    info(msg('To undo this, resume the device.').key),
  ];
}

/** What the resumption of a device leads to. */
export function consequencesOfResumption(request: DeviceRequest | undefined): Consequence[] {
  return [
    info(msg('New Pods get the volumes on the device again, except those that were suspended themselves.').key),
    request && request.action !== 'Cordon' ? info(msg('The request stays: {{action}}').key, { action: request.action }) : info(msg('The device accepts new data again.').key),
  ];
}
