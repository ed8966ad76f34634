// Devices that wait for an approval, and approvals that exist. The rules are those of vgmanager/group/volumegroup/plan/selection/approval.go; an approval is
// written as by cli/setup/approve.go.
import { API_VERSION, approvalModel, type Device, type DeviceApproval, type DeviceClass, type Node, type NodeStatus } from '../api/types';
import { devicesOf, lookupOf, namesOf, ourGroups, stablePath, verdictOf } from './devices';
import type { Consequence } from './members';
import { msg, type Message } from './message';
import { selects } from './nodes';
import { pathsOf, selectorsOf } from './selection';

const reasons = ['AwaitingApproval', 'ChangedSinceReview'] as const;

/** A device that a device class does not use before somebody approves it. */
export interface Waiting {
  node: string;
  deviceClass: string;
  device: Device;
  /** ChangedSinceReview if it was approved, and has changed since then. */
  reason: (typeof reasons)[number];
  /** What the node agent says about it. */
  message?: string;
}

function reasonFor(device: Device, deviceClass: string): Waiting['reason'] | undefined {
  const codes = device.eligibility?.find((e) => e.deviceClass === deviceClass)?.reasons ?? [];
  return reasons.find((reason) => codes.includes(reason));
}

/** The device classes for which a device waits. */
export const waitsFor = (device: Device): string[] => (device.eligibility ?? []).map((e) => e.deviceClass).filter((name) => reasonFor(device, name));

function messageOf(status: NodeStatus, deviceClass: string, device: Device, reason: string): string | undefined {
  const names = namesOf(device);
  const excluded = status.status?.nodeStatus?.find((g) => g.name === deviceClass)?.excluded ?? [];
  const text = excluded.find((e) => names.includes(e.name))?.reasons.find((r) => r.startsWith(`${reason}: `));
  return text?.slice(reason.length + 2);
}

const waitingOn = (status: NodeStatus): Waiting[] =>
  devicesOf(status).flatMap((device) =>
    waitsFor(device).map((deviceClass) => {
      const reason = reasonFor(device, deviceClass) ?? reasons[0];
      return { node: status.metadata.name ?? '', deviceClass, device, reason, message: messageOf(status, deviceClass, device, reason) };
    }),
  );

/** The devices that wait, of one device class if it is named. Those that have changed since they were approved come first. */
export const waitingOf = (statuses: NodeStatus[], deviceClass?: string): Waiting[] =>
  statuses
    .flatMap(waitingOn)
    .filter((w) => deviceClass === undefined || w.deviceClass === deviceClass)
    .sort((a, b) => reasons.indexOf(b.reason) - reasons.indexOf(a.reason) || a.node.localeCompare(b.node) || a.device.name.localeCompare(b.device.name) || a.deviceClass.localeCompare(b.deviceClass));

/** The same device has the same key while its content and its name in the kernel change. */
export const keyOf = ({ node, deviceClass, device }: Waiting): string => [node, deviceClass, device.id || stablePath(device)].join(' ');

/** A device can be approved if it has a fingerprint: it could be read, and something but its name or content identifies it. */
export const canBeApproved = ({ device }: Waiting): boolean => !!device.fingerprint;

/** What became of a device that was shown: it still waits as it was, it has changed, it is no longer listed, or it no longer waits. */
export type Standing = 'waits' | 'changed' | 'gone' | 'settled';

export function standingOf(shown: Waiting, statuses: NodeStatus[]): Standing {
  const devices = devicesOf(statuses.find((s) => s.metadata.name === shown.node));
  const same = (d: Device): boolean => (shown.device.id ? d.id === shown.device.id : stablePath(d) === stablePath(shown.device));
  const device = devices.find(same);
  if (!device) return 'gone';
  if (device.fingerprint !== shown.device.fingerprint) return 'changed';
  return waitsFor(device).includes(shown.deviceClass) ? 'waits' : 'settled';
}

/** How much of the name of a node, and of a fingerprint, is in the name of an approval. */
const NODE = 150;
const HASH = 12;

/** The approval of a device. The same approval always has the same name. */
export function newApproval({ node, deviceClass, device }: Waiting, namespace: string, user: string): DeviceApproval {
  const fingerprint = device.fingerprint ?? '';
  const hash = fingerprint.slice(fingerprint.indexOf('-') + 1).slice(0, HASH);
  return {
    apiVersion: API_VERSION, kind: approvalModel.kind,
    metadata: { namespace, name: `${node.slice(0, NODE).replace(/[-.]+$/, '')}-${deviceClass}-${hash}` },
    spec: { nodeName: node, deviceClassName: deviceClass, device: stablePath(device), fingerprint, approvedBy: user },
  };
}

/** Whether two approvals allow the same: whoever gave them, and by whatever name of the device. */
export const isSameApproval = ({ spec: a }: DeviceApproval, { spec: b }: DeviceApproval): boolean =>
  a.nodeName === b.nodeName && a.deviceClassName === b.deviceClassName && a.fingerprint === b.fingerprint;

/**
 * What the device class does with a device that is approved: use it as it is, destroy its content first, or nothing, because of its content or
 * of its use. unknown: it has content, and the device class could not be read.
 */
export type Effect = 'use' | 'wipe' | 'kept' | 'blocked' | 'unknown';

