import { describe, expect, it } from 'vitest';
import type { DeviceClass, LVMCluster } from '../api/types';
import { newCluster, withClasses } from './cluster';
import { withEncryption } from './encryption';
import { inEnglish } from './message';
import { validate, validateChange } from './validate';

const good: DeviceClass = { name: 'vg1', default: true, deviceSelector: { paths: ['/dev/sdb'] }, thinPoolConfig: { name: 'p', sizePercent: 90, overprovisionRatio: 10 } };
const of = (...classes: DeviceClass[]): LVMCluster => withClasses(newCluster('ns'), classes);
const fields = (c: LVMCluster) => validate(c).map((p) => p.field.replace('spec.storage.deviceClasses', ''));
const pool = (more: object): DeviceClass => ({ ...good, thinPoolConfig: { name: 'p', overprovisionRatio: 10, ...more } });
const selector = (s: object): DeviceClass => ({ ...good, deviceSelector: s });
const raid = (config: object, paths = ['/dev/a', '/dev/b', '/dev/c', '/dev/d', '/dev/e']): DeviceClass => ({ name: 'r', default: true, deviceSelector: { paths }, raidConfig: config as never });

it('accepts what the API server accepts', () => {
  for (const c of [good, pool({ chunkSize: '128Ki', metadataSizeCalculationPolicy: 'Static', metadataSize: '1Gi', autoExtend: { thresholdPercent: 80, stepPercent: 20 } }), selector({ minSize: '16Mi', transports: ['NVMe'] }), selector({ labels: { tier: 'fast' } }), raid({ type: 'raid6', stripeSize: '64Ki' }), raid({ type: 'raid6', stripeSize: '8Mi' }), { ...good, name: 'a'.repeat(63) }, pool({ name: 'p'.repeat(107) }), { name: 'a' }])
    expect(fields(of(c))).toEqual([]);
  expect(fields(newCluster('ns'))).toEqual([]);
});

const thick = { ...good, thinPoolConfig: undefined };

it('reports the limits of the schema', () =>
  expect(validate(of(pool({ sizePercent: 9 }), { name: 'b', deviceSelector: { models: [''] }, fstype: 'zfs' as never })).map((p) => inEnglish(p.message))).toEqual([
    'Must be a whole number from 10 to 100.', 'Must have 1 to 128 characters.', 'zfs is not supported: use one of xfs, ext4.',
  ]));

