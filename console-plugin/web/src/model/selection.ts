// Ticks ⇄ deviceSelector. The device class itself is what is edited: no second list of what is ticked.
import type { Device, DeviceClass, DeviceSelector, Node, NodeDeviceSelector, NodeStatus } from '../api/types';
import { devicesOf, foundBy, hasProperties, lookupOf, namesOf, ourGroups, stablePath, verdictOf, type Lookup } from './devices';
import { msg, type Message } from './message';
import { onlyNode, selects } from './nodes';

/** all: every unused device; paths: those that are ticked or named; rules: those with certain properties. */
export type Mode = 'all' | 'paths' | 'rules';

export const selectorsOf = (c: DeviceClass): NodeDeviceSelector[] => (c.deviceSelector ? [c.deviceSelector] : (c.deviceSelectors ?? []));
export const pathsOf = (s: DeviceSelector): string[] => [...(s.paths ?? []), ...(s.optionalPaths ?? [])];
export const allPaths = (c: DeviceClass): string[] => selectorsOf(c).flatMap(pathsOf);

export function modeOf(c: DeviceClass): Mode {
  const all = selectorsOf(c);
  if (all.length === 0) return 'all';
  return all.some((s) => s.paths !== undefined || s.optionalPaths !== undefined) ? 'paths' : 'rules';
}

/** Puts selectors into a class: one alone, several as a list, none that names nothing beside others. */
export function withSelectors(c: DeviceClass, list: NodeDeviceSelector[]): DeviceClass {
  const { deviceSelector: _, deviceSelectors: __, ...rest } = c;
  const kept = list.map(tidy);
  const full = kept.filter((s) => Object.keys(s).some((k) => k !== 'forceWipeDevicesAndDestroyAllData' && k !== 'nodeSelector'));
  if (full.length > 1 || full[0]?.nodeSelector) return { ...rest, deviceSelectors: full };
  // An empty list of names is kept: without any selector every unused device would be taken, which nobody asked for.
  return { ...rest, deviceSelector: full[0] ?? { optionalPaths: [] } };
}

/** Without empty lists, which mean nothing. */
function tidy(s: NodeDeviceSelector): NodeDeviceSelector {
  const copy = { ...s };
  if (!copy.paths?.length) delete copy.paths;
  if (!copy.optionalPaths?.length) delete copy.optionalPaths;
  if (copy.forceWipeDevicesAndDestroyAllData === false || !(copy.paths || copy.optionalPaths)) delete copy.forceWipeDevicesAndDestroyAllData;
  return copy;
}

export function withMode(c: DeviceClass, mode: Mode): DeviceClass {
  const { deviceSelector: _, deviceSelectors: __, ...rest } = c;
  if (mode === 'all') return rest;
  return { ...rest, deviceSelector: mode === 'paths' ? { optionalPaths: [] } : {} };
}

/** A node with what its agent has seen. */
export interface Seen {
  node: Node;
  status?: NodeStatus;
  devices: Device[];
  lookup: Lookup;
  groups: Set<string>;
}

export const seenOf = (node: Node, status: NodeStatus | undefined): Seen => {
  const devices = devicesOf(status);
  return { node, status, devices, lookup: lookupOf(devices), groups: ourGroups(status) };
};

/** The selectors that hold on a node. */
const holding = (c: DeviceClass, node: Node): NodeDeviceSelector[] =>
  selects(c.nodeSelector, node) ? selectorsOf(c).filter((s) => selects(s.nodeSelector, node)) : [];

/** The devices of a node that a class has or would have, with those that have to be wiped first. */
export function chosenOn(c: DeviceClass, seen: Seen): Device[] {
  if (!selects(c.nodeSelector, seen.node)) return [];
  const own = seen.devices.filter((d) => d.volumeGroup === c.name && seen.groups.has(c.name));
  const list = holding(c, seen.node);
  const found = selectorsOf(c).length === 0 ? seen.devices.filter((d) => foundBy(undefined, d)) : list.flatMap((s) => chosenBy(s, seen));
  return [...new Set([...own, ...found])].filter((d) => verdictOf(d, seen.groups) !== 'blocked' && (!d.volumeGroup || d.volumeGroup === c.name));
}

