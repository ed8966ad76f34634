// What can be moved from a node, and what cannot: the rules and words of `kubectl lvms evacuate` (cli/move/evacuate.go).
// cli/move/testdata/evacuation.json holds both to the same plans. Sizes are bytes.
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
  /** Its node may have no room for its data, which is not known. */
  doubtful: boolean;
}

/** What a node has for the volumes of a device class. */
export interface Room {
  /** The size that a new volume can have. */
  free: number;
  /** How much data can be copied to the thin pool; undefined for a thick device class, or if the node agent does not report it. */
  copyFree?: number;
  /** The size of the other volumes that are moved there. */
  assigned: number;
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
  /** What each other node has, by device class. */
  nodes: Map<string, Map<string, Room>>;
}

/** Bytes for each second, for the forecast. */
export const DEFAULT_RATE = '100Mi';

/** The data in the thin pools of the node, and what the other nodes have, by device class. */
function capacityOf(node: string, cluster: LVMCluster, statuses: NodeStatus[]) {
  const thin = new Set(classesOf(cluster).filter((c) => c.thinPoolConfig).map((c) => c.name));
  const capacity = { used: new Map<string, number>(), nodes: new Map<string, Map<string, Room>>() };
  for (const { metadata, status } of statuses)
    for (const group of status?.nodeStatus ?? []) {
      const { name, thinPool } = group;
      // Node agents of earlier versions do not report the virtual size that new volumes can have.
      const free = bytesOf(thin.has(name) ? (thinPool?.virtualFree ?? thinPool?.free) : group.free);
      const copyFree = thin.has(name) ? bytesOf(thinPool?.copyFree) : undefined;
      if (metadata.name === node) {
        if (thin.has(name) && thinPool) capacity.used.set(name, Math.trunc(((bytesOf(thinPool.size) ?? 0) / 100) * thinPool.dataPercent));
      } else if (free !== undefined) capacity.nodes.set(name, new Map(capacity.nodes.get(name)).set(metadata.name ?? '', { free, copyFree, assigned: 0 }));
    }
  return capacity;
}

/** What a volume needs: its size, and at most so much data, that of its thin pool. */
interface Needs {
  size: number;
  data: number;
}

// The rules are those of internal/volume/room.

/** How much data a node gets if a volume is copied to it, at most. */
const dataOn = ({ assigned }: Room, { size, data }: Needs): number => Math.min(data, assigned + size);
const isOpen = ({ copyFree }: Room): boolean => copyFree === undefined || copyFree > 0;
const hasRoom = (room: Room, needs: Needs): boolean => room.free >= needs.size && (isOpen(room) || dataOn(room, needs) <= 0);
const isDoubtful = (room: Room, needs: Needs): boolean => room.copyFree !== undefined && room.copyFree < dataOn(room, needs);

/** The best node for a volume, the first one by name of several; undefined if none has room. */
const bestOf = (nodes: Map<string, Room> | undefined, needs: Needs): [string, Room] | undefined =>
  [...(nodes ?? [])].filter(([, room]) => hasRoom(room, needs)).sort(([a, x], [b, y]) => Number(isDoubtful(x, needs)) - Number(isDoubtful(y, needs)) || y.free - x.free || (a < b ? -1 : 1))[0];

/** The most free capacity of a node. */
const mostFree = (rooms: Room[]): number => Math.max(0, ...rooms.map(({ free }) => free));
const roomsOf = (nodes: Map<string, Map<string, Room>>, deviceClass: string): Room[] => [...(nodes.get(deviceClass)?.values() ?? [])];

const needsOf = ({ used }: Pick<Evacuation, 'used'>, deviceClass: string, size: number): Needs => ({ size, data: used.get(deviceClass) ?? Infinity });

/** Assigns each volume to a node, as the operator does. */
function place({ moves, nodes, used }: Evacuation) {
  const left = new Map([...nodes].map(([name, rooms]) => [name, new Map(rooms)]));
  for (const v of moves) {
    const needs = needsOf({ used }, v.deviceClass, v.size);
    const [node, room] = bestOf(left.get(v.deviceClass), needs) ?? [];
    if (node === undefined || !room) v.left = mostFree(roomsOf(left, v.deviceClass).filter(isOpen));
    else {
      v.doubtful = isDoubtful(room, needs);
      left.get(v.deviceClass)?.set(node, { ...room, free: room.free - v.size, assigned: room.assigned + v.size });
    }
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
    const why = whyStays(lv, deviceClass, cluster);
    if (why) plan.stay.push({ claim: claim || undefined, snapshot: lv.spec.accessType === 'ro', name, why });
    else if (openMove(moves, claim)) plan.running.push(claim);
    else if (!bestOf(plan.nodes.get(deviceClass), needsOf(plan, deviceClass, bytes))) {
      plan.stay.push({ claim, snapshot: false, name, why: noRoom(mostFree(roomsOf(plan.nodes, deviceClass)), bytes, deviceClass, size) });
    } else plan.moves.push({ claim, deviceClass, size: bytes, thick: isThick(cluster, deviceClass), doubtful: false });
  }
  plan.moves.sort((a, b) => b.size - a.size || (a.claim < b.claim ? -1 : 1));
  plan.running.sort();
  plan.stay.sort((a, b) => (key(a) < key(b) ? -1 : 1));
  place(plan);
  return plan;
}

/** Why no other node has room for a volume. */
const noRoom = (most: number, bytes: number, name: string, size: (bytes: number) => string): Message =>
  bytes > most
    ? msg('it has {{size}}, and the other nodes have at most {{free}} free in device class {{name}}', { size: size(bytes), free: size(most), name })
    : msg('the thin pools of the other nodes that have {{size}} free in device class {{name}} are too full for copies', { size: size(bytes), name });

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
  if (v.doubtful) return msg('its data is not known, and may not fit into a thin pool of the other nodes: then the node refuses the copy');
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
  const { node, moves, nodes } = plan;
  const fits = placed(plan);
  const allocated = allocatedOf(plan);
  const byName = <T>(values: Map<string, T>) => [...values].sort(([a], [b]) => (a < b ? -1 : 1));
  const waiting = new Map<string, number>();
  for (const v of moves) if (v.left !== undefined) waiting.set(v.deviceClass, (waiting.get(v.deviceClass) ?? 0) + 1);
  return [
    fits.length > 0 ? msg('Node {{node}}: {{count}} volumes can be moved, {{size}}.', { node, count: fits.length, size: size(sum(fits.map((v) => v.size))) }) : msg('Node {{node}}: no volumes can be moved.', { node }),
    ...byName(nodes).map(([name, rooms]) => {
      const free = size(sum([...rooms.values()].map((r) => r.free)));
      const copyFree = [...rooms.values()].map((r) => r.copyFree);
      return copyFree.includes(undefined) ? msg('The other nodes have {{free}} free in device class {{name}}.', { free, name }) : msg('The other nodes have {{free}} free in device class {{name}}, and room for {{data}} of copied data.', { free, name, data: size(sum(copyFree.map((n) => n ?? 0))) });
    }),
    ...byName(waiting).map(([name, count]) => msg('Device class {{name}}: {{count}} moves stay Pending, because no other node has enough free capacity left.', { name, count })),
    ...(allocated > 0 ? [msg('The thin ones have at most {{data}} of data. At {{rate}} for each second, their copies take at most about {{duration}}.', { data: size(allocated), rate: size(rate), duration: duration(copySeconds(allocated, rate)) })] : []),
    ...(fits.some((v) => v.thick) ? [msg('Thick volumes are copied while their Pods are stopped, two at once; the others wait.')] : []),
  ];
}
