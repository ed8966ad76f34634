// Ticks ⇄ deviceSelector. The device class itself is what is edited: no second list of what is ticked.
import type { Device, DeviceClass, DeviceSelector, Node, NodeDeviceSelector, NodeStatus } from '../api/types';
import { devicesOf, foundBy, hasProperties, lookupOf, namesOf, ourGroups, stablePath, verdictOf, type Lookup, type Verdict } from './devices';
import { msg, type Message } from './message';
import { onlyNode, selects } from './nodes';

/**
 * all: every unused device; paths: those that are ticked or named; rules: those with certain properties; group: none, because the class uses a
 * volume group that an administrator created.
 */
export type Mode = 'all' | 'paths' | 'rules' | 'group';

export const selectorsOf = (c: DeviceClass): NodeDeviceSelector[] => (c.deviceSelector ? [c.deviceSelector] : (c.deviceSelectors ?? []));
export const pathsOf = (s: DeviceSelector): string[] => [...(s.paths ?? []), ...(s.optionalPaths ?? [])];
export const allPaths = (c: DeviceClass): string[] => selectorsOf(c).flatMap(pathsOf);

export function modeOf(c: DeviceClass): Mode {
  if (c.existingVolumeGroup !== undefined) return 'group';
  const all = selectorsOf(c);
  if (all.length === 0) return 'all';
  return all.some((s) => s.paths !== undefined || s.optionalPaths !== undefined) ? 'paths' : 'rules';
}

/** The fields of a selector that consent to destroy something. */
const ofConsent = new Set(['forceWipeDevicesAndDestroyAllData', 'wipeVolumeGroups']);

/** Puts selectors into a class: one alone, several as a list, none that names nothing beside others. */
export function withSelectors(c: DeviceClass, list: NodeDeviceSelector[]): DeviceClass {
  const { deviceSelector: _, deviceSelectors: __, ...rest } = c;
  const kept = list.map(tidy);
  const full = kept.filter((s) => Object.keys(s).some((k) => !ofConsent.has(k) && k !== 'nodeSelector'));
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
  if (!copy.wipeVolumeGroups?.length || !(copy.paths || copy.optionalPaths)) delete copy.wipeVolumeGroups;
  return copy;
}

/** What a device class on a volume group of an administrator cannot have: neither the volume group nor its thin pool is changed. */
function onExistingGroup(c: DeviceClass): DeviceClass {
  const { deviceDiscoveryPolicy: _, raidConfig: __, deviceRequests: ___, adopt: ____, adoptClusters: _____, deletedVolumeRetention: ______, approval: _______, thickConfig: ________, thinPoolConfig: pool, ...rest } = c;
  if (!pool) return { ...rest, existingVolumeGroup: '' };
  const { autoExtend: _a, chunkSize: _c, chunkSizeCalculationPolicy: _p, metadataSize: _m, metadataSizeCalculationPolicy: _q, stripes: _s, stripeSize: _z, discards: _d, ...kept } = pool;
  return { ...rest, existingVolumeGroup: '', thinPoolConfig: kept };
}

