import { describe, expect, it } from 'vitest';
import type { Device, DeviceClass, NodeStatus, PhysicalVolumeStatus } from '../api/types';
import { newCluster, withClasses } from './cluster';
import { changesOf, consequencesOf, doneRequests, elsewhere, isAbout, membersOf, pathsTo, physicalVolumeOf, requestFor, spares, withClassNamed, withDevice, withoutPaths, withoutRequest, withWish, type Member } from './members';
import { inEnglish } from './message';
import { formatBytes } from './quantity';
import { seenOf } from './selection';

const disk = (n: string, more: Partial<Device> = {}): Device => ({ name: `/dev/sd${n}`, id: `wwn:${n}`, byID: [`wwn-${n}`], pvUUID: `uuid-${n}`, volumeGroup: 'vg1', state: 'InUse', ...more });
const pv = (n: string, more: Partial<PhysicalVolumeStatus> = {}): PhysicalVolumeStatus => ({ uuid: `uuid-${n}`, name: `/dev/sd${n}`, deviceID: `wwn:${n}`, path: `/dev/disk/by-id/wwn-${n}`, size: '100Gi', free: '40Gi', state: 'Ready', ...more });
const status = (node: string, pvs: PhysicalVolumeStatus[], devices = pvs.map((p) => disk(p.uuid.slice(5)))): NodeStatus => ({ metadata: { name: node }, status: { devices, nodeStatus: [{ name: 'vg1', status: 'Ready', physicalVolumes: pvs }, { name: 'other', physicalVolumes: [] }] } });
const node = (name: string, s: NodeStatus) => seenOf({ metadata: { name } }, s);
const c: DeviceClass = { name: 'vg1', deviceSelector: { paths: ['/dev/disk/by-id/wwn-b', '/dev/disk/by-id/wwn-c'] } };
const two = [status('a', [pv('b'), pv('c', { free: '70Gi' })])];
const [first, second] = membersOf('vg1', two) as [Member, Member];
const words = (...args: Parameters<typeof consequencesOf>) => consequencesOf(...args).map((x) => `${x.level}: ${inEnglish(x.text)}`);
const size = (n: number) => formatBytes(n);

describe('members', () => {
  it('has the devices of the class, those that need attention first, with the device of the inventory', () => {
    const list = membersOf('vg1', [status('b', [pv('x')]), status('a', [pv('b'), pv('c', { state: 'Missing' }), pv('d', { state: 'Drained' })], [disk('b'), disk('d')])]);
    expect(list.map((m) => [m.node, m.pv.uuid, m.device?.name])).toEqual([['a', 'uuid-c', undefined], ['a', 'uuid-d', '/dev/sdd'], ['a', 'uuid-b', '/dev/sdb'], ['b', 'uuid-x', '/dev/sdx']]);
  });
  it('takes no device of the same name that is another one', () => expect(membersOf('vg1', [status('a', [pv('b')], [disk('b', { pvUUID: 'other' })])])[0]?.device).toBeUndefined());
  it('finds the physical volume of a device', () => {
    expect(physicalVolumeOf(two[0], disk('c'))?.uuid).toBe('uuid-c');
    expect(physicalVolumeOf(undefined, disk('c'))).toBeUndefined();
  });
});

