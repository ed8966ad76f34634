import { describe, expect, it } from 'vitest';
import type { Device, DeviceClass, Node, NodeDeviceSelector } from '../api/types';
import { inEnglish, type Message } from './message';
import { allPaths, alsoTaken, carriersOf, chosenOn, consentOf, exceeds, isNamed, modeOf, sameGroup, seenOf, sharedNames, tick, trapOf, untick, verdictOn, withCarriers, withConsent, withMode, withSelectors, without, type Seen } from './selection';

const dev = (n: string, more: Partial<Device> = {}): Device => ({ name: `/dev/sd${n}`, state: 'Available', size: '1Gi', byID: [`wwn-${n}`], byPath: [`slot-${n}`], ...more });
const full = (n: string): Device => dev(n, { state: 'Excluded', reasons: [{ code: 'HasSignature' }] });
const seen = (name: string, devices: Device[], groups: string[] = []): Seen => {
  const node: Node = { metadata: { name, labels: { 'kubernetes.io/hostname': name } } };
  return seenOf(node, { metadata: { name }, status: { devices, nodeStatus: groups.map((g) => ({ name: g })) } });
};
const empty: DeviceClass = { name: 'vg1', deviceSelector: { optionalPaths: [] } };
const id = (n: string) => `/dev/disk/by-id/wwn-${n}`;

/** Consent to wipe some paths. */
const withWipe = (c: DeviceClass, paths: Set<string>): DeviceClass => withConsent(c, { paths, groups: new Set() }, []);

const a = seen('a', [dev('b'), dev('c')]);
const b = seen('b', [dev('d')]);
const two = [a, b];
const on = (...names: string[]) => ({ nodeSelectorTerms: [{ matchExpressions: [{ key: 'kubernetes.io/hostname', operator: 'In' as const, values: names }] }] });

describe('ticks', () => {
  it('write the stable name, once, and are found again', () => {
    const c = tick(tick(empty, a, dev('b'), two), a, dev('b'), two);
    expect(c.deviceSelector).toEqual({ optionalPaths: [id('b')] });
    expect(a.devices.map((d) => isNamed(c, a, d))).toEqual([true, false]);
    expect(chosenOn(c, a).map((d) => d.name)).toEqual(['/dev/sdb']);
  });
  it('of a single node are required', () => expect(tick(empty, a, dev('b'), [a]).deviceSelector).toEqual({ paths: [id('b')] }));
  it('taken out leave nothing chosen, and never every unused disk', () => {
    const c = untick(tick(empty, a, dev('b'), two), a, a.devices[0] as Device);
    expect(c.deviceSelector).toEqual({ optionalPaths: [] });
    expect(modeOf(c)).toBe('paths');
    expect(chosenOn(c, a)).toEqual([]);
  });
  it('take out every name of the disk, and no other', () => {
    const c: DeviceClass = { name: 'vg1', deviceSelector: { paths: ['/dev/disk/by-path/slot-b', id('c')], optionalPaths: [id('b'), '/dev/disk/by-id/unknown'] } };
    expect(untick(c, a, a.devices[0] as Device).deviceSelector).toEqual({ paths: [id('c')], optionalPaths: ['/dev/disk/by-id/unknown'] });
  });
  it('of a disk that has another name in the class write nothing', () => {
    const c: DeviceClass = { name: 'vg1', deviceSelector: { optionalPaths: ['/dev/disk/by-path/slot-b'] } };
    expect(tick(c, a, dev('b'), two)).toBe(c);
  });
});