export function withMode(c: DeviceClass, mode: Mode): DeviceClass {
  const { deviceSelector: _, deviceSelectors: __, existingVolumeGroup: ___, existingVolumeGroupConfig: ____, ...rest } = c;
  if (mode === 'group') return onExistingGroup(rest);
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

/** What a class can do with a device of a node. A volume group of which one device cannot be used cannot be destroyed. */
export function verdictOn(seen: Seen, d: Device): Verdict {
  const verdict = verdictOf(d, seen.groups);
  const others = verdict === 'group' ? seen.devices.filter((x) => x.volumeGroupUUID === d.volumeGroupUUID) : [];
  return others.some((x) => verdictOf(x, seen.groups) !== 'group') ? 'blocked' : verdict;
}

/** The selectors that hold on a node. */
const holding = (c: DeviceClass, node: Node): NodeDeviceSelector[] =>
  selects(c.nodeSelector, node) ? selectorsOf(c).filter((s) => selects(s.nodeSelector, node)) : [];

/** The devices of a node that a class has or would have, with those that have to be wiped first. */
export function chosenOn(c: DeviceClass, seen: Seen): Device[] {
  if (!selects(c.nodeSelector, seen.node)) return [];
  const own = seen.devices.filter((d) => d.volumeGroup === c.name && seen.groups.has(c.name));
  const list = holding(c, seen.node);
  const found = modeOf(c) === 'all' ? seen.devices.filter((d) => foundBy(undefined, d)) : list.flatMap((s) => chosenBy(s, seen));
  return [...new Set([...own, ...found])].filter((d) => {
    const verdict = verdictOn(seen, d);
    return verdict === 'group' || (verdict !== 'blocked' && (!d.volumeGroup || d.volumeGroup === c.name));
  });
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
const isRule = (s: NodeDeviceSelector): boolean => pathsOf(s).length === 0 && Object.keys(tidy(s)).some((k) => k !== 'nodeSelector' && !ofConsent.has(k));

/** Whether a device can be named in a selector: not among those that are wiped, not in a rule, and with the properties that its devices have to have. */
const canName = (s: NodeDeviceSelector, d: Device): boolean => !s.forceWipeDevicesAndDestroyAllData && !s.wipeVolumeGroups?.length && !isRule(s) && hasProperties(s, d);

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
      return d !== undefined && !isNamed(before, seen, d) && ['usable', 'named'].includes(verdictOn(seen, d));
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
      const verdict = d && verdictOn(seen, d);
      if (!verdict || verdict === 'blocked' || (verdict === 'ours' && d.volumeGroup !== c.name)) continue;
      const known = found.get(path) ?? { nodes: [], fresh: false };
      found.set(path, { nodes: [...known.nodes, seen.node.metadata.name ?? ''], fresh: known.fresh || verdict !== 'ours' });
    }
  return [...found]
    .filter(([, f]) => f.fresh && f.nodes.length > 1)
    .map(([path, f]) => msg('{{path}} matches disks of several nodes, and the device class uses all of them: {{nodes}}. A disk with a serial number has a unique name.', { path, nodes: some(f.nodes) }));
}

/** What may be destroyed: the content of devices, by path, and volume groups, by UUID or name. */
export interface Consent {
  paths: ReadonlySet<string>;
  groups: ReadonlySet<string>;
}

export const consentOf = (c: DeviceClass): Consent => ({
  paths: new Set(selectorsOf(c).filter((s) => s.forceWipeDevicesAndDestroyAllData).flatMap(pathsOf)),
  groups: new Set(selectorsOf(c).flatMap((s) => s.wipeVolumeGroups ?? [])),
});

/** Whether a consent has something that another one does not have. */
export const exceeds = (a: Consent, b: Consent): boolean => [...a.paths].some((p) => !b.paths.has(p)) || [...a.groups].some((g) => !b.groups.has(g));

const hasConsent = ({ paths, groups }: Consent, { path, device, verdict }: Carrier): boolean =>
  verdict === 'group' ? groups.has(device.volumeGroupUUID ?? '') || groups.has(device.volumeGroup ?? '') : paths.has(path);

/** Those of the carriers that a consent does not have. */
export const without = (consent: Consent, carriers: Carrier[]): Carrier[] => carriers.filter((x) => !hasConsent(consent, x));

/** A consent, and that for some carriers: volume groups by UUID, because another one can have the same name. */
export const withCarriers = ({ paths, groups }: Consent, carriers: Carrier[]): Consent => ({
  paths: new Set([...paths, ...carriers.filter((x) => x.verdict === 'wipe').map((x) => x.path)]),
  groups: new Set([...groups, ...carriers.filter((x) => x.verdict === 'group').map((x) => x.device.volumeGroupUUID ?? '')]),
});

/**
 * Consents to what is given, and to nothing else: the paths get a selector of their own, so that the consent does not reach the disks that are
 * blank or in use by the class already. carriers are the devices that are named and have something on them.
 */