describe('requests', () => {
  it.each(['uuid-b', '/dev/sdb', 'wwn:b', '/dev/disk/by-id/wwn-b'])('knows a device by %s', (device) => {
    expect(isAbout({ node: 'a', device, action: 'Drain' }, first)).toBe(true);
    expect(isAbout({ node: 'b', device, action: 'Drain' }, first)).toBe(false);
  });
  it('names the UUID, replaces what was asked before, and asked twice is asked once', () => {
    const before: DeviceClass = { ...c, deviceRequests: [{ node: 'a', device: '/dev/sdb', action: 'Cordon' }, { node: 'z', device: '/dev/sdb', action: 'Drain' }] };
    const once = withWish(before, first, 'Drain');
    expect(once.deviceRequests).toEqual([{ node: 'z', device: '/dev/sdb', action: 'Drain' }, { node: 'a', device: 'uuid-b', action: 'Drain' }]);
    expect(withWish(once, first, 'Drain')).toEqual(once);
    expect(requestFor(once, first)?.action).toBe('Drain');
    expect(changesOf(before, once)).toEqual(['- deviceRequests: {node: a, device: /dev/sdb, action: Cordon}', '+ deviceRequests: {node: a, device: uuid-b, action: Drain}']);
  });
  it('keeps a device suspended, unless the request is withdrawn', () => {
    const suspended: DeviceClass = { ...c, deviceRequests: [{ node: 'a', device: '/dev/sdb', action: 'Cordon', suspend: true, suspendReason: 'by ann' }] };
    expect(withWish(suspended, first, 'Drain').deviceRequests).toEqual([{ node: 'a', device: 'uuid-b', action: 'Drain', suspend: true, suspendReason: 'by ann' }]);
    expect('deviceRequests' in withWish(suspended, first, undefined)).toBe(false);
  });
  it('leaves no empty list behind', () => expect('deviceRequests' in withWish(withWish(c, first, 'Cordon'), first, undefined)).toBe(false));
  it('is done when the device left, and not while the node has not told', () => {
    const asked: DeviceClass = { ...c, deviceRequests: [{ node: 'a', device: 'gone', action: 'Remove' }, { node: 'silent', device: 'x', action: 'Remove' }, { node: 'a', device: 'uuid-b', action: 'Drain' }] };
    expect(doneRequests(asked, two)).toEqual([asked.deviceRequests?.[0]]);
    expect(withoutRequest(asked, { node: 'a', device: 'gone', action: 'Remove' }).deviceRequests).toHaveLength(2);
  });
  it('changes the class of a name, and nothing where it is gone', () => {
    const cluster = withClasses(newCluster('ns'), [{ name: 'other' }, c]);
    expect(withClassNamed(cluster, 'vg1', (x) => withWish(x, first, 'Drain')).spec?.storage?.deviceClasses?.map((x) => x.deviceRequests?.length)).toEqual([undefined, 1]);
    expect(withClassNamed(cluster, 'none', () => c)).toBe(cluster);
  });
});

describe('paths', () => {
  const nodes = [node('a', two[0] as NodeStatus)];
  it('are taken out where they lead to this device only', () => {
    expect(withoutPaths(c, first, [first, second], nodes)?.deviceSelector).toEqual({ paths: ['/dev/disk/by-id/wwn-c'] });
    expect(pathsTo(c, first, nodes[0])).toEqual(['/dev/disk/by-id/wwn-b']);
  });
  it('stay where they lead to a device of another node as well', () => {
    const other = status('z', [pv('b')]);
    const members = membersOf('vg1', [...two, other]);
    const seen = [...nodes, node('z', other)];
    const here = members.find((m) => m.node === 'a' && m.pv.uuid === 'uuid-b') as Member;
    expect(elsewhere(['/dev/disk/by-id/wwn-b'], here, members, seen).map((m) => m.node)).toEqual(['z']);
    expect(withoutPaths(c, here, members, seen)).toBeUndefined();
  });
  it('stay where they are the last ones, or where there are none', () => {
    expect(withoutPaths({ name: 'vg1', deviceSelector: { paths: ['/dev/disk/by-id/wwn-b'] } }, first, [first], nodes)).toBeUndefined();
    expect(withoutPaths({ name: 'vg1', deviceSelector: { minSize: '1Gi' } }, first, [first], nodes)).toBeUndefined();
    expect(withoutPaths(c, { ...first, device: undefined }, [first], nodes)).toBeUndefined();
  });
  it('spares are what is blank', () => {
    const seen = node('a', status('a', [], [disk('b'), disk('x', { volumeGroup: undefined, pvUUID: undefined, state: 'Available' }), disk('y', { volumeGroup: undefined, state: 'Excluded', reasons: [{ code: 'HasSignature' }] })]));
    expect(spares(seen).map((d) => d.name)).toEqual(['/dev/sdx']);
    expect(spares(undefined)).toEqual([]);
  });
});

