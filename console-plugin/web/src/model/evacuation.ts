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
  /** Those of thick volumes, with their size. */
  thick: Map<string, number>;
  /** Volumes that cannot be moved, and why, sorted. */
  stay: Stays[];
  /** The claims that are being moved already, sorted. */
  running: string[];
  /** The size of the volumes that are moved, and the data of the thin ones, at most. */
  size: number;
  allocated: number;
  /** The size of the volumes that are moved, by device class. */
  needed: Map<string, number>;
  /** The free capacity of each device class on the other nodes. */
  free: Map<string, number>;
}

/** Bytes for each second, for the forecast. */
export const DEFAULT_RATE = '100Mi';

/** The data in the thin pools of the node, and the free capacity of the other nodes, by device class. */
function capacityOf(node: string, cluster: LVMCluster, statuses: NodeStatus[]) {
  const thin = new Set(classesOf(cluster).filter((c) => c.thinPoolConfig).map((c) => c.name));
  const capacity = { used: new Map<string, number>(), free: new Map<string, number>(), largest: new Map<string, number>() };
  for (const { metadata, status } of statuses)
    for (const group of status?.nodeStatus ?? []) {
      const { name, thinPool } = group;
      const free = bytesOf(thin.has(name) ? thinPool?.free : group.free);
      if (metadata.name === node) {
        if (thin.has(name) && thinPool) capacity.used.set(name, Math.trunc(((bytesOf(thinPool.size) ?? 0) / 100) * thinPool.dataPercent));
      } else if (free !== undefined) {
        capacity.free.set(name, (capacity.free.get(name) ?? 0) + free);
        capacity.largest.set(name, Math.max(capacity.largest.get(name) ?? 0, free));
      }
    }
  return capacity;
}

/** Decides what happens to the volumes of a node. size writes a number of bytes. */
export function evacuationOf(node: string, cluster: LVMCluster, volumes: LogicalVolume[], statuses: NodeStatus[], moves: VolumeMove[], size: (bytes: number) => string): Evacuation {
  const { used, free, largest } = capacityOf(node, cluster, statuses);
  const plan: Evacuation = { node, moves: [], thick: new Map(), stay: [], running: [], size: 0, allocated: 0, needed: new Map(), free };
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
      plan.needed.set(deviceClass, (plan.needed.get(deviceClass) ?? 0) + bytes);
      if (isThick(cluster, deviceClass)) plan.thick.set(claim, bytes);
    }
  }
  for (const [name, bytes] of plan.needed) plan.allocated += Math.min(bytes, used.get(name) ?? 0);
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
  if (!classesOf(cluster).some((c) => c.name === deviceClass)) return msg('the LVMCluster has no device class "{{name}}"', { name: deviceClass });
  return undefined;
}

/** Whether the volumes of a device class are thick, so that they are copied only while no Pod uses them. */
export const isThick = (cluster: LVMCluster | undefined, deviceClass: string | undefined): boolean => classesOf(cluster).some((c) => c.name === deviceClass && !c.thinPoolConfig);

/** How numbers are written. */
export interface Writing {
  size: (bytes: number) => string;
  duration: (seconds: number) => string;
}

/** How many seconds bytes take at a rate in bytes for each second, at least one. */
const copySeconds = (bytes: number, rate: number): number => Math.max(1, Math.round(bytes / rate));

/** How many seconds Pods cannot start while a thick volume is moved. All of it is read twice: to copy it, and to compare the copy. */
export const thickPause = (bytes: number, rate: number): number => 2 * copySeconds(bytes, rate);

/** What the move of a thick volume means for its Pods. */
export const thickText = (bytes: number, rate: number, { size, duration }: Writing): Message =>
  msg('thick, {{size}}, its Pods cannot start for about {{duration}} at {{rate}} for each second', { size: size(bytes), duration: duration(thickPause(bytes, rate)), rate: size(rate) });

/** What an evacuation does, in sentences, with a forecast for a rate in bytes for each second. */
export function sentencesOf(plan: Evacuation, rate: number, { size, duration }: Writing): Message[] {
  const { node, moves, needed, free, allocated, thick } = plan;
  const byName = (sizes: Map<string, number>) => [...sizes].sort(([a], [b]) => (a < b ? -1 : 1));
  const lacking = byName(needed).filter(([name, bytes]) => bytes > (free.get(name) ?? 0));
  return [
    moves.length > 0 ? msg('Node {{node}}: {{count}} volumes can be moved, {{size}}.', { node, count: moves.length, size: size(plan.size) }) : msg('Node {{node}}: no volumes can be moved.', { node }),
    ...byName(free).map(([name, bytes]) => msg('The other nodes have {{free}} free in device class {{name}}.', { free: size(bytes), name })),
    ...lacking.map(([name, bytes]) => msg('Device class {{name}}: the volumes need {{size}}, and the other nodes have {{free}} free together: some moves stay Pending.', { name, size: size(bytes), free: size(free.get(name) ?? 0) })),
    ...(allocated > 0 ? [msg('The thin ones have at most {{data}} of data. At {{rate}} for each second, their copies take at most about {{duration}}.', { data: size(allocated), rate: size(rate), duration: duration(copySeconds(allocated, rate)) })] : []),
    ...(thick.size > 0 ? [msg('Thick volumes are copied while their Pods are stopped, two at once; the others wait.')] : []),
  ];
}
