// Snapshots and clones below the volume that they were created from.
import type { Volume } from './volumes';

/** The maximum depth: what is deeper stands at this depth, below the same ancestor. */
export const MOST_LEVELS = 6;

export interface TreeRow {
  volume: Volume;
  /** From 1 on. */
  level: number;
  /** Position among the rows of the same parent, from 1 on, and their number. */
  position: number;
  siblings: number;
  /** The number of its snapshots and clones; all of them, at any depth, with a problem. */
  children: number;
  problems: number;
  expanded: boolean;
  /** The volume that it was created from does not exist. */
  orphan: boolean;
}

export interface VolumeTree {
  roots: Volume[];
  /** By the name of the LogicalVolume. */
  children: Map<string, Volume[]>;
  /** The names of those whose source does not exist. */
  orphans: Set<string>;
  /** The number of descendants with a problem. */
  problems: Map<string, number>;
}

/**
 * Arranges volumes by their source. A volume whose source is not among them is at the top; exists says whether its source exists at all, and undefined if that is not
 * known. So are volumes that are each other's source, which no driver creates: none of them is left out.
 */
export function treeOf(volumes: Volume[], exists?: (name: string) => boolean): VolumeTree {
  const names = new Set(volumes.map((v) => v.name));
  const tree: VolumeTree = { roots: [], children: new Map(), orphans: new Set(), problems: new Map() };
  const parents = parentsOf(volumes, names);
  for (const v of volumes) {
    const source = v.lv.spec.source;
    const parent = parents.get(v.name);
    if (parent === undefined) tree.roots.push(v);
    else {
      const children = tree.children.get(parent);
      if (children) children.push(v);
      else tree.children.set(parent, [v]);
    }
    if (source && !names.has(source) && exists?.(source) === false) tree.orphans.add(v.name);
  }
  for (const v of volumes)
    if (v.problems.length > 0) for (let up = parents.get(v.name); up !== undefined; up = parents.get(up)) tree.problems.set(up, (tree.problems.get(up) ?? 0) + 1);
  const below = (v: Volume): number => Number(v.problems.length + (tree.problems.get(v.name) ?? 0) > 0);
  tree.roots.sort((a, b) => Number(tree.orphans.has(b.name)) - Number(tree.orphans.has(a.name)) || below(b) - below(a));
  return tree;
}

/** The parent of each volume that has one, without cycles and at most MOST_LEVELS deep. */
function parentsOf(volumes: Volume[], names: Set<string>): Map<string, string> {
  const parents = new Map<string, string>();
  for (const { name, lv } of volumes) if (lv.spec.source && lv.spec.source !== name && names.has(lv.spec.source)) parents.set(name, lv.spec.source);
  // Sources come before what was created from them: each volume is settled once, from the top of its chain.
  const levels = new Map<string, number>();
  for (const { name } of volumes) {
    const chain: string[] = [];
    const onChain = new Set<string>();
    let at: string | undefined = name;
    while (at !== undefined && !levels.has(at) && !onChain.has(at)) {
      chain.push(at);
      onChain.add(at);
      at = parents.get(at);
    }
    const last = chain.at(-1);
    if (at !== undefined && onChain.has(at) && last !== undefined) parents.delete(last);
    for (const n of chain.reverse()) {
      const parent = parents.get(n);
      const level = parent === undefined ? 1 : (levels.get(parent) ?? 1) + 1;
      const above = parent === undefined ? undefined : parents.get(parent);
      if (level > MOST_LEVELS && above !== undefined) parents.set(n, above);
      levels.set(n, Math.min(level, MOST_LEVELS));
    }
  }
  return parents;
}

/** The rows in sight order: what is below a volume only if that is expanded. */
export function rowsOf(tree: VolumeTree, expanded: (name: string) => boolean): TreeRow[] {
  const rows: TreeRow[] = [];
  const add = (list: Volume[], level: number): void =>
    list.forEach((volume, i) => {
      const children = tree.children.get(volume.name) ?? [];
      const open = children.length > 0 && expanded(volume.name);
      rows.push({
        volume, level, position: i + 1, siblings: list.length, children: children.length, problems: tree.problems.get(volume.name) ?? 0,
        expanded: open, orphan: tree.orphans.has(volume.name),
      });
      if (open) add(children, level + 1);
    });
  add(tree.roots, 1);
  return rows;
}

/** The volumes that match, and all above them, so that they stand in their tree. */
export function withAncestors(volumes: Volume[], matches: (v: Volume) => boolean): Volume[] {
  const byName = new Map(volumes.map((v) => [v.name, v]));
  const kept = new Set<string>();
  for (const v of volumes) {
    if (!matches(v)) continue;
    for (let at: Volume | undefined = v; at && !kept.has(at.name); at = at.lv.spec.source ? byName.get(at.lv.spec.source) : undefined) kept.add(at.name);
  }
  return volumes.filter((v) => kept.has(v.name));
}
