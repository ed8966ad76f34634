// Moves of volumes between nodes: what they do, what undoing them does, and new ones.
import { API_VERSION, moveModel, type MovePhase, type NodeStatus, type VolumeMove } from '../api/types';
import type { Level } from './health';
import { msg, type Message } from './message';
import { bytesOf } from './quantity';

/** The claim, as NAMESPACE/NAME. */
export const claimOfMove = ({ spec: { claim } }: VolumeMove): string => `${claim.namespace}/${claim.name}`;

/** The node to which a move goes; undefined until the operator has selected one. */
export const targetOf = ({ spec, status }: VolumeMove): string | undefined => status?.targetNode || spec.nodeName;

/** Whether the operator does nothing more for a move. */
const isEnded = ({ status }: VolumeMove): boolean => status?.phase === 'Completed' || status?.phase === 'Failed';

/** Whether the volume is on the target node. */
export const isSwitched = ({ status }: VolumeMove): boolean => status?.phase === 'KeepingSource' || status?.phase === 'Completed' || status?.switchTime !== undefined;

/** The move of a claim that has not ended and whose volume is not on the target node: `openMove` of cli/move/move.go. */
export const openMove = (moves: VolumeMove[], claim: string): VolumeMove | undefined =>
  moves.find((m) => claimOfMove(m) === claim && !isEnded(m) && m.status?.phase !== 'KeepingSource');

/** The move that the page of a claim shows: the open one, or else the newest whose old logical volume is kept. */
export function moveOfClaim(moves: VolumeMove[], claim: string): VolumeMove | undefined {
  return openMove(moves, claim) ?? sorted(moves).find((m) => claimOfMove(m) === claim && m.status?.phase === 'KeepingSource');
}

const created = (m: VolumeMove): string => m.metadata.creationTimestamp ?? '';
const rank = (m: VolumeMove): number => (m.status?.phase === 'WaitingForPods' ? 0 : isEnded(m) ? 2 : 1);

/** Those that somebody has to act on first, then those that run, then those that have ended; in each group the newest first. */
export const sorted = (moves: VolumeMove[]): VolumeMove[] =>
  [...moves].sort((a, b) => rank(a) - rank(b) || created(b).localeCompare(created(a)) || (a.metadata.name ?? '').localeCompare(b.metadata.name ?? ''));

/** Those from or to a node. */
export const movesOfNode = (moves: VolumeMove[], node: string): VolumeMove[] => moves.filter((m) => m.status?.sourceNode === node || targetOf(m) === node);

/** How a phase is meant. A phase that this version does not know is no fault. */
export function levelOf(phase: MovePhase | undefined): Level {
  if (phase === 'Failed') return 'danger';
  if (phase === 'WaitingForPods') return 'warning';
  return phase === 'KeepingSource' || phase === 'Completed' ? 'success' : 'info';
}

export interface Copied {
  round: number;
  copied: number;
  total: number;
  /** Rounded down, so that 100 is all. */
  percent: number;
}

/** How much the present round has copied; undefined before the first one and after the switch. */
export function copiedOf(m: VolumeMove): Copied | undefined {
  const { round = 0, copiedBytes: copied = 0, totalBytes: total = 0 } = m.status ?? {};
  if (round <= 0 || total <= 0 || isSwitched(m)) return undefined;
  return { round, copied, total, percent: Math.min(100, Math.floor((copied / total) * 100)) };
}

/** What the deletion of a move does. */
export type Undo = 'stays' | 'switching' | 'removesSource' | 'record' | 'failed';

/** What the deletion of a move does in its phase: docs/how-to/move-volumes.md, "Undo a move". */
export function undoOf({ status }: VolumeMove): Undo {
  switch (status?.phase) {
    case 'Completed':
      return 'record';
    case 'Failed':
      return 'failed';
    case 'KeepingSource':
      return 'removesSource';
    case 'Switching':
      return status.switchTime ? 'removesSource' : 'switching';
    default:
      return 'stays';
  }
}

/** What is asked for in the form. */
export interface MoveDraft {
  /** Empty for any node. */
  node: string;
  /** Without an effect on thick volumes. */
  maxPause?: string;
  keepSource: string;
}