describe('where a name is written', () => {
  const of = (selectors: NodeDeviceSelector[]): DeviceClass => ({ name: 'vg1', deviceSelectors: selectors });
  const wide = { nodeSelectorTerms: [{ matchExpressions: [{ key: 'kubernetes.io/hostname', operator: 'Exists' as const }] }] };
  it.each<[string, DeviceClass, NodeDeviceSelector[]]>([
    ['the selector of the node', of([{ nodeSelector: on('a'), paths: ['/dev/x'] }, { nodeSelector: on('b'), paths: ['/dev/y'] }]), [{ nodeSelector: on('a'), paths: ['/dev/x', id('b')] }, { nodeSelector: on('b'), paths: ['/dev/y'] }]],
    ['with optional names, if it has those', of([{ nodeSelector: on('a'), optionalPaths: ['/dev/x'] }]), [{ nodeSelector: on('a'), optionalPaths: ['/dev/x', id('b')] }]],
    ['one of several nodes: the others need not have the disk', of([{ nodeSelector: on('a', 'b'), paths: ['/dev/x'] }]), [{ nodeSelector: on('a', 'b'), paths: ['/dev/x'], optionalPaths: [id('b')] }]],
    ['the narrowest one', of([{ nodeSelector: wide, optionalPaths: ['/dev/x'] }, { nodeSelector: on('a'), optionalPaths: ['/dev/y'] }]), [{ nodeSelector: wide, optionalPaths: ['/dev/x'] }, { nodeSelector: on('a'), optionalPaths: ['/dev/y', id('b')] }]],
    ['a new one, where none is for the node', of([{ nodeSelector: on('b'), paths: ['/dev/y'] }]), [{ nodeSelector: on('b'), paths: ['/dev/y'] }, { nodeSelector: on('a'), paths: [id('b')] }]],
    ['not the one for all nodes beside it', of([{ optionalPaths: ['/dev/x'] }, { nodeSelector: on('b'), paths: ['/dev/y'] }]), [{ optionalPaths: ['/dev/x'] }, { nodeSelector: on('b'), paths: ['/dev/y'] }, { nodeSelector: on('a'), paths: [id('b')] }]],
    ['not one that wipes', of([{ nodeSelector: on('a'), paths: ['/dev/x'], forceWipeDevicesAndDestroyAllData: true }]), [{ nodeSelector: on('a'), paths: ['/dev/x'], forceWipeDevicesAndDestroyAllData: true }, { nodeSelector: on('a'), paths: [id('b')] }]],
    ['not a rule, which would be one no more', of([{ nodeSelector: wide, minSize: '1Gi' }]), [{ nodeSelector: wide, minSize: '1Gi' }, { nodeSelector: wide, optionalPaths: [id('b')] }]],
    ['not one whose disks have to be otherwise', of([{ nodeSelector: on('a'), paths: ['/dev/x'], minSize: '2Gi' }]), [{ nodeSelector: on('a'), paths: ['/dev/x'], minSize: '2Gi' }, { nodeSelector: on('a'), paths: [id('b')] }]],
    ['without certain nodes: not one that wipes', of([{ optionalPaths: [id('z')], forceWipeDevicesAndDestroyAllData: true }]), [{ optionalPaths: [id('z')], forceWipeDevicesAndDestroyAllData: true }, { optionalPaths: [id('b')] }]],
    ['without certain nodes: not a rule', of([{ minSize: '1Gi' }]), [{ minSize: '1Gi' }, { optionalPaths: [id('b')] }]],
  ])('%s', (_, c, want) => {
    const once = tick(c, a, dev('b'), two);
    expect(once.deviceSelectors).toEqual(want);
    expect(tick(once, a, dev('b'), two)).toBe(once);
  });
  it('of a name that the selector of another node has, too', () => {
    const both = [a, seen('b', [dev('b')])];
    const c = tick(of([{ nodeSelector: on('b'), paths: [id('b')] }]), a, dev('b'), both);
    expect(both.map((s) => isNamed(c, s, s.devices[0] as Device))).toEqual([true, true]);
    expect(c.deviceSelectors).toHaveLength(2);
  });
  it('a selector whose last name was taken out is for its nodes when another disk is ticked', () => {
    const was = of([{ nodeSelector: on('a', 'b'), optionalPaths: [id('b')] }]);
    const none = untick(was, a, a.devices[0] as Device);
    expect(none.deviceSelector).toEqual({ optionalPaths: [] });
    expect(tick(none, a, dev('c'), two, was).deviceSelectors).toEqual([{ nodeSelector: on('a', 'b'), optionalPaths: [id('c')] }]);
  });
  it('a node without a hostname label is named itself', () => {
    const bare = seenOf({ metadata: { name: 'bare' } }, { metadata: { name: 'bare' }, status: { devices: [dev('b')] } });
    const c = tick(of([{ nodeSelector: on('b'), paths: ['/dev/y'] }]), bare, dev('b'), [...two, bare]);
    expect(c.deviceSelectors?.[1]).toEqual({ nodeSelector: { nodeSelectorTerms: [{ matchFields: [{ key: 'metadata.name', operator: 'In', values: ['bare'] }] }] }, paths: [id('b')] });
    expect([isNamed(c, bare, bare.devices[0] as Device), isNamed(c, a, a.devices[0] as Device)]).toEqual([true, false]);
  });
  it('consent to a wipe stays with the nodes of the selector', () => {
    const full2 = seen('a', [full('b')]);
    const c = tick(of([{ nodeSelector: on('a'), paths: ['/dev/x'] }]), full2, full2.devices[0] as Device, two);
    expect(withWipe(c, new Set([id('b')])).deviceSelectors).toEqual([{ nodeSelector: on('a'), paths: ['/dev/x'] }, { nodeSelector: on('a'), paths: [id('b')], forceWipeDevicesAndDestroyAllData: true }]);
  });
});

