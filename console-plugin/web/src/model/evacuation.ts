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

/** A volume that is moved. */
export interface Evacuated {
  claim: string;
  deviceClass: string;
  size: number;
  thick: boolean;
  /** When the volumes before it are moved, no node has enough free capacity for it, but at most this. undefined: one has. */
  left?: number;
}

export interface Evacuation {
  node: string;
  /** In the order in which the VolumeMoves are created: the largest volume first, which leaves the least free capacity unused. */
  moves: Evacuated[];
  /** Volumes that cannot be moved, and why, sorted. */
  stay: Stays[];
  /** The claims that are being moved already, sorted. */
  running: string[];
  /** The data in the thin pools of the node, by device class. */
  used: Map<string, number>;
  /** The free capacity of each other node, by device class. */
  free: Map<string, Map<string, number>>;
}

/** Bytes for each second, for the forecast. */
export const DEFAULT_RATE = '100Mi';

/** The data in the thin pools of the node, and the free capacity of the other nodes, by device class. */
function capacityOf(node: string, cluster: LVMCluster, statuses: NodeStatus[]) {
  const thin = new Set(classesOf(cluster).filter((c) => c.thinPoolConfig).map((c) => c.name));
  const capacity = { used: new Map<string, number>(), free: new Map<string, Map<string, number>>() };
  for (const { metadata, status } of statuses)
    for (const group of status?.nodeStatus ?? []) {
      const { name, thinPool } = group;
      const free = bytesOf(thin.has(name) ? thinPool?.free : group.free);
      if (metadata.name === node) {
        if (thin.has(name) && thinPool) capacity.used.set(name, Math.trunc(((bytesOf(thinPool.size) ?? 0) / 100) * thinPool.dataPercent));
      } else if (free !== undefined) capacity.free.set(name, new Map(capacity.free.get(name)).set(metadata.name ?? '', free));
    }
  return capacity;
}

/** The node with the most free capacity, the first one by name of several, and this capacity. */
function mostFree(free: Map<string, number> | undefined): [string, number] {
  const [best] = [...(free ?? [])].sort(([a, x], [b, y]) => y - x || (a < b ? -1 : 1));
  return best ?? ['', 0];
}

/** Assigns each volume to the node with the most free capacity, as the operator does. */
function place(moves: Evacuated[], free: Evacuation['free']) {
  const left = new Map([...free].map(([name, nodes]) => [name, new Map(nodes)]));
  for (const v of moves) {
    const [node, most] = mostFree(left.get(v.deviceClass));
    if (most < v.size) v.left = most;
    else left.get(v.deviceClass)?.set(node, most - v.size);
  }
}

/** Decides what happens to the volumes of a node. size writes a number of bytes. */
export function evacuationOf(node: string, cluster: LVMCluster, volumes: LogicalVolume[], statuses: NodeStatus[], moves: VolumeMove[], size: (bytes: number) => string): Evacuation {
  const plan: Evacuation = { node, moves: [], stay: [], running: [], ...capacityOf(node, cluster, statuses) };
  for (const lv of volumes) {
    const { annotations = {}, name = '' } = lv.metadata;
    if (lv.spec.nodeName !== node || annotations[MOVE_ANNOTATION]) continue;
    const deviceClass = classOf(lv, cluster) ?? '';
    const claim = annotations[CLAIM_ANNOTATION] ?? '';
    const bytes = bytesOf(lv.spec.size) ?? 0;
    const [, most] = mostFree(plan.free.get(deviceClass));
    const why = whyStays(lv, deviceClass, cluster);
    if (why) plan.stay.push({ claim: claim || undefined, snapshot: lv.spec.accessType === 'ro', name, why });
    else if (openMove(moves, claim)) plan.running.push(claim);
    else if (bytes > most) {
      const values = { size: size(bytes), free: size(most), name: deviceClass };
      plan.stay.push({ claim, snapshot: false, name, why: msg('it has {{size}}, and the other nodes have at most {{free}} free in device class {{name}}', values) });
    } else plan.moves.push({ claim, deviceClass, size: bytes, thick: isThick(cluster, deviceClass) });
  }
  plan.moves.sort((a, b) => b.size - a.size || (a.claim < b.claim ? -1 : 1));
  plan.running.sort();
  plan.stay.sort((a, b) => (key(a) < key(b) ? -1 : 1));
  place(plan.moves, plan.free);
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

/** What follows the claim of a volume that is moved; undefined if there is nothing to say. */
export function aboutMove(v: Evacuated, rate: number, writing: Writing): Message | undefined {
  if (v.left !== undefined) return msg('it has {{size}}, and the moves above leave at most {{free}} free on a node', { size: writing.size(v.size), free: writing.size(v.left) });
  return v.thick ? thickText(v.size, rate, writing) : undefined;
}

/** Whether an evacuation copies data of thin volumes, or thick ones, so that there is a forecast. */
export const hasForecast = (plan: Evacuation): boolean => allocatedOf(plan) > 0 || placed(plan).some((v) => v.thick);

const placed = ({ moves }: Evacuation): Evacuated[] => moves.filter((v) => v.left === undefined);

/** The sizes of volumes, by device class. */
function sizesOf(volumes: Evacuated[]): Map<string, number> {
  const sizes = new Map<string, number>();
  for (const { deviceClass, size } of volumes) sizes.set(deviceClass, (sizes.get(deviceClass) ?? 0) + size);
  return sizes;
}

const sum = (numbers: Iterable<number>): number => [...numbers].reduce((a, b) => a + b, 0);

/** The data of the thin volumes that are moved, at most. */
const allocatedOf = (plan: Evacuation): number => sum([...sizesOf(placed(plan))].map(([name, bytes]) => Math.min(bytes, plan.used.get(name) ?? 0)));

/** What an evacuation does, in sentences, with a forecast for a rate in bytes for each second. */
export function sentencesOf(plan: Evacuation, rate: number, { size, duration }: Writing): Message[] {
  const { node, moves, free } = plan;
  const fits = placed(plan);
  const allocated = allocatedOf(plan);
  const byName = <T>(values: Map<string, T>) => [...values].sort(([a], [b]) => (a < b ? -1 : 1));
  const waiting = new Map<string, number>();
  for (const v of moves) if (v.left !== undefined) waiting.set(v.deviceClass, (waiting.get(v.deviceClass) ?? 0) + 1);
  return [
    fits.length > 0 ? msg('Node {{node}}: {{count}} volumes can be moved, {{size}}.', { node, count: fits.length, size: size(sum(fits.map((v) => v.size))) }) : msg('Node {{node}}: no volumes can be moved.', { node }),
    ...byName(free).map(([name, nodes]) => msg('The other nodes have {{free}} free in device class {{name}}.', { free: size(sum(nodes.values())), name })),
    ...byName(waiting).map(([name, count]) => msg('Device class {{name}}: {{count}} moves stay Pending, because no other node has enough free capacity left.', { name, count })),
    ...(allocated > 0 ? [msg('The thin ones have at most {{data}} of data. At {{rate}} for each second, their copies take at most about {{duration}}.', { data: size(allocated), rate: size(rate), duration: duration(copySeconds(allocated, rate)) })] : []),
    ...(fits.some((v) => v.thick) ? [msg('Thick volumes are copied while their Pods are stopped, two at once; the others wait.')] : []),
  ];
}
