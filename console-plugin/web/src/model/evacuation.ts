// What can be moved from a node, and what cannot: the rules and words of `kubectl lvms evacuate` (cli/evacuate.go).
// cli/testdata/evacuation.json holds both to the same plans. Sizes are bytes.
import { CLAIM_ANNOTATION, classesOf, MOVE_ANNOTATION, type LogicalVolume, type LVMCluster, type NodeStatus, type VolumeMove } from '../api/types';
import { msg, type Message } from './message';
import { openMove } from './moves';
import { bytesOf } from './quantity';
import { classOf } from './volumes';

export interface Stays {
  /** The claim, or the VolumeSnapshot. */
  claim?: string;
  snapshot: boolean;
  /** The LogicalVolume. */
  name: string;
  why: Message;
}

export interface Evacuation {
  node: string;
  /** The claims whose volumes are moved, sorted. */
  moves: string[];
  /** Volumes that cannot be moved, and why, sorted. */
  stay: Stays[];
  /** The claims that are being moved already, sorted. */
  running: string[];
  /** The size of the volumes that are moved, and the data that is copied, at most. */
  size: number;
  allocated: number;
  /** The free capacity of each device class on the other nodes. */
  free: Map<string, number>;
}

/** Bytes for each second, for the forecast. */
export const DEFAULT_RATE = '100Mi';

/** The thin pools of the node and of the other nodes, by device class. */
function poolsOf(node: string, statuses: NodeStatus[]) {
  const pools = { used: new Map<string, number>(), free: new Map<string, number>(), largest: new Map<string, number>() };
  for (const { metadata, status } of statuses)
    for (const { name, thinPool } of status?.nodeStatus ?? []) {
      const free = bytesOf(thinPool?.free);
      if (!thinPool) continue;
      if (metadata.name === node) pools.used.set(name, Math.trunc(((bytesOf(thinPool.size) ?? 0) / 100) * thinPool.dataPercent));
      else if (free !== undefined) {
        pools.free.set(name, (pools.free.get(name) ?? 0) + free);
        pools.largest.set(name, Math.max(pools.largest.get(name) ?? 0, free));
      }
    }
  return pools;
}

/** Decides what happens to the volumes of a node. size writes a number of bytes. */
export function evacuationOf(node: string, cluster: LVMCluster, volumes: LogicalVolume[], statuses: NodeStatus[], moves: VolumeMove[], size: (bytes: number) => string): Evacuation {
  const { used, free, largest } = poolsOf(node, statuses);
  const plan: Evacuation = { node, moves: [], stay: [], running: [], size: 0, allocated: 0, free };
  const sizes = new Map<string, number>();
  for (const lv of volumes) {
    const { annotations = {}, name = '' } = lv.metadata;
    if (lv.spec.nodeName !== node || annotations[MOVE_ANNOTATION]) continue;
    const deviceClass = classOf(lv, cluster) ?? '';
    const claim = annotations[CLAIM_ANNOTATION] ?? '';
    const bytes = bytesOf(lv.spec.size) ?? 0;
    const most = largest.get(deviceClass) ?? 0;
    const why = whyStays(lv, deviceClass, cluster);
    if (why) plan.stay.push({ claim: claim || undefined, snapshot: lv.spec.accessType === 'ro', name, why });
    else if (openMove(moves, claim)) plan.running.push(claim);
    else if (bytes > most) {
      const values = { size: size(bytes), free: size(most), name: deviceClass };
      plan.stay.push({ claim, snapshot: false, name, why: msg('it has {{size}}, and the other nodes have at most {{free}} free in device class {{name}}', values) });
    } else {
      plan.moves.push(claim);
      plan.size += bytes;
      sizes.set(deviceClass, (sizes.get(deviceClass) ?? 0) + bytes);
    }
  }
  for (const [name, bytes] of sizes) plan.allocated += Math.min(bytes, used.get(name) ?? 0);
  plan.moves.sort();
  plan.running.sort();
  plan.stay.sort((a, b) => (key(a) < key(b) ? -1 : 1));
  return plan;
}

/** The order is that of the lines of the kubectl plugin. */
const key = ({ claim, name }: Pick<Stays, 'claim' | 'name'>): string => `${claim ?? 'volume'} (${name}): `;

/** Why a volume of a device class cannot be moved to any node; undefined if it can. */
export function whyStays({ metadata, spec, status }: LogicalVolume, deviceClass: string, cluster: LVMCluster | undefined, claim = metadata.annotations?.[CLAIM_ANNOTATION]): Message | undefined {
  if (spec.accessType === 'ro') return msg('it is a snapshot: snapshots stay on their node');
  if (!claim) return msg('its claim is not known');
  if (metadata.deletionTimestamp || !status?.volumeID) return msg('it is being created or deleted');
  if (!classesOf(cluster).some((c) => c.name === deviceClass && c.thinPoolConfig)) return msg('device class {{name}} has no thin pool', { name: deviceClass });
  return undefined;
}

/** How numbers are written. */
export interface Writing {
  size: (bytes: number) => string;
  duration: (seconds: number) => string;
}

/** What an evacuation does, in sentences, with a forecast for a rate in bytes for each second. */
export function sentencesOf(plan: Evacuation, rate: number, { size, duration }: Writing): Message[] {
  const values = { node: plan.node, count: plan.moves.length, size: size(plan.size), data: size(plan.allocated) };
  const seconds = Math.max(1, Math.round(plan.allocated / rate));
  return [
    msg('Node {{node}}: {{count}} volumes can be moved, {{size}}, with at most {{data}} of data.', values),
    ...[...plan.free].sort(([a], [b]) => (a < b ? -1 : 1)).map(([name, free]) => msg('The other nodes have {{free}} free in device class {{name}}.', { free: size(free), name })),
    ...(plan.allocated > 0 ? [msg('At {{rate}} for each second, the copies take at most about {{duration}}.', { rate: size(rate), duration: duration(seconds) })] : []),
  ];
}