describe('names that lead to disks of other nodes', () => {
  const place = (name: string, more: Partial<Device> = {}) => dev(name, { byID: [], byPath: ['pci-0'], ...more });
  const path = '/dev/disk/by-path/pci-0';
  const here = seen('a', [place('x')]);
  const [blank, carries, busy, without, ours] = [
    seen('blank', [place('y')]), seen('carries', [place('y', { state: 'Excluded', reasons: [{ code: 'HasSignature' }] })]), seen('busy', [place('y', { state: 'InUse', reasons: [{ code: 'Mounted' }] })]),
    seen('without', []), seen('ours', [place('y', { state: 'InUse', volumeGroup: 'vg1' })], ['vg1']),
  ];
  const all = [here, blank, carries, busy, without, ours];
  const disk = here.devices[0] as Device;
  const ticked = tick(empty, here, disk, all);
  const words = (list: Message[]) => list.map(inEnglish);

  it('are told before the tick, with the nodes whose blank disks would be taken', () => {
    expect(alsoTaken(empty, ticked, 'a', all)).toEqual(['blank']);
    expect(trapOf(empty, here, disk, all)?.values).toEqual({ path, nodes: 'blank' });
  });
  it('are nothing to tell where the name is that of the disk', () => expect(trapOf(empty, a, dev('b'), two)).toBeUndefined());
  it('are nothing to tell where they are written for the node alone, or the class is for it alone', () => {
    expect(trapOf({ name: 'vg1', deviceSelectors: [{ nodeSelector: on('b'), paths: ['/dev/y'] }] }, here, disk, all)).toBeUndefined();
    expect(trapOf({ ...empty, nodeSelector: on('a') }, here, disk, all)).toBeUndefined();
  });
  it('are nothing new where the other disk is named already', () => {
    const c: DeviceClass = { name: 'vg1', deviceSelectors: [{ nodeSelector: on('blank'), paths: ['/dev/sdy'] }] };
    expect(alsoTaken(c, { name: 'vg1', deviceSelector: { optionalPaths: ['/dev/sdy', path] } }, 'a', all)).toEqual([]);
  });
  it('are told after the tick, with all nodes whose disks the class gets or has', () => expect(words(sharedNames(ticked, all))).toEqual([expect.stringMatching(/^\/dev\/disk\/by-path\/pci-0 matches disks of several nodes, .*: a, blank, carries, ours\./)]));
  it('of disks that the class has everywhere need no word', () => expect(sharedNames(ticked, [ours, seen('more', [place('y', { state: 'InUse', volumeGroup: 'vg1' })], ['vg1'])])).toEqual([]));
  it('of disks of another class, or that cannot be used, neither', () => expect(sharedNames(ticked, [here, busy, without, seen('other', [place('y', { state: 'InUse', volumeGroup: 'vg2' })], ['vg2'])])).toEqual([]));
  it('of many nodes name the first ones', () => {
    const many = Array.from({ length: 7 }, (_, i) => seen(`n${i}`, [place('y')]));
    expect(words(sharedNames(ticked, many))[0]).toMatch(/: n0, n1, n2, n3, n4 …\./);
  });
});

