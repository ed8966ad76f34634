import { describe, expect, it } from 'vitest';
import type { Device, DeviceClass, Node } from '../api/types';
import { allPaths, carriersOf, chosenOn, isNamed, modeOf, seenOf, tick, untick, wipedPaths, withMode, withSelectors, withWipe, type Seen } from './selection';

const dev = (n: string, more: Partial<Device> = {}): Device => ({ name: `/dev/sd${n}`, state: 'Available', size: '1Gi', byID: [`wwn-${n}`], byPath: [`slot-${n}`], ...more });
const full = (n: string): Device => dev(n, { state: 'Excluded', reasons: [{ code: 'HasSignature' }] });
const seen = (name: string, devices: Device[], groups: string[] = []): Seen => {
  const node: Node = { metadata: { name, labels: { 'kubernetes.io/hostname': name } } };
  return seenOf(node, { metadata: { name }, status: { devices, nodeStatus: groups.map((g) => ({ name: g })) } });
};
const empty: DeviceClass = { name: 'vg1', deviceSelector: { optionalPaths: [] } };
const id = (n: string) => `/dev/disk/by-id/wwn-${n}`;

describe('ticks', () => {
  it('write the stable name, once, and are found again', () => {
    const a = seen('a', [dev('b'), dev('c')]);
    const c = tick(tick(empty, dev('b'), false), dev('b'), false);
    expect(c.deviceSelector).toEqual({ optionalPaths: [id('b')] });
    expect(a.devices.map((d) => isNamed(c, a, d))).toEqual([true, false]);
    expect(chosenOn(c, a).map((d) => d.name)).toEqual(['/dev/sdb']);
  });
  it('of a single node are required', () => expect(tick(empty, dev('b'), true).deviceSelector).toEqual({ paths: [id('b')] }));
  it('taken out leave nothing chosen, and never every unused disk', () => {
    const a = seen('a', [dev('b')]);
    const c = untick(tick(empty, dev('b'), false), a, a.devices[0] as Device);
    expect(c.deviceSelector).toEqual({ optionalPaths: [] });
    expect(modeOf(c)).toBe('paths');
    expect(chosenOn(c, a)).toEqual([]);
  });
  it('take out every name of the disk, and no other', () => {
    const a = seen('a', [dev('b'), dev('c')]);
    const c: DeviceClass = { name: 'vg1', deviceSelector: { paths: ['/dev/disk/by-path/slot-b', id('c')], optionalPaths: [id('b'), '/dev/disk/by-id/unknown'] } };
    expect(untick(c, a, a.devices[0] as Device).deviceSelector).toEqual({ paths: [id('c')], optionalPaths: ['/dev/disk/by-id/unknown'] });
  });
  it('do not go into a selector of some nodes, nor into one that wipes', () => {
    const some = { nodeSelectorTerms: [{ matchExpressions: [{ key: 'x', operator: 'Exists' as const }] }] };
    const c: DeviceClass = { name: 'vg1', deviceSelectors: [{ nodeSelector: some, paths: ['/dev/x'] }] };
    expect(tick(c, dev('b'), false).deviceSelectors).toEqual([{ nodeSelector: some, paths: ['/dev/x'] }, { optionalPaths: [id('b')] }]);
    const wiping: DeviceClass = { name: 'vg1', deviceSelector: { optionalPaths: [id('z')], forceWipeDevicesAndDestroyAllData: true } };
    expect(tick(wiping, dev('b'), false).deviceSelectors).toEqual([{ optionalPaths: [id('z')], forceWipeDevicesAndDestroyAllData: true }, { optionalPaths: [id('b')] }]);
  });
});

describe('modes', () => {
  it('every unused disk, names, rules', () => {
    expect([modeOf({ name: 'x' }), modeOf(empty), modeOf({ name: 'x', deviceSelector: { minSize: '1Gi' } })]).toEqual(['all', 'paths', 'rules']);
    for (const mode of ['all', 'paths', 'rules'] as const) expect(modeOf(withMode(empty, mode))).toBe(mode);
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
    expect([...wipedPaths(c)]).toEqual([id('c')]);
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
