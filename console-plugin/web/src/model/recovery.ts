// Recoveries: which one the status of a node suggests, what a plan loses, and what may be approved. docs/how-to/recover.md has the same
// table of reasons and actions; the node agent decides whether an action helps (vgmanager/group/volumegroup/plan).
import { API_VERSION, recoveryModel, type LVMRecovery, type NodeStatus, type RecoveryAction, type RecoveryPhase, type RecoveryPlan, type RecoveryVolume, type VGStatus } from '../api/types';
import type { Level } from './health';
import { msg, type Message } from './message';
import { bytesOf } from './quantity';
import type { Volume } from './volumes';

/** What each action does, in the order in which they are offered. */
export const actions: Record<RecoveryAction, Message> = {
  RemoveLostDevices: msg('Removes missing devices from the volume group, with the volumes that cannot be read without them.'),
  RestoreLabels: msg('Writes the LVM labels of attached devices again after they were overwritten.'),
  RestoreMetadata: msg('Restores the metadata of a volume group that was deleted, or replaced with that of an earlier time.'),
  RepairThinPool: msg('Checks the metadata of the thin pool and repairs it. No Pod can use volumes of the pool meanwhile.'),
  FreePoolSpace: msg('Trims the mounted file systems of the thin pool, so that the pool gets back the blocks of deleted files.'),
  DeleteOrphans: msg('Deletes logical volumes that no object of the cluster refers to.'),
  ImportVolumes: msg('Creates the PersistentVolumes and claims of logical volumes that have none. No volume is changed.'),
  AcceptMetadata: msg('Uses the present metadata of the volume group, although the node has seen a later change. No volume is changed.'),
  CheckFileSystems: msg('Checks the file systems of volumes that no Pod uses, and repairs those with errors.'),
};
export const actionNames = Object.keys(actions) as RecoveryAction[];

/** What the repair of a thin pool does. */
export const repairs: Record<string, Message> = {
  ClearCheckFlag: msg('The metadata is valid: the flag that requires a check is cleared.'),
  RebuildMetadata: msg('The metadata is damaged: what can be read is written again, and the previous metadata is kept.'),
  ExtendMetadata: msg('The metadata is full: it is extended from the free space of the volume group.'),
};

export interface Suggestion {
  node: string;
  action: RecoveryAction;
  /** The reason of the condition, or Orphans or PoolNearlyFull. */
  cause: string;
  /** What the node agent says. */
  message?: string;
  /** Orphans, or percent of the pool. */
  count?: number;
}

/** Percent of a thin pool from which on it is nearly full: the threshold of the alert ThinPoolDataUsageAtThresholdNearFull. */
export const NEARLY_FULL = 75;

const byReason: Record<string, RecoveryAction> = {
  RAIDFailed: 'RemoveLostDevices',
  ThinPoolFailed: 'RepairThinPool', ThinPoolNeedsCheck: 'RepairThinPool', ThinPoolReadOnly: 'RepairThinPool', ThinPoolOutOfMetadata: 'RepairThinPool',
  ThinPoolOutOfData: 'FreePoolSpace', ThinPoolCannotGrow: 'FreePoolSpace',
};

/** The remedies for a missing device that is attached: LVM has to list it again. */
const attached = /lvmdevices --adddev|vgextend --restoremissing/;

/** The action for a missing device. The message names the one that keeps most first. */
function forMissing(message: string): RecoveryAction | undefined {
  const [, named] = /action: (RestoreLabels|RestoreMetadata|RemoveLostDevices)/.exec(message) ?? [];
  if (named && named !== 'RemoveLostDevices') return named as RecoveryAction;
  // Several devices can be missing: none is given up while one of them only has to be listed again.
  if (attached.test(message)) return undefined;
  // With nothing on the device, a request to remove it is enough: the table of devices has it.
  return named || !message.includes('deviceRequests') ? 'RemoveLostDevices' : undefined;
}

/** The action for another reason. If a pool does not match the metadata of its volume group, or is not in it, no repair helps. */
function forReason(reason: string, message: string): RecoveryAction | undefined {
  if (reason === 'ThinPoolFailed' && message.includes('action: RestoreMetadata')) return 'RestoreMetadata';
  if (reason === 'ThinPoolFailed' && message.includes('vgcfgrestore')) return undefined;
  if (reason === 'MetadataReplaced') return message.includes('action: RestoreMetadata') ? 'RestoreMetadata' : 'AcceptMetadata';
  return Object.hasOwn(byReason, reason) ? byReason[reason] : undefined;
}