describe('modes', () => {
  it('every unused disk, names, rules', () => {
    expect([modeOf({ name: 'x' }), modeOf(empty), modeOf({ name: 'x', deviceSelector: { minSize: '1Gi' } })]).toEqual(['all', 'paths', 'rules']);
    for (const mode of ['all', 'paths', 'rules'] as const) expect(modeOf(withMode(empty, mode))).toBe(mode);
    expect(withMode({ ...empty, approval: 'Required' }, 'group')).not.toHaveProperty('approval');
    expect(withMode({ ...empty, thinPoolConfig: { name: 'p', overprovisionRatio: 10, stripes: 2, stripeSize: '64Ki', discards: 'PassDown' } }, 'group').thinPoolConfig).toEqual({ name: 'p', overprovisionRatio: 10 });
    expect(withMode({ ...empty, thinPoolConfig: undefined, thickConfig: { allocation: 'SingleDevice' } }, 'group')).not.toHaveProperty('thickConfig');
    expect(withMode({ ...empty, approval: 'Required' }, 'rules').approval).toBe('Required');
  });
  it('a rule chooses what is available, and names win over it', () => {
    const a = seen('a', [dev('b'), full('c'), dev('d', { size: '9Gi' })]);
    expect(chosenOn({ name: 'x' }, a).map((d) => d.name)).toEqual(['/dev/sdb', '/dev/sdd']);
    expect(chosenOn({ name: 'x', deviceSelector: { minSize: '2Gi' } }, a).map((d) => d.name)).toEqual(['/dev/sdd']);
  });
  it('what the class has already counts, what others have does not', () => {
    const a = seen('a', [dev('b', { state: 'InUse', volumeGroup: 'vg1' }), dev('c', { state: 'InUse', volumeGroup: 'vg2' }), dev('d')], ['vg1', 'vg2']);
    expect(chosenOn({ name: 'vg1', deviceSelector: { optionalPaths: [id('b'), id('c'), id('d')] } }, a).map((d) => d.name)).toEqual(['/dev/sdb', '/dev/sdd']);
  });
  it('a node that is not selected has none', () => {
    const c: DeviceClass = { name: 'x', nodeSelector: { nodeSelectorTerms: [{ matchExpressions: [{ key: 'no', operator: 'Exists' }] }] } };
    expect(chosenOn(c, seen('a', [dev('b')]))).toEqual([]);
  });
});

describe('consent', () => {
  const named: DeviceClass = { name: 'vg1', deviceSelector: { optionalPaths: [id('b'), id('c')] } };
  it('is for the disks that carry something, and for no others', () => {
    const a = seen('a', [dev('b'), full('c')]);
    expect(carriersOf(named, [a]).map((x) => x.path)).toEqual([id('c')]);
    const c = withWipe(named, new Set([id('c')]));
    expect(c.deviceSelectors).toEqual([{ optionalPaths: [id('b')] }, { optionalPaths: [id('c')], forceWipeDevicesAndDestroyAllData: true }]);
    expect([...consentOf(c).paths]).toEqual([id('c')]);
  });
  it('can be taken back', () => expect(withWipe(withWipe(named, new Set([id('c')])), new Set())).toEqual(named));
  it('for all disks stays one selector', () =>
    expect(withWipe(named, new Set([id('b'), id('c')])).deviceSelector).toEqual({ optionalPaths: [id('b'), id('c')], forceWipeDevicesAndDestroyAllData: true }));
  it('does not make a rule of properties that named disks had to have', () => {
    const c: DeviceClass = { name: 'x', deviceSelector: { paths: [id('b')], minSize: '1Gi' } };
    expect(withWipe(c, new Set([id('b')])).deviceSelector).toEqual({ paths: [id('b')], minSize: '1Gi', forceWipeDevicesAndDestroyAllData: true });
  });
  it('leaves selectors of other nodes and rules as they are', () => {
    const some = { nodeSelectorTerms: [{ matchExpressions: [{ key: 'x', operator: 'Exists' as const }] }] };
    const c: DeviceClass = { name: 'x', deviceSelectors: [{ nodeSelector: some, paths: ['/dev/x', '/dev/y'] }, { minSize: '1Gi' }] };
    expect(withWipe(c, new Set(['/dev/y'])).deviceSelectors).toEqual([
      { nodeSelector: some, paths: ['/dev/x'] }, { nodeSelector: some, paths: ['/dev/y'], forceWipeDevicesAndDestroyAllData: true }, { minSize: '1Gi' },
    ]);
    expect(allPaths(withWipe(c, new Set(['/dev/y'])))).toEqual(['/dev/x', '/dev/y']);
  });
  it('without names is not kept', () => expect(withSelectors({ name: 'x' }, [{ minSize: '1Gi', forceWipeDevicesAndDestroyAllData: true }]).deviceSelector).toEqual({ minSize: '1Gi' }));
});