describe('refuses', () => {
  it.each<[string, LVMCluster, string]>([
    ['an upper case letter', of({ ...good, name: 'VG' }), '[0].name'], ['a - at the end', of({ ...good, name: 'vg-' }), '[0].name'], ['no name', of({ ...good, name: '' }), '[0].name'],
    ['64 characters', of({ ...good, name: 'a'.repeat(64) }), '[0].name'],
    ['no labels', of(selector({ labels: {} })), '[0].deviceSelector'],
    ['an empty list of devices', of(selector({ optionalPaths: [] })), '[0].deviceSelector'], ['a path elsewhere', of(selector({ paths: ['/tmp/x'] })), '[0].deviceSelector.paths[0]'],
    ['a part with a dot', of(selector({ paths: ['/dev/../x'] })), '[0].deviceSelector.paths[0]'], ['129 paths', of(selector({ paths: Array.from({ length: 129 }, (_, i) => `/dev/x${i}`) })), '[0].deviceSelector.paths'],
    ['a path twice', of(selector({ paths: ['/dev/x'], optionalPaths: ['/dev//x'] })), '[0].deviceSelector.optionalPaths[0]'],
    ['a small size', of(selector({ minSize: '15Mi' })), '[0].deviceSelector.minSize'], ['no size', of(selector({ maxSize: 'big' })), '[0].deviceSelector.maxSize'],
    ['a greatest size below the least', of(selector({ minSize: '2Gi', maxSize: '1Gi' })), '[0].deviceSelector.maxSize'], ['an unknown transport', of(selector({ transports: ['pigeon'] })), '[0].deviceSelector.transports[0]'],
    ['a wipe without names', of(selector({ minSize: '1Gi', forceWipeDevicesAndDestroyAllData: true })), '[0].deviceSelector.forceWipeDevicesAndDestroyAllData'],
    ['both kinds of selectors', of({ ...good, deviceSelectors: [{ paths: ['/dev/x'] }] }), '[0].deviceSelectors'],
    ['17 selectors', of({ ...good, deviceSelector: undefined, deviceSelectors: Array.from({ length: 17 }, (_, i) => ({ paths: [`/dev/x${i}`] })) }), '[0].deviceSelectors'],
    ['no node', of({ ...good, nodeSelector: { nodeSelectorTerms: [{ matchExpressions: [{ key: 'x', operator: 'In', values: [] }] }] } }), '[0].nodeSelector'],
    ['a pool name', of(pool({ name: '-p' })), '[0].thinPoolConfig.name'], ['a share', of(pool({ sizePercent: 9 })), '[0].thinPoolConfig.sizePercent'], ['half a percent', of(pool({ sizePercent: 50.5 })), '[0].thinPoolConfig.sizePercent'],
    ['a ratio', of(pool({ overprovisionRatio: 101 })), '[0].thinPoolConfig.overprovisionRatio'], ['no ratio', of(pool({ overprovisionRatio: NaN })), '[0].thinPoolConfig.overprovisionRatio'],
    ['a high-water mark', of(pool({ highWaterMarkPercent: 49 })), '[0].thinPoolConfig.highWaterMarkPercent'], ['a step', of(pool({ autoExtend: { stepPercent: 4 } })), '[0].thinPoolConfig.autoExtend.stepPercent'],
    ['growth above the mark', of(pool({ highWaterMarkPercent: 60, autoExtend: { thresholdPercent: 61 } })), '[0].thinPoolConfig.autoExtend.thresholdPercent'],
    ['a chunk', of(pool({ chunkSize: '100Ki' })), '[0].thinPoolConfig.chunkSize'], ['a chunk that is left to the host', of(pool({ chunkSize: '64Ki', chunkSizeCalculationPolicy: 'Host' })), '[0].thinPoolConfig.chunkSize'],
    ['small metadata', of(pool({ metadataSizeCalculationPolicy: 'Static', metadataSize: '1Mi' })), '[0].thinPoolConfig.metadataSize'], ['metadata that is left to the host', of(pool({ metadataSize: '1Gi' })), '[0].thinPoolConfig.metadataSize'],
    ['redundancy of a pool', of({ ...good, raidConfig: { type: 'raid1' }, deviceSelector: { paths: ['/dev/a', '/dev/b'] } }), '[0].raidConfig'],
    ['a level', of(raid({ type: 'raid7' })), '[0].raidConfig.type'], ['copies of raid5', of(raid({ type: 'raid5', mirrors: 1 })), '[0].raidConfig.mirrors'], ['two copies of raid10', of(raid({ type: 'raid10', mirrors: 2 })), '[0].raidConfig.mirrors'],
    ['two stripes of raid6', of(raid({ type: 'raid6', stripes: 2 })), '[0].raidConfig.stripes'], ['a stripe size', of(raid({ type: 'raid5', stripeSize: '3Ki' })), '[0].raidConfig.stripeSize'],
    ['too few disks', of(raid({ type: 'raid1' }, ['/dev/a'])), '[0].deviceSelector'],
    ['too few disks for a striped pool', of({ ...pool({ stripes: 2 }), deviceSelector: { paths: ['/dev/a'] } }), '[0].thinPoolConfig.stripes'],
    ['two limits of a namespace', of({ ...good, namespaceLimits: [{ namespace: 'a', perNode: '1Gi' }, { perNode: 0 }, { namespace: 'a', perNode: '2Gi' }] }), '[0].namespaceLimits[2].namespace'],
    ['two limits of all namespaces', of({ ...good, namespaceLimits: [{ namespace: '', perNode: '1Gi' }, { perNode: '2Gi' }] }), '[0].namespaceLimits[1].namespace'],
    ['a limit without a size', of({ ...good, namespaceLimits: [{ namespace: 'a', perNode: '' }] }), '[0].namespaceLimits[0].perNode'],
    ['a negative limit', of({ ...good, namespaceLimits: [{ perNode: '-1Gi' }] }), '[0].namespaceLimits[0].perNode'],
    ['a limit that is no size', of({ ...good, namespaceLimits: [{ perNode: 'much' }] }), '[0].namespaceLimits[0].perNode'],
    ['a limit of no namespace', of({ ...good, namespaceLimits: [{ namespace: 'Shop', perNode: '1Gi' }] }), '[0].namespaceLimits[0].namespace'],
    ['too many limits', of({ ...good, namespaceLimits: Array.from({ length: 33 }, (_, i) => ({ namespace: `n${i}`, perNode: 0 })) }), '[0].namespaceLimits'],
    ['stripes on one device', of({ ...thick, thickConfig: { stripes: 2, allocation: 'SingleDevice' } }), '[0].thickConfig.stripes'], ['one stripe of volumes', of({ ...thick, thickConfig: { stripes: 1 } }), '[0].thickConfig.stripes'],
    ['more stripes than disks', of({ ...thick, thickConfig: { stripes: 3 }, deviceSelector: { paths: ['/dev/a', '/dev/b'] } }), '[0].thickConfig.stripes'], ['a stripe size of volumes', of({ ...thick, thickConfig: { stripes: 2, stripeSize: '8Mi' } }), '[0].thickConfig.stripeSize'],
    ['a stripe size of volumes alone', of({ ...thick, thickConfig: { stripeSize: '64Ki' } }), '[0].thickConfig.stripeSize'], ['placement in a thin pool', of({ ...good, thickConfig: {} }), '[0].thickConfig'],
    ['zeros in a thin pool', of({ ...good, eraseOnDelete: 'Zero' }), '[0].eraseOnDelete'], ['an unknown erasure', of({ ...good, eraseOnDelete: 'Burn' as never }), '[0].eraseOnDelete'],
    ['a threshold without a pool', of({ ...good, thinPoolConfig: undefined, trim: { poolUsageThresholdPercent: 80 } }), '[0].trim.poolUsageThresholdPercent'],
    ['a threshold of 100 %', of({ ...good, trim: { poolUsageThresholdPercent: 100 } }), '[0].trim.poolUsageThresholdPercent'],
    ['encryption without a key', of(withEncryption(good, { name: 'key', namespace: '', discards: false })), '[0].storageClassOptions.additionalParameters[csi.storage.k8s.io/node-stage-secret-namespace]'],
    ['a file system', of({ ...good, fstype: 'zfs' as never }), '[0].fstype'], ['33 models', of(selector({ models: Array.from({ length: 33 }, (_, i) => `m${i}`) })), '[0].deviceSelector.models'],
    ['an empty model', of(selector({ models: [''] })), '[0].deviceSelector.models[0]'], ['a request without a node', of({ ...good, deviceRequests: [{ device: '/dev/sdb', action: 'Drain' } as never] }), '[0].deviceRequests[0].node'],
    ['a request without an action', of({ ...good, deviceRequests: [{ device: '/dev/sdb', node: 'a' } as never] }), '[0].deviceRequests[0].action'],
    ['ten copies', of(raid({ type: 'raid1', mirrors: 10 })), '[0].raidConfig.mirrors'], ['stripes of raid1', of(raid({ type: 'raid1', stripes: 2 })), '[0].raidConfig.stripes'],
    ['a name of 64 characters', of({ ...good, name: 'a'.repeat(64) }), '[0].name'], ['a name of 246 characters', of({ ...good, name: 'a'.repeat(246) }), '[0].name'],
    ['the same name', of(good, { name: 'vg1', deviceSelector: { paths: ['/dev/x'] } }), '[1].name'], ['two defaults', of(good, { ...good, name: 'b', deviceSelector: { paths: ['/dev/x'] } }), '[1].default'],
    ['every disk beside another class', of(good, { name: 'b' }), '[1].deviceSelector'], ['a disk of two classes', of(good, { name: 'b', deviceSelector: { paths: ['/dev/sdb'] } }), '[1].deviceSelector.paths[0]'],
  ])('%s', (_, c, field) => expect(fields(c)).toContain(field));
});

