// What is being done to the storage: devices that are emptied, volumes that are synchronized, recoveries that run.
import type { LVMRecovery, NodeStatus, VGStatus } from '../api/types';

export interface Activity {
  key: string;
  kind: 'move' | 'resync' | 'recovery';
  node: string;
  deviceClass: string;
  /** The device, the logical volume, or the recovery. */
  name: string;
  /** From 0 to 100; none if the agent does not say. */
  percent?: number;
  /** What the agent says of it. */
  message?: string;
}

/** All activities, by node. */
export function activitiesOf(statuses: NodeStatus[], recoveries: LVMRecovery[]): Activity[] {
  const ofNodes = statuses.flatMap((s) => (s.status?.nodeStatus ?? []).flatMap((group) => ofGroup(s.metadata.name ?? '', group)));
  const running = recoveries
    .filter((r) => r.status?.phase === 'Running')
    .map((r): Activity => ({ key: `recovery ${r.metadata.uid}`, kind: 'recovery', node: r.spec.nodeName, deviceClass: r.spec.deviceClassName, name: r.metadata.name ?? '', message: r.status?.message }));
  return [...running, ...ofNodes].sort((a, b) => a.node.localeCompare(b.node, 'en', { numeric: true }) || a.name.localeCompare(b.name));
}

function ofGroup(node: string, group: VGStatus): Activity[] {
  const moves = (group.physicalVolumes ?? [])
    .filter((pv) => pv.state === 'Draining')
    .map((pv): Activity => ({ key: `move ${node} ${pv.uuid}`, kind: 'move', node, deviceClass: group.name, name: pv.name ?? pv.uuid, percent: pv.movedPercent, message: pv.message }));
  const resyncs = (group.raidStatus?.lvHealth ?? [])
    .filter((lv) => lv.syncPercent !== undefined && lv.syncPercent < 100)
    .map((lv): Activity => ({ key: `resync ${node} ${group.name} ${lv.name}`, kind: 'resync', node, deviceClass: group.name, name: lv.name, percent: lv.syncPercent, message: lv.raidType }));
  return [...moves, ...resyncs];
}

/** The progress of an activity since the page is open: its last value, and the times at which it grew first and last. Milliseconds. */
export interface Track {
  percent: number;
  first?: { percent: number; at: number };
  last?: { percent: number; at: number };
}

/**
 * The progress with what is seen now. When the first value was reached nobody knows, so that a speed is known from the second growth on. An activity
 * that has ended or went back is forgotten.
 */
export function tracked(before: Map<string, Track>, activities: Activity[], now: number): Map<string, Track> {
  const after = new Map<string, Track>();
  for (const { key, percent } of activities) {
    if (percent === undefined) continue;
    const old = before.get(key);
    if (!old || percent < old.percent) after.set(key, { percent });
    else if (percent === old.percent) after.set(key, old);
    else after.set(key, { percent, first: old.first ?? { percent, at: now }, last: { percent, at: now } });
  }
  return after;
}

/** Seconds until an activity is complete, at the speed since the page is open; none as long as that is unknown. */
export function remainingOf(track: Track | undefined, now: number): number | undefined {
  if (!track?.first || !track.last || track.last.percent === track.first.percent) return undefined;
  const speed = (track.last.percent - track.first.percent) / (track.last.at - track.first.at);
  if (!(speed > 0) || !Number.isFinite(speed)) return undefined;
  return Math.max(0, (100 - track.last.percent) / speed - (now - track.last.at)) / 1000;
}