describe('volume groups that no device class has', () => {
  const grouped = (n: string, uuid = 'U-1', ...more: string[]): Device =>
    dev(n, { state: 'InUse', volumeGroup: 'old', volumeGroupUUID: uuid, reasons: ['InVolumeGroup', ...more].map((code) => ({ code })) });
  const node = seen('a', [grouped('b'), grouped('c', 'U-1', 'HasHolders'), full('d'), dev('e'), grouped('f', 'U-2', 'Mounted')]);
  const all = [node];
  const c: DeviceClass = { name: 'vg1', deviceSelector: { paths: ['b', 'c', 'd', 'e'].map(id) } };
  const none = { paths: new Set<string>(), groups: new Set<string>() };
  const carriers = carriersOf(c, all);

  it('are carriers, unless something else is against the disk', () => {
    expect(carriers.map((x) => [x.path, x.verdict])).toEqual([[id('b'), 'group'], [id('c'), 'group'], [id('d'), 'wipe']]);
    expect(carriersOf({ name: 'vg1', deviceSelector: { paths: [id('f')] } }, all)).toEqual([]);
    expect(chosenOn(c, node).map((d) => d.name)).toEqual(['/dev/sdb', '/dev/sdc', '/dev/sdd', '/dev/sde']);
  });
  it('cannot be destroyed if one of their disks cannot be used', () => {
    const root = seen('a', [grouped('b'), grouped('c', 'U-1', 'HasHolders', 'IsOSDisk')]);
    expect(root.devices.map((d) => verdictOn(root, d))).toEqual(['blocked', 'blocked']);
    expect(carriersOf({ name: 'vg1', deviceSelector: { paths: [id('b')] } }, [root])).toEqual([]);
  });
  it('have all of their disks selected together', () => {
    expect(sameGroup(node, node.devices[0] as Device).map((d) => d.name)).toEqual(['/dev/sdb', '/dev/sdc']);
    expect(sameGroup(node, node.devices[3] as Device).map((d) => d.name)).toEqual(['/dev/sde']);
  });
  it('are consented to by UUID, apart from other content and from blank disks', () => {
    const consent = withCarriers(none, carriers);
    const next = withConsent(c, consent, carriers);
    expect(next.deviceSelectors).toEqual([
      { paths: [id('e')] }, { paths: [id('d')], forceWipeDevicesAndDestroyAllData: true }, { paths: [id('b'), id('c')], wipeVolumeGroups: ['U-1'] },
    ]);
    expect(withConsent(next, consent, carriers)).toEqual(next);
    expect(consentOf(next)).toEqual(consent);
    expect(without(consent, carriers)).toEqual([]);
    expect([exceeds(consent, none), exceeds(none, consent), exceeds(consent, consent)]).toEqual([true, false, false]);
    expect(allPaths(withConsent(next, none, carriers)).sort()).toEqual(allPaths(c).sort());
    expect(withConsent(next, none, carriers).deviceSelector).toBeDefined();
  });
  it('keep a consent by name that was there before', () => {
    const was: DeviceClass = { name: 'vg1', deviceSelector: { paths: [id('b'), id('c')], wipeVolumeGroups: ['old'] } };
    const consent = consentOf(was);
    expect(without(consent, carriersOf(was, all))).toEqual([]);
    const wider = withConsent(was, withCarriers(consent, []), carriersOf(was, all));
    expect(wider.deviceSelector).toEqual({ paths: [id('b'), id('c')], wipeVolumeGroups: ['old'] });
  });
  it('are not consented to by a rule, or without disks', () =>
    expect(withSelectors({ name: 'x' }, [{ minSize: '1Gi', wipeVolumeGroups: ['U-1'] }]).deviceSelector).toEqual({ minSize: '1Gi' }));
  it('do not get a blank disk into their selector', () => {
    const next = tick(withConsent(c, withCarriers(none, carriers), carriers), node, dev('g'), all);
    expect(next.deviceSelectors?.at(-1)).toEqual({ paths: [id('b'), id('c')], wipeVolumeGroups: ['U-1'] });
  });
});

describe('a volume group that an administrator created', () => {
  const c: DeviceClass = { name: 'vg1', existingVolumeGroup: 'myvg' };
  it('has no disks to select, and takes none', () => {
    expect(modeOf(c)).toBe('group');
    expect(chosenOn(c, a)).toEqual([]);
  });
});