it.each([['1Mi', true], ['100M', true], [10485760, true], ['1000k', false], ['0', false], ['-1Gi', false], ['fast', false]] as const)('the bandwidth of copies can be %s: %s', (bandwidthLimit, possible) => {
  const cluster = of(good);
  expect(fields({ ...cluster, spec: { ...cluster.spec, volumeCopy: { bandwidthLimit } } })).toEqual(possible ? [] : ['spec.volumeCopy.bandwidthLimit']);
});

it('accepts limits of namespaces', () => {
  expect(fields(of({ ...good, namespaceLimits: [{ namespace: 'shop', perNode: '100Gi' }, { namespace: 'sandbox', perNode: 0 }, { perNode: '1.5Gi' }] }))).toEqual([]);
});

describe('a volume group that exists', () => {
  const group = (more: Partial<DeviceClass> = {}, name = 'a'): DeviceClass => ({ name, existingVolumeGroup: 'data', ...more });
  const thin = (name: string) => ({ thinPoolConfig: { name, overprovisionRatio: 1 } });
  const on = (v: string) => ({ nodeSelector: { nodeSelectorTerms: [{ matchExpressions: [{ key: 'k', operator: 'In' as const, values: [v] }] }] } });
  const messages = (c: LVMCluster) => validate(c).map((p) => inEnglish(p.message));
  it.each([
    ['one', of(group())], ['with the name of the class', of(group({}, 'data'))], ['thick and two pools', of(group(), group(thin('p'), 'b'), group(thin('q'), 'c'))],
    ['beside a class for all disks', of({ name: 'x' }, group())], ['thick on different nodes', of(group(on('a')), group(on('b'), 'b'))],
    ['with stripes', of(group({ existingVolumeGroupConfig: { spareGiB: 10, stripes: 2, stripeSize: '64Ki' } }))],
    ['with one device', of(group({ existingVolumeGroupConfig: { allocation: 'SingleDevice', lvcreateOptions: ['--type=linear', '--readahead=1'] } }))],
    ['with any device and stripes', of(group({ existingVolumeGroupConfig: { allocation: 'Any', stripes: 2 } }))],
    ['with options', of(group({ existingVolumeGroupConfig: { lvcreateOptions: ['--type=raid1', '--mirrors=1', '--nosync', '--readahead=auto'] } }))],
    ['adopted on two nodes', of({ ...good, adopt: [{ node: 'a', volumeGroupUUID: 'U-1' }, { node: 'b', volumeGroupUUID: 'U-2' }] })],
  ])('is accepted: %s', (_, c) => expect(fields(c)).toEqual([]));
  it.each([
    ['no name', of(group({ existingVolumeGroup: '' })), '[0].existingVolumeGroup', /Enter the name of the volume group/], ['a name with a hyphen', of(group({ existingVolumeGroup: '-x' })), '[0].existingVolumeGroup', /Enter the name/],
    ['an approval', of(group({ approval: 'Required' })), '[0].existingVolumeGroup', /approval cannot be set together/],
    ['devices', of(group({ deviceSelector: { paths: ['/dev/x'] } })), '[0].existingVolumeGroup', /cannot be set together with existingVolumeGroup: the volume group/],
    ['adopt', of(group({ adopt: [{ node: 'a', volumeGroupUUID: 'U-1' }] })), '[0].existingVolumeGroup', /cannot be set together/],
    ['a pool that grows', of(group({ thinPoolConfig: { name: 'p', overprovisionRatio: 1, autoExtend: {} } })), '[0].existingVolumeGroup', /the thin pool must exist/],
    ['settings without it', of({ ...good, existingVolumeGroupConfig: { spareGiB: 1 } }), '[0].existingVolumeGroupConfig', /requires existingVolumeGroup/],
    ['stripes of a pool', of(group({ ...thin('p'), existingVolumeGroupConfig: { stripes: 2 } })), '[0].existingVolumeGroupConfig.stripes', /cannot be set together with thinPoolConfig/],
    ['the allocation of a pool', of(group({ ...thin('p'), existingVolumeGroupConfig: { allocation: 'Any' } })), '[0].existingVolumeGroupConfig.stripes', /cannot be set together with thinPoolConfig/],
    ['stripes on one device of a group', of(group({ existingVolumeGroupConfig: { allocation: 'SingleDevice', stripes: 2 } })), '[0].existingVolumeGroupConfig.allocation', /are mutually exclusive: their volumes/],
    ['redundancy on one device of a group', of(group({ existingVolumeGroupConfig: { allocation: 'SingleDevice', lvcreateOptions: ['--readahead=1', '--type=raid1'] } })), '[0].existingVolumeGroupConfig.allocation', /are mutually exclusive: their volumes/],
    ['one stripe', of(group({ existingVolumeGroupConfig: { stripes: 1 } })), '[0].existingVolumeGroupConfig.stripes', /from 2 to 128/],
    ['a stripe size of a pool alone', of({ name: 'a', thinPoolConfig: { name: 'p', overprovisionRatio: 10, stripeSize: '64Ki' } }), '[0].thinPoolConfig.stripeSize', /stripeSize requires stripes/],
    ['a stripe size above an extent', of({ name: 'a', thinPoolConfig: { name: 'p', overprovisionRatio: 10, stripes: 2, stripeSize: '8Mi' } }), '[0].thinPoolConfig.stripeSize', /power of two from 4Ki to 4Mi/],
    ['one stripe of a pool', of({ name: 'a', thinPoolConfig: { name: 'p', overprovisionRatio: 10, stripes: 1 } }), '[0].thinPoolConfig.stripes', /from 2 to 60/],
    ['a stripe size alone', of(group({ existingVolumeGroupConfig: { stripeSize: '64Ki' } })), '[0].existingVolumeGroupConfig.stripeSize', /stripeSize requires stripes/],
    ['an odd stripe size', of(group({ existingVolumeGroupConfig: { stripes: 2, stripeSize: '65Ki' } })), '[0].existingVolumeGroupConfig.stripeSize', /power of two/],
    ['stripes twice', of(group({ existingVolumeGroupConfig: { stripes: 2, lvcreateOptions: ['--stripesize=64k'] } })), '[0].existingVolumeGroupConfig.stripes', /mutually exclusive/],
    ['an option', of(group({ existingVolumeGroupConfig: { lvcreateOptions: ['--nosync', '--force'] } })), '[0].existingVolumeGroupConfig.lvcreateOptions[1]', /--force: must be --nosync/],
    ['a space that is too large', of(group({ existingVolumeGroupConfig: { spareGiB: 1048577 } })), '[0].existingVolumeGroupConfig.spareGiB', /from 0 to 1048576/],
    ['twice thick', of(group(), group({}, 'b')), '[1].existingVolumeGroup', /already has device class a for thick volumes/], ['twice the pool', of(group(thin('p')), group(thin('p'), 'b')), '[1].existingVolumeGroup', /Thin pool p already has device class a/],
    ['that of another class', of(group(), { ...good, name: 'data' }), '[0].existingVolumeGroup', /data is the volume group of device class data/],
    ['that is destroyed', of(group(), { ...good, deviceSelector: { paths: ['/dev/x'], wipeVolumeGroups: ['data'] } }), '[1].deviceSelector.wipeVolumeGroups[0]', /Device class a uses the volume group data/],
    ['adopted and destroyed', of({ ...good, adopt: [{ node: 'a', volumeGroupUUID: 'U-1' }], deviceSelector: { paths: ['/dev/x'], wipeVolumeGroups: ['U-1'] } }), '[0].deviceSelector.wipeVolumeGroups[0]', /adopts the volume group U-1/],
    ['two of a node', of({ ...good, adopt: [{ node: 'a', volumeGroupUUID: 'U-1' }, { node: 'a', volumeGroupUUID: 'U-2' }] }), '[0].adopt[1]', /only one volume group of node a/],
    ['adopted without a node', of({ ...good, adopt: [{ node: '', volumeGroupUUID: 'U-1' }] }), '[0].adopt[0].node', /1 to 253 characters/],
  ])('is refused: %s', (_, c, field, text) => {
    expect(fields(c)).toContain(field);
    expect(messages(c).join(' ')).toMatch(text);
  });
  it('stays the volume group of its class', () => {
    const says = (before: DeviceClass, after: DeviceClass) => validateChange(of(before), of(after)).map((p) => `${p.field} ${inEnglish(p.message)}`).join(' ');
    expect(says(group(), { name: 'a', deviceSelector: { paths: ['/dev/x'] } })).toMatch(/\.existingVolumeGroup existingVolumeGroup cannot be added to or removed from/);
    expect(says(group(), group({ existingVolumeGroup: 'other' }))).toMatch(/The volume group is immutable/);
    expect(says(group(), group({ existingVolumeGroupConfig: { spareGiB: 1 } }))).toBe('');
  });
});

