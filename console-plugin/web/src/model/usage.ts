// How much of the storage is used, promised to volumes, and free: what a donut shows. Sizes are bytes.
import type { Usage } from './health';

export interface Shares {
  /** What the volume groups or thin pools have. */
  size: number;
  used: number;
  /** Of what is free, what the volumes of thin pools may still write: they have it only as long as nobody else takes it. */
  promised: number;
  free: number;
  /** What the volumes of thin pools have together; none without a thin pool. It can be more than the size. */
  provisioned?: number;
  /** Nodes whose usage is known, and all that have a volume group. */
  known: number;
  nodes: number;
}

/** The shares of device classes on nodes. undefined if nothing is known of any of them. */
export function sharesOf(usage: Usage[]): Shares | undefined {
  const sum: Shares = { size: 0, used: 0, promised: 0, free: 0, known: 0, nodes: new Set(usage.map((u) => u.node)).size };
  const known = new Set<string>();
  for (const { node, size, used, virtual, group } of usage) {
    if (size === undefined || used === undefined) continue;
    known.add(node);
    const free = Math.max(0, size - used);
    // Volumes of one node cannot write to the pool of another.
    const promised = Math.min(free, Math.max(0, (virtual ?? 0) - used));
    sum.size += size;
    sum.used += used;
    sum.promised += promised;
    sum.free += free - promised;
    if (group.thinPool && virtual !== undefined) sum.provisioned = (sum.provisioned ?? 0) + virtual;
  }
  return known.size ? { ...sum, known: known.size } : undefined;
}

/** The used part of a whole in percent, rounded up: 99.2 is not full, and 0.2 is not empty. */
export const percentOf = ({ used, size }: Shares): number => (size > 0 ? Math.min(used < size ? 99 : 100, Math.ceil((used / size) * 100)) : 0);