/** The recoveries that the status of a device class on a node suggests: docs/how-to/recover.md, "the status says". */
export function suggestionsOf(status: NodeStatus, deviceClass: string): Suggestion[] {
  const group = status.status?.nodeStatus?.find((g) => g.name === deviceClass);
  if (!group) return [];
  const node = status.metadata.name ?? '';
  return [...ofConditions(node, group), ...ofOrphans(node, group)];
}

function ofConditions(node: string, group: VGStatus): Suggestion[] {
  const wrong = (group.conditions ?? []).filter((c) => c.status === 'False');
  const missing = wrong.find((c) => c.reason === 'DeviceMissing');
  // Pools and RAID volumes suffer from a missing device, and are not repaired while it is missing.
  if (missing) {
    const action = forMissing(missing.message ?? '');
    return action ? [{ node, action, cause: 'DeviceMissing', message: missing.message }] : [];
  }
  const list = wrong.flatMap(({ reason = '', message }): Suggestion[] => {
    const action = forReason(reason, message ?? '');
    return action ? [{ node, action, cause: reason, message }] : [];
  });
  const percent = group.thinPool?.dataPercent ?? 0;
  return list.length || percent < NEARLY_FULL ? list : [{ node, action: 'FreePoolSpace', cause: 'PoolNearlyFull', count: percent }];
}

function ofOrphans(node: string, group: VGStatus): Suggestion[] {
  // What keeps the data is first.
  return (['ImportVolumes', 'DeleteOrphans'] as const).flatMap((action): Suggestion[] => {
    const count = orphansOf(group, action).length;
    return count ? [{ node, cause: 'Orphans', count, action }] : [];
  });
}

/** Suggestions for which there is no recovery that has not ended. */
export const openSuggestions = (suggestions: Suggestion[], deviceClass: string, recoveries: LVMRecovery[]): Suggestion[] =>
  suggestions.filter((s) => !unfinished(recoveries, s.node, deviceClass).some((r) => r.spec.action === s.action));

/** The suggestions for each problem of a node together, those for what is wrong before orphans. */
export function byProblem(suggestions: Suggestion[]): [Suggestion, ...Suggestion[]][] {
  const problems = new Map<string, [Suggestion, ...Suggestion[]]>();
  for (const s of suggestions) {
    const list = problems.get(`${s.node} ${s.cause}`);
    if (list) list.push(s);
    else problems.set(`${s.node} ${s.cause}`, [s]);
  }
  return [...problems.values()].sort(([a], [b]) => Number(a.cause === 'Orphans') - Number(b.cause === 'Orphans'));
}

/** The recoveries of a device class on a node that have not ended, the oldest first: in this order the agent carries them out. */
export const unfinished = (recoveries: LVMRecovery[], node: string, deviceClass: string): LVMRecovery[] =>
  recoveries
    .filter((r) => r.spec.nodeName === node && r.spec.deviceClassName === deviceClass && r.status?.phase !== 'Succeeded' && !r.metadata.deletionTimestamp)
    .sort((a, b) => created(a).localeCompare(created(b)));

const created = (r: LVMRecovery): string => r.metadata.creationTimestamp ?? '';

/** Those that wait for somebody first, then the newest. */
export const sorted = (recoveries: LVMRecovery[]): LVMRecovery[] =>
  [...recoveries].sort((a, b) => Number(isApprovable(b)) - Number(isApprovable(a)) || created(b).localeCompare(created(a)) || (a.metadata.name ?? '').localeCompare(b.metadata.name ?? ''));

/** Whether somebody should look at the recoveries of a device class first: something is wrong that a recovery helps against, or one waits. */
export const isUrgent = (suggestions: Suggestion[], recoveries: LVMRecovery[]): boolean => suggestions.some((s) => s.cause !== 'Orphans') || recoveries.some(isApprovable);

/** How a phase is meant. A phase that this version does not know is no fault. */
export function levelOf(phase: RecoveryPhase | undefined): Level {
  return phase === 'Succeeded' ? 'success' : phase === 'AwaitingApproval' ? 'warning' : 'info';
}

export interface NamedClaim {
  namespace: string;
  name: string;
}