const chosenBy = (s: NodeDeviceSelector, seen: Seen): Device[] =>
  pathsOf(s).length > 0
    ? pathsOf(s).map(seen.lookup).filter((d): d is Device => d !== undefined)
    : s.paths || s.optionalPaths ? [] : seen.devices.filter((d) => foundBy(s, d));

/** Whether a path of the class leads to a device of a node. */
export const isNamed = (c: DeviceClass, seen: Seen, d: Device): boolean =>
  holding(c, seen.node).some((s) => pathsOf(s).some((p) => seen.lookup(p) === d));

/** Takes every path out that leads to the device on that node. On other nodes the same path may have led elsewhere. */
export function untick(c: DeviceClass, seen: Seen, d: Device): DeviceClass {
  const keep = (paths?: string[]) => paths?.filter((p) => seen.lookup(p) !== d);
  return withSelectors(c, selectorsOf(c).map((s) => (selects(s.nodeSelector, seen.node) ? { ...s, paths: keep(s.paths), optionalPaths: keep(s.optionalPaths) } : s)));
}

/** Whether a selector is for devices that are found by their properties alone. */
const isRule = (s: NodeDeviceSelector): boolean => pathsOf(s).length === 0 && Object.keys(tidy(s)).some((k) => k !== 'nodeSelector' && k !== 'forceWipeDevicesAndDestroyAllData');

/** Whether a device can be named in a selector: not among those that are wiped, not in a rule, and with the properties that its devices have to have. */
const canName = (s: NodeDeviceSelector, d: Device): boolean => !s.forceWipeDevicesAndDestroyAllData && !isRule(s) && hasProperties(s, d);

/**
 * Names a device of a node. Where the class has a selector for certain nodes, the name goes into one that is for this node, the narrowest there is,
 * or into a new one: in a selector for all nodes it could lead to disks of others. was is the class before the change: a selector whose last name
 * was taken out is still known from it. Of a selector for a single node the names are required ones: a disk that is not there is then told as missing.
 */
export function tick(c: DeviceClass, seen: Seen, d: Device, nodes: Seen[], was: DeviceClass = c): DeviceClass {
  const [list, path, names] = [selectorsOf(c), stablePath(d), new Set(namesOf(d))];
  const here = (s: NodeDeviceSelector) => selects(s.nodeSelector, seen.node);
  if (list.some((s) => here(s) && pathsOf(s).some((p) => names.has(p)))) return c;
  const reach = (s: NodeDeviceSelector) => nodes.filter((n) => selects(s.nodeSelector, n.node)).length;
  const narrowest = (some: NodeDeviceSelector[]) => some.filter(here).sort((a, b) => reach(a) - reach(b))[0];
  const certain = [...list, ...selectorsOf(was)].filter((s) => s.nodeSelector);
  const target = narrowest(list.filter((s) => !!s.nodeSelector === certain.length > 0 && canName(s, d)));
  const fresh = certain.length > 0 ? { nodeSelector: narrowest(certain)?.nodeSelector ?? onlyNode(seen.node) } : {};
  const add = (s: NodeDeviceSelector): NodeDeviceSelector => {
    const field = reach(s) > 1 || (s.optionalPaths?.length && !s.paths?.length) ? 'optionalPaths' : 'paths';
    return { ...s, [field]: [...(s[field] ?? []), path] };
  };
  return withSelectors(c, target ? list.map((s) => (s === target ? add(s) : s)) : [...list, add(fresh)]);
}

/** Nodes on which a change makes a class take blank disks, other than the node that is meant: a name can be that of a place, or of a make. */
export function alsoTaken(before: DeviceClass, after: DeviceClass, node: string | undefined, nodes: Seen[]): string[] {
  const pathsOn = (c: DeviceClass, seen: Seen) => holding(c, seen.node).flatMap(pathsOf);
  const isNew = (seen: Seen): boolean => {
    if (seen.node.metadata.name === node) return false;
    const old = new Set(pathsOn(before, seen));
    return pathsOn(after, seen).some((p) => {
      const d = old.has(p) ? undefined : seen.lookup(p);
      return d !== undefined && !isNamed(before, seen, d) && ['usable', 'named'].includes(verdictOf(d, seen.groups));
    });
  };
  return nodes.filter(isNew).map((seen) => seen.node.metadata.name ?? '');
}

const some = (nodes: string[]): string => nodes.slice(0, 5).join(', ') + (nodes.length > 5 ? ' …' : '');