export function withConsent(c: DeviceClass, consent: Consent, carriers: Carrier[]): DeviceClass {
  const entryOf = ({ volumeGroupUUID = '', volumeGroup = '' }: Device) => (consent.groups.has(volumeGroupUUID) ? volumeGroupUUID : volumeGroup);
  const groupOf = new Map(carriers.filter((x) => x.verdict === 'group' && hasConsent(consent, x)).map((x) => [x.path, entryOf(x.device)]));
  const partOf = (path: string) => (groupOf.has(path) ? 'group' : consent.paths.has(path) ? 'wipe' : 'blank');
  // Selectors that differ in nothing but names and consent become one before they are split.
  const same = new Map<string, { rest: NodeDeviceSelector; rule: boolean; paths: string[]; optionalPaths: string[] }>();
  for (const { paths = [], optionalPaths = [], forceWipeDevicesAndDestroyAllData: _, wipeVolumeGroups = [], ...others } of selectorsOf(c)) {
    const kept = wipeVolumeGroups.filter((g) => consent.groups.has(g) && ![...groupOf.values()].includes(g));
    const rest = kept.length > 0 ? { ...others, wipeVolumeGroups: kept } : others;
    const rule = paths.length + optionalPaths.length === 0;
    const key = JSON.stringify([rest, rule]);
    const known = same.get(key) ?? { rest, rule, paths: [], optionalPaths: [] };
    same.set(key, { ...known, paths: [...known.paths, ...paths], optionalPaths: [...known.optionalPaths, ...optionalPaths] });
  }
  const list: NodeDeviceSelector[] = [];
  for (const g of same.values()) {
    const part = (is: 'blank' | 'wipe' | 'group'): NodeDeviceSelector => ({
      ...g.rest, paths: g.paths.filter((p) => partOf(p) === is), optionalPaths: g.optionalPaths.filter((p) => partOf(p) === is),
    });
    const [blank, wiped, grouped] = [part('blank'), part('wipe'), part('group')];
    if (g.rule || pathsOf(blank).length > 0) list.push(blank);
    if (pathsOf(wiped).length > 0) list.push({ ...wiped, forceWipeDevicesAndDestroyAllData: true });
    if (pathsOf(grouped).length > 0) {
      const entries = pathsOf(grouped).map((p) => groupOf.get(p) ?? '');
      list.push({ ...grouped, wipeVolumeGroups: [...new Set([...(g.rest.wipeVolumeGroups ?? []), ...entries])] });
    }
  }
  return withSelectors(c, list);
}

/** The devices of a node that are in the same volume group as one of it: such a group is destroyed with all of its devices, or not at all. */
export const sameGroup = (seen: Seen, d: Device): Device[] =>
  verdictOn(seen, d) === 'group' ? seen.devices.filter((x) => x.volumeGroupUUID === d.volumeGroupUUID) : [d];

/** A device that is named and carries something. */
export interface Carrier {
  seen: Seen;
  device: Device;
  path: string;
  verdict: 'wipe' | 'group';
}

/** Whether a class uses the volume group of a device with its volumes. */
export const isAdopted = (c: DeviceClass, seen: Seen, d: Device): boolean =>
  !!d.volumeGroupUUID && (c.adopt ?? []).some((a) => a.node === seen.node.metadata.name && a.volumeGroupUUID === d.volumeGroupUUID);

/** The devices that are named and can only be used when what is on them is destroyed. Adopted volume groups keep what they have. */
export function carriersOf(c: DeviceClass, nodes: Seen[]): Carrier[] {
  return nodes.flatMap((seen) =>
    holding(c, seen.node)
      .flatMap(pathsOf)
      .flatMap((path): Carrier[] => {
        const device = seen.lookup(path);
        const verdict = device && verdictOn(seen, device);
        return device && (verdict === 'wipe' || verdict === 'group') && !isAdopted(c, seen, device) ? [{ seen, path, device, verdict }] : [];
      }),
  );
}