/** A claim from NAMESPACE/NAME. */
export function claimOf(text: string | undefined): NamedClaim | undefined {
  const [, namespace, name] = /^([^/\s]+)\/([^/\s]+)$/.exec(text ?? '') ?? [];
  return namespace && name ? { namespace, name } : undefined;
}

/** What a claim loses, or a volume without one. */
export interface Loss {
  kind: 'lost' | 'damaged';
  claim?: NamedClaim;
  volumes: string[];
  size: number;
  lostBytes: number;
}

/** What a plan loses, by claim: whole volumes first. */
export function lossesOf(plan: RecoveryPlan): Loss[] {
  const losses = new Map<string, Loss>();
  const add = (kind: Loss['kind']) => (v: RecoveryVolume) => {
    const claim = claimOf(v.claim);
    const key = `${kind} ${claim ? v.claim : ` ${v.name}`}`;
    const loss = losses.get(key) ?? { kind, claim, volumes: [], size: 0, lostBytes: 0 };
    loss.volumes.push(v.name);
    loss.size += v.size ?? 0;
    loss.lostBytes += v.lostBytes ?? 0;
    losses.set(key, loss);
  };
  plan.lostVolumes?.forEach(add('lost'));
  plan.damagedVolumes?.forEach(add('damaged'));
  const name = (l: Loss) => (l.claim ? `${l.claim.namespace}/${l.claim.name}` : (l.volumes[0] ?? ''));
  return [...losses.values()].sort((a, b) => Number(a.kind === 'damaged') - Number(b.kind === 'damaged') || Number(!a.claim) - Number(!b.claim) || name(a).localeCompare(name(b), undefined, { numeric: true }));
}

/** Whether a plan loses data, so that its approval needs more than a click. */
export const losesData = (plan: RecoveryPlan): boolean => plan.lostVolumeCount > 0 || (plan.lostVolumes?.length ?? 0) > 0 || (plan.damagedVolumes?.length ?? 0) > 0;

/** Lost volumes that the plan does not list, because it would be too long. */
export const unlisted = (plan: RecoveryPlan): number => Math.max(0, plan.lostVolumeCount - (plan.lostVolumes?.length ?? 0));

/** Whether a recovery waits for an approval of its plan. */
export const isApprovable = ({ spec, status, metadata }: LVMRecovery): boolean =>
  !metadata.deletionTimestamp && status?.phase === 'AwaitingApproval' && status.plan !== undefined && spec.approvedPlan !== status.plan.id;

/** Why the plan that is shown cannot be approved; undefined if it can. */
export function obstacleOf(shown: RecoveryPlan, uid: string | undefined, now: LVMRecovery | undefined): 'gone' | 'changed' | 'approved' | 'ended' | undefined {
  if (!now || now.metadata.uid !== uid || now.metadata.deletionTimestamp) return 'gone';
  if (now.status?.plan?.id === shown.id && now.spec.approvedPlan === shown.id) return 'approved';
  if (now.status?.phase !== 'AwaitingApproval') return 'ended';
  return now.status.plan?.id === shown.id ? undefined : 'changed';
}

/**
 * The approval of one plan. The API server applies it only while this object has this plan: what was not shown is not approved, even if the agent
 * writes a new plan at the same moment.
 */
export const approvalPatch = ({ metadata }: LVMRecovery, plan: RecoveryPlan) => [
  { op: 'test', path: '/metadata/uid', value: metadata.uid },
  { op: 'test', path: '/status/plan', value: plan },
  { op: 'add', path: '/spec/approvedPlan', value: plan.id },
];

/** What is asked for in the form. */
export interface Draft {
  node: string;
  action?: RecoveryAction;
  /** The selected volumes. */
  selected: string[];
  /** Further volumes, one a line: NAME, or for ImportVolumes also NAME NAMESPACE/CLAIM. */
  typed: string;
  /** The claims of selected volumes, as NAMESPACE/NAME, by volume. */
  claims: Record<string, string>;
}

export const emptyDraft: Draft = { node: '', selected: [], typed: '', claims: {} };

/** Whether an action has volumes. */
export const volumeUse = (action: RecoveryAction | undefined): 'required' | 'optional' | 'none' =>
  action === 'ImportVolumes' ? 'optional' : action === 'DeleteOrphans' || action === 'CheckFileSystems' ? 'required' : 'none';

interface Line {
  volume: string;
  claim?: string;
}