it('a disk name may be in two classes on different nodes', () => {
  const on = (v: string) => ({ nodeSelectorTerms: [{ matchExpressions: [{ key: 'k', operator: 'In' as const, values: [v] }] }] });
  expect(fields(of({ ...good, nodeSelector: on('a') }, { name: 'b', nodeSelector: on('b'), deviceSelector: { paths: ['/dev/sdb'] } }))).toEqual([]);
});

describe('a change may not', () => {
  const before = of(good);
  it.each<[string, LVMCluster, string]>([
    ['remove the last class', of(), ''], ['remove the default', of({ name: 'b' }), ''], ['change the file system', of({ ...good, fstype: 'ext4' }), '[0].fstype'],
    ['take the pool away', of({ name: 'vg1', default: true }), '[0].thinPoolConfig'], ['rename the pool', of(pool({ name: 'q' })), '[0].thinPoolConfig.name'], ['resize the share', of(pool({ sizePercent: 80 })), '[0].thinPoolConfig.sizePercent'],
    ['change the chunk', of(pool({ chunkSize: '64Ki' })), '[0].thinPoolConfig.chunkSize'], ['add redundancy', of({ ...good, raidConfig: { type: 'raid1' } }), '[0].raidConfig'],
    ['stripe the pool', of(pool({ stripes: 2 })), '[0].thinPoolConfig.stripes'],
    ['change the reclaim policy', of({ ...good, storageClassOptions: { reclaimPolicy: 'Retain' } }), '[0].storageClassOptions.reclaimPolicy'],
    ['change the binding mode', of({ ...good, storageClassOptions: { volumeBindingMode: 'Immediate' } }), '[0].storageClassOptions.volumeBindingMode'],
  ])('%s', (_, after, field) => expect(validateChange(before, after).map((p) => p.field.replace('spec.storage.deviceClasses', ''))).toContain(field));
  it('change the parameters of the StorageClass, in whatever order they are', () => {
    const has = (additionalParameters: Record<string, string>) => of({ ...good, storageClassOptions: { additionalParameters } });
    expect(validateChange(has({ a: '1', b: '2' }), has({ b: '2', a: '1' }))).toEqual([]);
    expect(validateChange(has({ a: '1' }), has({ a: '2' })).map((p) => p.field)).toEqual(['spec.storage.deviceClasses[0].storageClassOptions.additionalParameters']);
  });
  it('shrink the metadata', () => {
    const was = of(pool({ metadataSizeCalculationPolicy: 'Static', metadataSize: '1Gi' }));
    expect(validateChange(was, of(pool({ metadataSizeCalculationPolicy: 'Static', metadataSize: '512Mi' })))).toHaveLength(1);
    expect(validateChange(was, of(pool({ metadataSizeCalculationPolicy: 'Static', metadataSize: '2Gi' })))).toEqual([]);
  });
  it('but what defaults say is no change', () => expect(validateChange(before, of({ ...good, fstype: 'xfs', storageClassOptions: { reclaimPolicy: 'Delete' } }))).toEqual([]));
  it('and other things may change', () => expect(validateChange(before, of({ ...pool({ sizePercent: 90, overprovisionRatio: 3 }), deviceSelector: { paths: ['/dev/sdc'] } }, { name: 'new', deviceSelector: { paths: ['/dev/x'] } }))).toEqual([]));
});