export function effectOf(w: Waiting, c: DeviceClass | undefined, node: Node | undefined): Effect {
  const verdict = verdictOf(w.device);
  const hasContent = verdict === 'wipe' || verdict === 'group' || !!w.device.signatures?.length;
  // The agent says AwaitingApproval only if nothing but the approval is missing.
  if (w.reason === 'AwaitingApproval') return hasContent ? 'wipe' : 'use';
  if (verdict === 'blocked') return 'blocked';
  if (!hasContent) return 'use';
  if (!c || !node) return 'unknown';
  return allowsWipe(c, node, w.device) ? 'wipe' : 'kept';
}

/** Whether a selector of the device class that names a device consents to destroy its content. */
function allowsWipe(c: DeviceClass, node: Node, device: Device): boolean {
  const isNamed = lookupOf([device]);
  const naming = selectorsOf(c).filter((s) => selects(s.nodeSelector, node) && pathsOf(s).some(isNamed));
  return naming.some((s) => s.forceWipeDevicesAndDestroyAllData || (device.volumeGroupUUID !== undefined && s.wipeVolumeGroups?.includes(device.volumeGroupUUID)));
}

const texts: Record<Exclude<Effect, 'use'>, [Consequence['level'], Message]> = {
  wipe: ['danger', msg('The content of {{count}} devices is destroyed, because the device class allows these devices to be wiped: {{devices}}')],
  unknown: ['danger', msg('{{count}} devices have content. It is destroyed if the device class allows them to be wiped, which could not be read: {{devices}}')],
  kept: ['warning', msg('{{count}} devices have content that the device class does not allow to be wiped. They are not used, even with an approval: {{devices}}')],
  blocked: ['warning', msg('{{count}} devices cannot be used at present, even with an approval: {{devices}}')],
};

/** So many devices are named in a sentence. */
const NAMED = 5;

export const namesIn = (list: Waiting[]): string => list.slice(0, NAMED).map((w) => `${w.device.name} (${w.node})`).join(', ') + (list.length > NAMED ? ' …' : '');

/** What the approval of devices leads to, the worst first. */
export function consequencesOfApproval(list: Waiting[], effect: (w: Waiting) => Effect): Consequence[] {
  const having = (wanted: Effect) => list.filter((w) => effect(w) === wanted);
  const changed = list.filter((w) => w.reason === 'ChangedSinceReview');
  const found = (Object.keys(texts) as (keyof typeof texts)[]).flatMap((kind): Consequence[] => {
    const [devices, [level, { key }]] = [having(kind), texts[kind]];
    return devices.length ? [{ level, text: { key, values: { count: devices.length, devices: namesIn(devices) } } }] : [];
  });
  return [
    ...found,
    ...(changed.length ? [{ level: 'warning' as const, text: msg('{{count}} devices were approved before, and have changed since then. Find out what changed them: {{devices}}', { count: changed.length, devices: namesIn(changed) }) }] : []),
    { level: 'info', text: msg('The node agents add the devices to the volume groups of device class {{names}}, if the devices still have these fingerprints.', { names: [...new Set(list.map((w) => w.deviceClass))].join(', ') }) },
    // Where the selector allows it, this would only confuse: the first line says that the content is destroyed.
    ...(destroys(list, effect) ? [] : [{ level: 'info' as const, text: msg('An approval does not allow a device to be wiped: only the selector of the device class can do that.') }]),
  ];
}

/** Whether an approval of devices destroys data, or may do so. */
export const destroys = (list: Waiting[], effect: (w: Waiting) => Effect): boolean => list.some((w) => ['wipe', 'unknown'].includes(effect(w)));

/**
 * What an approval is worth: its device is in the volume group, is still as it was approved, or has changed. absent: the node does not list the
 * device; unknown: nothing is known of the node.
 */
export type ApprovalState = 'used' | 'valid' | 'changed' | 'absent' | 'unknown';

export function stateOf({ spec }: DeviceApproval, statuses: NodeStatus[]): ApprovalState {
  const status = statuses.find((s) => s.metadata.name === spec.nodeName);
  if (!status?.status?.devices) return 'unknown';
  const devices = devicesOf(status);
  const device = devices.find((d) => d.fingerprint === spec.fingerprint) ?? lookupOf(devices)(spec.device);
  if (!device || device.state === 'Missing') return 'absent';
  const group = status.status.nodeStatus?.find((g) => g.name === spec.deviceClassName);
  if (device.volumeGroup && device.volumeGroup === (group?.volumeGroup ?? group?.name) && ourGroups(status).has(device.volumeGroup)) return 'used';
  return device.fingerprint === spec.fingerprint ? 'valid' : 'changed';
}

/** What becomes of the device if its approval is revoked. */
export const effectOfRevocation: Record<ApprovalState, Message> = {
  used: msg('The device stays in the volume group, with its data. If it is removed from the volume group, it is not used again before somebody approves it.'),
  valid: msg('The node agent does not add the device to the volume group, unless it has already begun to do so. The device awaits approval again.'),
  changed: msg('The approval has no effect, because the device has changed since then. The record of who approved the device, and when, is deleted.'),
  absent: msg('The node does not list the device at present. If the device returns, it is not used before somebody approves it.'),
  unknown: msg('The devices of the node are unknown. If the device is in the volume group, it stays there. Otherwise it is not used before somebody approves it.'),
};

/** The newest first. */
export const sortedApprovals = (list: DeviceApproval[]): DeviceApproval[] =>
  [...list].sort((a, b) => (b.metadata.creationTimestamp ?? '').localeCompare(a.metadata.creationTimestamp ?? '') || (a.metadata.name ?? '').localeCompare(b.metadata.name ?? ''));