/** The volumes of a draft with their claims, each once. The prefix of the volume group is dropped: the status has names with it. */
function linesOf(draft: Draft, deviceClass: string): Line[] {
  if (volumeUse(draft.action) === 'none') return [];
  const typed = draft.typed.split('\n').map((l) => l.trim()).filter(Boolean).map((l): Line => {
    const [volume = '', ...claim] = l.split(/\s+/);
    return { volume: shortName(volume, deviceClass), claim: claim.join(' ') || undefined };
  });
  const lines = [...draft.selected.map((volume): Line => ({ volume, claim: draft.action === 'ImportVolumes' ? draft.claims[volume]?.trim() || undefined : undefined })), ...typed];
  return lines.filter((l, i) => lines.findIndex((o) => o.volume === l.volume) === i);
}

const shortName = (name: string, deviceClass: string): string => (name.startsWith(`${deviceClass}/`) ? name.slice(deviceClass.length + 1) : name);

/** The first thing that a draft lacks. */
export function problemOf(draft: Draft, deviceClass: string): Message | undefined {
  if (!draft.node) return msg('Select a node.');
  if (!draft.action) return msg('Select an action.');
  const lines = linesOf(draft, deviceClass);
  if (volumeUse(draft.action) === 'required' && lines.length === 0) return msg('Select at least one volume, or enter its name.');
  for (const { volume, claim } of lines) {
    if (!/^[\w.+-]{1,127}$/.test(volume)) return msg('{{name}} is not the name of a logical volume.', { name: volume });
    if (claim !== undefined && draft.action !== 'ImportVolumes') return msg('Enter one volume on each line.');
    if (claim !== undefined && !claimOf(claim)) return msg('{{text}} is not a claim: enter NAMESPACE/NAME.', { text: claim });
  }
  return undefined;
}

/** The object for a draft. The API server gives it a name. */
export function recoveryOf(draft: Draft, deviceClass: string, namespace: string): LVMRecovery {
  const lines = linesOf(draft, deviceClass);
  const claims = lines.flatMap(({ volume, claim }) => {
    const named = claimOf(claim);
    return named ? [{ volume, ...named }] : [];
  });
  return {
    apiVersion: API_VERSION, kind: recoveryModel.kind, metadata: { generateName: `${draft.node}-${deviceClass}-`.toLowerCase(), namespace },
    spec: {
      nodeName: draft.node, deviceClassName: deviceClass, action: draft.action as RecoveryAction,
      ...(lines.length ? { volumes: lines.map((l) => l.volume) } : {}), ...(claims.length ? { claims } : {}),
    },
  };
}

/** A volume that can be selected for an action. */
export interface Candidate {
  name: string;
  size?: number;
  claim?: string;
  /** What is wrong with it. */
  problem?: string;
}

/**
 * The logical volumes of a group that no object refers to, without the name of the group. Those whose object names a node
 * that lacks them can only be imported.
 */
export const orphansOf = (group: VGStatus | undefined, action: RecoveryAction | undefined): Candidate[] =>
  (group?.orphans ?? []).filter((o) => o.kind === 'LogicalVolume' || (o.kind === 'OtherNode' && action === 'ImportVolumes')).map((o) => ({ name: shortName(o.name, group?.name ?? ''), size: bytesOf(o.size), claim: o.claim }));

/** The volumes of a node whose file systems can be checked, those with a problem first. */
export const checkable = (volumes: Volume[], node: string, words: (m: Message) => string): Candidate[] =>
  volumes.flatMap((v) => {
    const name = v.lv.status?.volumeID;
    if (v.node !== node || v.kind !== 'volume' || !name) return [];
    return [{ name, size: v.size, claim: v.namespace && v.claim ? `${v.namespace}/${v.claim}` : undefined, problem: v.problems.map(words).join('; ') || undefined }];
  });

const spans: [Intl.NumberFormatOptions['unit'] & string, number][] = [['day', 86_400], ['hour', 3600], ['minute', 60], ['second', 1]];

/** How old something is, in its largest unit. */
export function ageOf(time: string | undefined, now: number, locale: string): string {
  const seconds = Math.max(0, Math.floor((now - Date.parse(time ?? '')) / 1000));
  if (Number.isNaN(seconds)) return '–';
  const [unit, length] = spans.find(([, n]) => seconds >= n) ?? ['second', 1];
  return new Intl.NumberFormat(locale, { style: 'unit', unit, unitDisplay: 'short' }).format(Math.floor(seconds / length));
}
