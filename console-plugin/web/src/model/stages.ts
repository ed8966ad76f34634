// The capacity of a device class in stages: disks → volume groups → thin pools → volumes, as lengths of one scale.
import type { DeviceClass } from '../api/types';
import { layoutOf, type Preview } from './capacity';

export type PartKind = 'disk' | 'group' | 'pool' | 'metadata' | 'reserve' | 'volumes' | 'redundancy' | 'overcommitted';

export interface Part {
  kind: PartKind;
  /** Bytes that the part stands for. */
  bytes: number;
  /** The length of the part, from 0 to 1 of the length of all disks. */
  length: number;
}

export interface Stage {
  name: 'disks' | 'group' | 'pool' | 'volumes';
  /** Bytes of the stage on all nodes. */
  bytes: number;
  parts: Part[];
}

/** The maximum number of disks that have a part of their own. More disks are one part. */
const MOST_DISKS = 48;

const sum = (list: number[]): number => list.reduce((a, b) => a + b, 0);

/** The stages of a device class on nodes with these disks, in bytes. Nothing selected has no stages. */
export function stagesOf(c: DeviceClass, nodes: { sizes: number[]; p: Preview }[]): Stage[] {
  const disks = nodes.flatMap((n) => n.sizes);
  const raw = sum(disks);
  if (raw === 0) return [];
  const of = (read: (p: Preview) => number | undefined): number => sum(nodes.map(({ p }) => read(p) ?? 0));
  const part = (kind: PartKind, bytes: number): Part => ({ kind, bytes, length: bytes / raw });
  const stage = (name: Stage['name'], bytes: number, parts: Part[]): Stage => ({ name, bytes, parts: parts.filter((p) => p.length > 0) });
  const stages = [
    stage('disks', raw, (disks.length > MOST_DISKS ? [raw] : disks).map((bytes) => part('disk', bytes))),
    stage('group', of((p) => p.group), [part('group', of((p) => p.group))]),
  ];
  const volumes = of((p) => p.volumes);
  if (c.raidConfig) {
    const { images, data } = layoutOf(c.raidConfig);
    return [...stages, stage('volumes', volumes, [part('volumes', volumes), part('redundancy', (volumes / data) * (images - data))])];
  }
  if (!c.thinPoolConfig) return [...stages, stage('volumes', volumes, [part('volumes', volumes)])];
  const pool = of((p) => p.pool?.data);
  // LVM keeps a spare of the metadata, of the same size.
  const metadata = of((p) => (p.pool?.metadata ?? 0) * 2);
  const backed = Math.min(volumes, pool);
  // What is overcommitted has no disk space: its part ends where the disks end, and only its bytes tell how much it is.
  const beyond: Part = { kind: 'overcommitted', bytes: volumes - backed, length: Math.min(volumes - backed, raw - backed) / raw };
  return [
    ...stages,
    stage('pool', pool, [part('pool', pool), part('metadata', metadata), part('reserve', of((p) => p.reserve))]),
    stage('volumes', volumes, [part('volumes', backed), beyond]),
  ];
}
