import { readFileSync } from 'node:fs';
import { describe, expect, it } from 'vitest';
import type { Device, DeviceClass, VGStatus } from '../api/types';
import { adoptable, adoptedElsewhere, existing, groupsOn, isAdoptedGroup, nodesWithout, withAdopted, withoutAdopted, type Group } from './groups';
import { carriersOf, modeOf, seenOf, withMode, type Seen } from './selection';

const adopt = 'is a physical volume of the volume group old (U-1), which no device class uses: to use it with its volumes, add the UUID to adopt of a device class; to destroy it with its volumes, add the UUID to wipeVolumeGroups of the deviceSelector';
const use = 'is a physical volume of the volume group data (U-2), which no device class uses: to use it with its volumes, set existingVolumeGroup: data in a device class; to destroy it with its volumes, add the UUID to wipeVolumeGroups of the deviceSelector';

const dev = (n: string, group: string, uuid: string, message?: string, more: Partial<Device> = {}): Device => ({
  name: `/dev/sd${n}`, byID: [`wwn-${n}`], state: 'InUse', size: '1Gi', volumeGroup: group, volumeGroupUUID: uuid, reasons: [{ code: 'InVolumeGroup', message }], ...more,
});
const seen = (name: string, devices: Device[], entries: VGStatus[] = []): Seen =>
  seenOf({ metadata: { name, labels: { 'kubernetes.io/hostname': name } } }, { metadata: { name }, status: { devices, nodeStatus: entries } });
const ways = (s: Seen) => groupsOn(s).map((g) => `${g.name} ${g.way}${g.users.map((u) => ` ${u}`).join('')}`);
const id = (n: string) => `/dev/disk/by-id/wwn-${n}`;

describe('volume groups of a node', () => {
  it('are adopted if this product created them, and used as they are if an administrator did', () =>
    expect(ways(seen('a', [dev('b', 'old', 'U-1', adopt), dev('c', 'old', 'U-1', adopt), dev('d', 'data', 'U-2', use)]))).toEqual(['data existing', 'old adopt']));
  it('can be either if the list of devices was shortened', () => expect(ways(seen('a', [dev('b', 'old', 'U-1')]))).toEqual(['old either']));
  it('with the operating system are not adopted', () =>
    expect(ways(seen('a', [dev('b', 'root', 'U-3', 'is a physical volume of the volume group root', { reasons: [{ code: 'IsOSDisk' }, { code: 'InVolumeGroup' }] })]))).toEqual(['root existing']));
  it('of a device class are in no list', () => expect(ways(seen('a', [dev('b', 'vg1', 'U-4')], [{ name: 'vg1', uuid: 'U-4', status: 'Ready' }]))).toEqual([]));
  it('have the name of a device class that failed because of them', () => expect(ways(seen('a', [dev('b', 'vg1', 'U-1', adopt)], [{ name: 'vg1', status: 'Failed' }]))).toEqual(['vg1 adopt']));
  it('that a device class uses as they are can have another one', () =>
    expect(ways(seen('a', [dev('d', 'data', 'U-2')], [{ name: 'thick', volumeGroup: 'data', uuid: 'U-2', status: 'Ready' }]))).toEqual(['data existing thick']));
  it('that are missing are in no list', () => expect(ways(seen('a', [dev('b', 'old', 'U-1', adopt, { state: 'Missing' })]))).toEqual([]));
  it('of several nodes are one choice', () => {
    const nodes = [seen('a', [dev('d', 'data', 'U-2', use)]), seen('b', [dev('d', 'data', 'U-5', use), dev('e', 'old', 'U-1', adopt)]), seen('c', [])];
    expect(existing(nodes).map((s) => [s.name, s.groups.length])).toEqual([['data', 2]]);
    expect(adoptable(nodes).map((g) => g.name)).toEqual(['old']);
    expect(nodesWithout('data', nodes)).toEqual(['c']);
  });
});

describe('adopt', () => {
  const a = seen('a', [dev('b', 'old', 'U-1', adopt), dev('c', 'old', 'U-1', adopt), dev('d', 'older', 'U-6', adopt)]);
  const [old, older] = groupsOn(a) as [Group, Group];
  const empty: DeviceClass = { name: 'vg1', deviceSelector: { optionalPaths: [] } };
  it('names the volume group and its devices, and destroys nothing of it', () => {
    const c = withAdopted(empty, old, [a]);
    expect(c).toEqual({ name: 'vg1', deviceSelector: { paths: [id('b'), id('c')] }, adopt: [{ node: 'a', volumeGroupUUID: 'U-1' }] });
    expect(carriersOf(c, [a])).toEqual([]);
    expect(withAdopted(c, old, [a])).toEqual(c);
  });
  it('has one volume group of a node, and the devices of the other one are not left to be destroyed', () => {
    const c = withAdopted(withAdopted(empty, old, [a]), older, [a]);
    expect(c).toEqual({ name: 'vg1', deviceSelector: { paths: [id('d')] }, adopt: [{ node: 'a', volumeGroupUUID: 'U-6' }] });
    expect([old, older].map((g) => isAdoptedGroup(c, g))).toEqual([false, true]);
  });
  it('taken back leaves nothing', () => expect(withoutAdopted(withAdopted(empty, old, [a]), old)).toEqual(empty));
  it('names no device if the class selects devices in another way', () =>
    expect(withAdopted({ name: 'vg1' }, old, [a])).toEqual({ name: 'vg1', adopt: [{ node: 'a', volumeGroupUUID: 'U-1' }] }));
  it('keeps entries that lead to no volume group', () => {
    const gone = { node: 'z', volumeGroupUUID: 'U-9' };
    expect(adoptedElsewhere(withAdopted({ ...empty, adopt: [gone] }, old, [a]), [a])).toEqual([gone]);
  });
});

it('a class on an existing volume group has only what it can have, and loses it again', () => {
  const c: DeviceClass = {
    name: 'vg1', default: true, deviceDiscoveryPolicy: 'Dynamic', deviceSelector: { paths: ['/dev/x'] }, adopt: [{ node: 'a', volumeGroupUUID: 'U-1' }],
    thinPoolConfig: { name: 'p', sizePercent: 90, overprovisionRatio: 10, autoExtend: {}, chunkSize: '64Ki', metadataSize: '1Gi', metadataSizeCalculationPolicy: 'Static' },
  };
  const group = withMode(c, 'group');
  expect(group).toEqual({ name: 'vg1', default: true, existingVolumeGroup: '', thinPoolConfig: { name: 'p', sizePercent: 90, overprovisionRatio: 10 } });
  expect(modeOf(group)).toBe('group');
  expect(withMode({ ...group, existingVolumeGroup: 'data', existingVolumeGroupConfig: { spareGiB: 1 } }, 'paths')).toEqual({ name: 'vg1', default: true, deviceSelector: { optionalPaths: [] }, thinPoolConfig: { name: 'p', sizePercent: 90, overprovisionRatio: 10 } });
});

it('the node agent writes the messages that tell one from the other', () => {
  const source = readFileSync('../../vgmanager/group/volumegroup/plan/selection/destroy.go', 'utf8');
  for (const text of ['add the UUID to adopt of a device class', 'set existingVolumeGroup: %s in a device class']) expect(source).toContain(text);
});
