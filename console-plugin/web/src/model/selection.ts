// Ticks ⇄ deviceSelector. The device class itself is what is edited: no second list of what is ticked.
import type { Device, DeviceClass, DeviceSelector, Node, NodeDeviceSelector, NodeStatus } from '../api/types';
import { devicesOf, foundBy, lookupOf, ourGroups, stablePath, verdictOf, type Lookup } from './devices';
import { selects } from './nodes';

/** MaxItems of paths and optionalPaths. */
export const MAX_PATHS = 128;

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

/** Names a device. With one node its paths are required ones: a disk that is not there is then told as missing. */
export function tick(c: DeviceClass, d: Device, onlyNode: boolean): DeviceClass {
  const list = selectorsOf(c).length ? selectorsOf(c) : [{}];
  const target = Math.max(0, list.findIndex((s) => !s.nodeSelector && !s.forceWipeDevicesAndDestroyAllData));
  const closed = list[target]?.nodeSelector || list[target]?.forceWipeDevicesAndDestroyAllData;
  const path = stablePath(d);
  if (allPaths(c).includes(path)) return c;
  const field = onlyNode ? 'paths' : 'optionalPaths';
  const add = (s: NodeDeviceSelector): NodeDeviceSelector => ({ ...s, [field]: [...(s[field] ?? []), path] });
  return withSelectors(c, closed ? [...list, add({})] : list.map((s, i) => (i === target ? add(s) : s)));
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