/** What is said of a name before it is written. */
export const alsoTakes = (path: string, nodes: string[]): Message =>
  msg('{{path}} also matches blank disks of other nodes, which the device class would use too: {{nodes}}. A disk with a serial number has a unique name.', { path, nodes: some(nodes) });

/** The same before a disk is ticked; nothing where its name is its own. */
export function trapOf(c: DeviceClass, seen: Seen, d: Device, nodes: Seen[], was?: DeviceClass): Message | undefined {
  const path = stablePath(d);
  if (!nodes.some((n) => n !== seen && n.lookup(path))) return undefined;
  const others = alsoTaken(c, tick(c, seen, d, nodes, was), seen.node.metadata.name, nodes);
  return others.length > 0 ? alsoTakes(path, others) : undefined;
}

/** What is said of the names of a class that lead to disks of several nodes, as long as it does not have all of these disks. */
export function sharedNames(c: DeviceClass, nodes: Seen[]): Message[] {
  const found = new Map<string, { nodes: string[]; fresh: boolean }>();
  for (const seen of nodes)
    for (const path of new Set(holding(c, seen.node).flatMap(pathsOf))) {
      const d = seen.lookup(path);
      const verdict = d && verdictOf(d, seen.groups);
      if (!verdict || verdict === 'blocked' || (verdict === 'ours' && d.volumeGroup !== c.name)) continue;
      const known = found.get(path) ?? { nodes: [], fresh: false };
      found.set(path, { nodes: [...known.nodes, seen.node.metadata.name ?? ''], fresh: known.fresh || verdict !== 'ours' });
    }
  return [...found]
    .filter(([, f]) => f.fresh && f.nodes.length > 1)
    .map(([path, f]) => msg('{{path}} matches disks of several nodes, and the device class uses all of them: {{nodes}}. A disk with a serial number has a unique name.', { path, nodes: some(f.nodes) }));
}

/**
 * Consents to the wipe of some paths, and of no others: they get a selector of their own, so that the consent does not reach the
 * disks that are blank or in use by the class already. An empty set takes the consent back.
 */
export function withWipe(c: DeviceClass, wiped: ReadonlySet<string>): DeviceClass {
  // Selectors that differ in nothing but names and consent become one before they are split.
  const groups = new Map<string, { rest: NodeDeviceSelector; rule: boolean; paths: string[]; optionalPaths: string[] }>();
  for (const { paths = [], optionalPaths = [], forceWipeDevicesAndDestroyAllData: _, ...rest } of selectorsOf(c)) {
    const rule = paths.length + optionalPaths.length === 0;
    const key = JSON.stringify([rest, rule]);
    const group = groups.get(key) ?? { rest, rule, paths: [], optionalPaths: [] };
    groups.set(key, { ...group, paths: [...group.paths, ...paths], optionalPaths: [...group.optionalPaths, ...optionalPaths] });
  }
  const list: NodeDeviceSelector[] = [];
  for (const g of groups.values()) {
    const part = (is: boolean): NodeDeviceSelector => ({
      ...g.rest, paths: g.paths.filter((p) => wiped.has(p) === is), optionalPaths: g.optionalPaths.filter((p) => wiped.has(p) === is),
    });
    const [blank, carrying] = [part(false), part(true)];
    if (g.rule || pathsOf(blank).length > 0) list.push(blank);
    if (pathsOf(carrying).length > 0) list.push({ ...carrying, forceWipeDevicesAndDestroyAllData: true });
  }
  return withSelectors(c, list);
}

/** The paths for whose devices there is consent to destroy what is on them. */
export const wipedPaths = (c: DeviceClass): Set<string> =>
  new Set(selectorsOf(c).filter((s) => s.forceWipeDevicesAndDestroyAllData).flatMap(pathsOf));

/** A device that is named and carries something. */
export interface Carrier {
  seen: Seen;
  device: Device;
  path: string;
}

/** The devices that are named and can only be used when what is on them is destroyed. */
export function carriersOf(c: DeviceClass, nodes: Seen[]): Carrier[] {
  return nodes.flatMap((seen) =>
    holding(c, seen.node)
      .flatMap(pathsOf)
      .map((path) => ({ seen, path, device: seen.lookup(path) }))
      .filter((x): x is Carrier => x.device !== undefined && verdictOf(x.device, seen.groups) === 'wipe'),
  );
}