/** With the defaults of the CRD. */
export const emptyMove = { node: '', maxPause: '30s', keepSource: '24h' } satisfies MoveDraft;

const lengths: Record<string, number> = { h: 3600, m: 60, s: 1, ms: 1e-3, us: 1e-6, µs: 1e-6, ns: 1e-9 };
const part = /(\d+(?:\.\d*)?|\.\d+)(h|ms|µs|us|ns|m|s)/g;

/** Seconds of a duration of Go, as 1h30m; undefined if it is none. */
export function secondsOf(text: string): number | undefined {
  const parts = [...text.matchAll(part)];
  if (parts.length === 0 || parts.map(([p]) => p).join('') !== text) return undefined;
  return parts.reduce((sum, [, n = '', unit = '']) => sum + Number(n) * (lengths[unit] ?? 0), 0);
}

/** A number of seconds as Go writes it: 1h2m3s. */
export function durationOf(seconds: number): string {
  const [h, m, s] = [Math.floor(seconds / 3600), Math.floor(seconds / 60) % 60, seconds % 60];
  return (h ? `${h}h` : '') + (h || m ? `${m}m` : '') + `${s}s`;
}

/** A number of seconds for a person, without units that are 0. */
export function formatDuration(seconds: number, locale: string): string {
  const parts: [number, string][] = [[Math.floor(seconds / 3600), 'hour'], [Math.floor(seconds / 60) % 60, 'minute'], [Math.floor(seconds) % 60, 'second']];
  const shown = parts.filter(([n], i) => n > 0 || (i === 2 && seconds < 1));
  return shown.map(([n, unit]) => new Intl.NumberFormat(locale, { style: 'unit', unit, unitDisplay: 'short' }).format(n)).join(' ');
}

/** The first thing that is wrong with a draft: the rules of the CRD. */
export function problemOf({ maxPause, keepSource }: MoveDraft): Message | undefined {
  const [pause, keep] = [maxPause === undefined ? 1 : secondsOf(maxPause.trim()), secondsOf(keepSource.trim())];
  if (pause === undefined || pause < 1 || pause > 24 * 3600) return msg('The maximum pause must be between 1s and 24h, for example 30s.');
  if (keep === undefined || keep > 8760 * 3600) return msg('The time for which the old logical volume is kept must be between 0s and 8760h, for example 24h.');
  return undefined;
}

/** A VolumeMove for a claim, NAMESPACE/NAME. The API server gives it a name. Without a draft, the API server sets the defaults. */
export function newMove(namespace: string, claim: string, draft?: MoveDraft): VolumeMove {
  const [of = '', name = ''] = claim.split('/');
  const { node, maxPause, keepSource } = draft ?? {};
  return {
    apiVersion: API_VERSION, kind: moveModel.kind, metadata: { namespace, generateName: `${of}-${name}-` },
    spec: { claim: { namespace: of, name }, ...(node ? { nodeName: node } : {}), ...(maxPause === undefined ? {} : { maxPause: maxPause.trim() }), ...(keepSource === undefined ? {} : { keepSource: keepSource.trim() }) },
  };
}

export interface Target {
  node: string;
  /** Free capacity of the thin pool for new volumes, or of the volume group for thick ones, in bytes. */
  free?: number;
}

/** The other nodes with a thin pool of a device class, or with its volume group if it is thick; those with the most free capacity first. */
export const targetsOf = (statuses: NodeStatus[], deviceClass: string | undefined, source: string, thick: boolean): Target[] =>
  statuses
    .flatMap((s): Target[] => {
      const group = s.status?.nodeStatus?.find((g) => g.name === deviceClass);
      const pool = group?.thinPool;
      const node = s.metadata.name ?? '';
      const free = bytesOf(thick ? group?.free : (pool?.virtualFree ?? pool?.free));
      return (thick ? group : pool) && node !== source ? [{ node, free }] : [];
    })
    .sort((a, b) => (b.free ?? -1) - (a.free ?? -1) || a.node.localeCompare(b.node));