describe('consequences', () => {
  it('of a drain that fits, with the numbers', () => expect(words(c, first, 'Drain', size).join('\n')).toMatch(/^info: 60 GiB of data is moved to the other devices of the volume group on node a, which have 70 GiB free/));
  it('of a drain that does not fit', () => expect(words(c, { ...first, group: { ...first.group, physicalVolumes: [first.pv, pv('c', { free: '50Gi' })] } }, 'Drain', size)[0]).toMatch(/^danger: 60 GiB of the device is in use, but the other devices have only 50 GiB free: the drain would be blocked/));
  it('closed devices are no room', () => expect(words(c, { ...first, group: { ...first.group, physicalVolumes: [first.pv, pv('c', { state: 'Cordoned' })] } }, 'Drain', size)[0]).toMatch(/have only 0 B free/));
  it('a further disk is room', () => {
    const alone = { ...first, group: { ...first.group, physicalVolumes: [first.pv] } };
    expect(words(c, alone, 'Remove', size).filter((w) => w.startsWith('danger'))).toHaveLength(2);
    expect(words(c, withDevice(alone, 200 * 2 ** 30), 'Remove', size).filter((w) => w.startsWith('danger'))).toEqual([]);
  });
  it('what is not known is not taken for room', () => expect(words(c, { ...first, pv: { ...first.pv, free: undefined } }, 'Drain', size)[0]).toMatch(/^warning: It is unknown/));
  it('an empty one moves nothing', () => expect(words(c, { ...first, pv: { ...first.pv, free: '100Gi' } }, 'Remove', size).join()).toMatch(/The device is empty/));
  it('a missing one beside it stops the move, and another move is waited for', () => {
    const group = { ...first.group, physicalVolumes: [first.pv, pv('c', { state: 'Missing' }), pv('d', { state: 'Draining' })] };
    expect(words(c, { ...first, group }, 'Drain', size).join('\n')).toMatch(/danger: A device of the volume group is missing[^]*when the drain of \/dev\/sdd is complete/);
  });
  it('a failing one may not be readable', () => expect(words(c, { ...first, pv: { ...first.pv, state: 'Failing' } }, 'Drain', size)[0]).toMatch(/^danger: The device is failing/));
  it('the last one stays, and so does what redundancy needs', () => {
    expect(words(c, { ...first, group: { ...first.group, physicalVolumes: [first.pv] } }, 'Remove', size).join()).toMatch(/only device of the volume group on node a and stays/);
    expect(words({ ...c, raidConfig: { type: 'raid1' } }, first, 'Remove', size)[0]).toMatch(/raid1 requires at least 2 devices, but only 1 would be left/);
  });
  it('of closing one', () => {
    expect(words(c, first, 'Cordon', size).join()).not.toMatch(/warning/);
    expect(words(c, { ...first, group: { ...first.group, physicalVolumes: [first.pv] } }, 'Cordon', size)[0]).toMatch(/^warning: No other device/);
  });
  it('of a lost one', () => {
    const lost = { ...first, pv: pv('b', { state: 'Missing' }) };
    expect(words(c, lost, 'Drain', size)[0]).toMatch(/^danger: The device is missing/);
    expect(words(c, lost, 'Remove', size)[0]).toMatch(/^danger: Data that is only on this device is lost. No other data is deleted/);
    expect(words({ ...c, raidConfig: { type: 'raid1' } }, lost, 'Remove', size).join()).toMatch(/is rebuilt on the remaining devices/);
  });
});
