import { describe, expect, it } from 'vitest';
import type { Device, LVMCluster, Node, NodeSelector, NodeStatus } from '../api/types';
import { newClass, newCluster, provisioningOf, withClass, withClasses, withField, withProvisioning } from './cluster';
import { contentOf, foundBy, hasProperties, labelsOf, lookupOf, observed, stablePath, verdictOf } from './devices';
import { deviceRows, headlineOf, healthOf, ownEvents, total, usageOf } from './health';
import { inEnglish, msg } from './message';
import { intolerable, isReady, rolesOf, selectorOf, selects } from './nodes';
import { progressOf } from './progress';
import { bytesOf, formatBytes } from './quantity';

describe('quantities', () => {
  it.each([
    ['8Gi', 8 * 2 ** 30], ['1.5Ki', 1536], ['10', 10], [7, 7], ['1e3', 1000], ['2E', 2e18], ['1k', 1000], ['500m', 1], ['.5Mi', 2 ** 19],
  ])('%s is %d bytes', (q, n) => expect(bytesOf(q)).toBe(n));
  it.each(['', 'x', '1Gb', '1 Gi x', '--1', 'Gi'])('%j is none', (q) => expect(bytesOf(q)).toBeUndefined());
  it.each<[number | undefined, string]>([[undefined, '–'], [0, '0 B'], [1023, '1,023 B'], [1024, '1 KiB'], [1.99 * 2 ** 30, '1.9 GiB'], [199.9 * 2 ** 30, '199 GiB'], [2 ** 60, '1 EiB']])(
    '%s is shown as %s', (n, text) => expect(formatBytes(n, 'en')).toBe(text),
  );
  it('never shows more than there is', () => expect(formatBytes(2 ** 40 - 1, 'en')).toBe('1,023 GiB'));
});

const node = (name: string, labels: Record<string, string> = {}, more: Partial<Node> = {}): Node => ({
  metadata: { name, labels: { 'kubernetes.io/hostname': name, ...labels } }, status: { conditions: [{ type: 'Ready', status: 'True' }] }, ...more,
});
const where = (key: string, operator: 'In' | 'NotIn' | 'Exists' | 'DoesNotExist' | 'Gt' | 'Lt', values?: string[]): NodeSelector => ({ nodeSelectorTerms: [{ matchExpressions: [{ key, operator, values }] }] });

describe('node selectors', () => {
  const n = node('a', { disk: 'fast', n: '5', 'node-role.kubernetes.io/worker': '' });
  it.each<[string, NodeSelector | undefined, boolean]>([
    ['none', undefined, true], ['no term', { nodeSelectorTerms: [] }, false], ['an empty term', { nodeSelectorTerms: [{}] }, false],
    ['In', where('disk', 'In', ['fast', 'slow']), true], ['In, another', where('disk', 'In', ['slow']), false], ['In, absent', where('x', 'In', ['']), false],
    ['NotIn', where('disk', 'NotIn', ['slow']), true], ['NotIn, absent', where('x', 'NotIn', ['y']), true], ['Exists', where('disk', 'Exists'), true],
    ['Exists, absent', where('x', 'Exists'), false], ['DoesNotExist', where('x', 'DoesNotExist'), true], ['Gt', where('n', 'Gt', ['4']), true], ['Gt, equal', where('n', 'Gt', ['5']), false],
    ['Lt', where('n', 'Lt', ['6']), true], ['Lt of a text', where('disk', 'Lt', ['6']), false],
    ['a field', { nodeSelectorTerms: [{ matchFields: [{ key: 'metadata.name', operator: 'In', values: ['a'] }] }] }, true],
    ['another field', { nodeSelectorTerms: [{ matchFields: [{ key: 'metadata.uid', operator: 'Exists' }] }] }, false],
    ['one of two terms', { nodeSelectorTerms: [...where('x', 'Exists').nodeSelectorTerms, ...where('disk', 'Exists').nodeSelectorTerms] }, true],
  ])('%s', (_, s, want) => expect(selects(s, n)).toBe(want));
  it('a selector of nodes selects them and no others', () => {
    const s = selectorOf([node('a'), node('c')]);
    expect(['a', 'b', 'c'].filter((x) => selects(s, node(x)))).toEqual(['a', 'c']);
  });
  it('a node without a hostname cannot be selected by it', () => expect(selectorOf([{ metadata: { name: 'x' } }])).toBeUndefined());
  it('taints keep volume groups away unless they are tolerated or Kubernetes’ own', () => {
    const tainted = node('a', {}, { spec: { taints: [{ key: 'gpu', value: 'yes', effect: 'NoSchedule' }, { key: 'node.kubernetes.io/not-ready', effect: 'NoExecute' }, { key: 'soft', effect: 'PreferNoSchedule' }] } });
    expect(intolerable(tainted).map((t) => t.key)).toEqual(['gpu']);
    expect(intolerable(tainted, [{ key: 'gpu', operator: 'Equal', value: 'yes' }])).toEqual([]);
    expect(intolerable(tainted, [{ operator: 'Exists' }])).toEqual([]);
    expect(intolerable(tainted, [{ key: 'gpu', value: 'no' }])).toHaveLength(1);
  });
  it('roles and readiness', () => {
    expect(rolesOf(n)).toEqual(['worker']);
    expect([isReady(n), isReady({ metadata: {} })]).toEqual([true, false]);
  });
});

const dev = (more: Partial<Device> = {}): Device => ({ name: '/dev/sdb', state: 'Available', size: '100Gi', ...more });
const reasons = (...codes: string[]) => codes.map((code) => ({ code, message: `${code} it is` }));

describe('devices', () => {
  it.each<[Partial<Device>, string]>([
    [{}, 'usable'], [{ state: 'Failing' }, 'blocked'], [{ state: 'Unknown' }, 'blocked'], [{ state: 'Missing' }, 'blocked'], [{ state: 'Excluded' }, 'blocked'],
    [{ state: 'Excluded', reasons: reasons('HasSignature') }, 'wipe'], [{ state: 'Excluded', reasons: reasons('HasSignature', 'NoStablePath') }, 'wipe'],
    [{ state: 'InUse', reasons: reasons('HasSignature', 'Mounted') }, 'blocked'], [{ state: 'InUse', reasons: reasons('HasPartitions', 'IsOSDisk') }, 'blocked'],
    [{ state: 'InUse', reasons: reasons('RAIDMember', 'HasHolders') }, 'blocked'], [{ state: 'Excluded', reasons: reasons('Removable') }, 'named'],
    [{ state: 'Excluded', reasons: reasons('SomethingNew') }, 'blocked'], [{ state: 'InUse', volumeGroup: 'vg1' }, 'ours'], [{ state: 'InUse', volumeGroup: 'other', reasons: reasons('InVolumeGroup') }, 'blocked'],
  ])('%j is %s', (d, want) => expect(verdictOf(dev(d), new Set(['vg1']))).toBe(want));
  it.each<[Partial<Device>, string]>([
    [{ byID: ['ata-X', 'wwn-1'] }, '/dev/disk/by-id/wwn-1'], [{ byID: ['scsi-SX', 'nvme-eui.1'] }, '/dev/disk/by-id/nvme-eui.1'], [{ byID: ['zzz'] }, '/dev/disk/by-id/zzz'],
    [{ byPath: ['pci-1'] }, '/dev/disk/by-path/pci-1'], [{}, '/dev/sdb'],
  ])('%j is written as %s', (d, want) => expect(stablePath(dev(d))).toBe(want));
  it('is found by all its names', () => {
    const d = dev({ id: 'wwn:1', kernelName: '/dev/dm-1', pvUUID: 'u', byID: ['a'], byPath: ['b'] });
    const lookup = lookupOf([d]);
    for (const name of ['/dev/sdb', '//dev//sdb', 'wwn:1', '/dev/dm-1', 'u', '/dev/disk/by-id/a', '/dev/disk/by-path/b']) expect(lookup(name.replace('//dev', '/dev'))).toBe(d);
    expect(lookup('/dev/sdc')).toBeUndefined();
  });
  it.each<[Parameters<typeof hasProperties>[0], boolean]>([
    [{}, true], [{ minSize: '100Gi' }, true], [{ minSize: '101Gi' }, false], [{ maxSize: '100Gi' }, true], [{ maxSize: '99Gi' }, false], [{ rotational: false }, true], [{ rotational: true }, false],
    [{ models: ['samsung*'] }, true], [{ models: ['samsung'] }, false], [{ vendors: ['ATA'] }, true], [{ serials: ['9'] }, false], [{ transports: ['NVMe'] }, true], [{ transports: ['sata'] }, false],
    [{ labels: { tier: 'fast' } }, true], [{ labels: { tier: 'fast', rack: '' } }, true], [{ labels: { tier: 'slow' } }, false], [{ labels: { room: '' } }, false], [{ labels: { tier: 'fast' }, minSize: '101Gi' }, false],
  ])('%j', (s, want) => expect(hasProperties(s, dev({ model: 'Samsung SSD', vendor: 'ata', serial: '1', transport: 'nvme', labels: { tier: 'fast', rack: '' } }))).toBe(want));
  it('has labels only if somebody has set them', () => {
    expect(hasProperties({ labels: { tier: 'fast' } }, dev())).toBe(false);
    expect([labelsOf(dev({ labels: { tier: 'fast', rack: '' } })), labelsOf(dev())]).toEqual(['rack=, tier=fast', '']);
  });
  it('a rule takes what is available, and removable disks only if it says so', () => {
    const stick = dev({ state: 'Excluded', reasons: reasons('Removable') });
    expect([foundBy({}, dev()), foundBy(undefined, dev()), foundBy({}, stick), foundBy({ removable: true }, stick), foundBy({}, dev({ state: 'InUse' }))]).toEqual([true, true, false, true, false]);
  });
  it('says what is on a disk', () => {
    expect(contentOf(dev({ signatures: [{ type: 'xfs', label: 'x' }, { type: 'gpt' }], partitions: ['/dev/sdb1'] }), inEnglish)).toBe('xfs “x”; gpt; /dev/sdb1');
    expect(contentOf(dev({ reasons: reasons('LUKSLocked') }), inEnglish)).toBe('LUKSLocked it is');
  });
  it('a list that nobody has looked at is not known', () => {
    expect(observed(undefined).ok).toBe(false);
    expect(observed({ metadata: {}, status: { conditions: [{ type: 'DevicesObserved', status: 'False', message: 'no' }] } })).toEqual({ ok: false, message: 'no' });
    expect(observed({ metadata: {}, status: { conditions: [{ type: 'DevicesObserved', status: 'True' }] } }).ok).toBe(true);
  });
});

const cluster = (status: LVMCluster['status'], generation = 1): LVMCluster => ({ ...newCluster('ns'), metadata: { name: 'c', generation }, status });

describe('health', () => {
  it.each<[LVMCluster, string, string]>([
    [cluster(undefined), 'info', 'not processed'], [cluster({ state: 'Ready', observedGeneration: 1 }, 2), 'info', 'not processed'],
    [cluster({ state: 'Ready', observedGeneration: 1, volumeGroups: '2/2' }), 'success', 'Healthy: 2/2'], [cluster({ state: 'Ready', observedGeneration: 1, volumeGroups: '0/0' }), 'info', 'list their devices'],
    [cluster({ state: 'Progressing', observedGeneration: 1 }), 'info', 'being set up'], [cluster({ state: 'Degraded', observedGeneration: 1 }), 'warning', 'Degraded'],
    [cluster({ state: 'Failed', observedGeneration: 1 }), 'danger', 'setup failed'], [cluster({ state: 'Unknown', observedGeneration: 1 }), 'warning', 'unknown'],
    [{ ...cluster({ state: 'Ready' }), metadata: { deletionTimestamp: 'x' } }, 'warning', 'being deleted'],
  ])('%#', (c, level, text) => {
    const h = healthOf(c);
    expect([h.level, inEnglish(h.sentence)]).toEqual([level, expect.stringContaining(text)]);
  });
  it.each<[LVMCluster['status'], string[], string, string]>([
    [{ state: 'Ready', observedGeneration: 1, volumeGroups: '2/2' }, [], 'success', 'Healthy'],
    [{ state: 'Ready', observedGeneration: 1, volumeGroups: '2/2' }, ['info'], 'success', 'Healthy'],
    [{ state: 'Ready', observedGeneration: 1, volumeGroups: '2/2' }, ['info', 'warning', 'warning'], 'warning', '2 warning alerts'],
    [{ state: 'Ready', observedGeneration: 1, volumeGroups: '2/2' }, ['warning', 'critical'], 'danger', '1 critical alerts'],
    [{ state: 'Progressing', observedGeneration: 1 }, ['critical'], 'danger', 'critical alerts'],
    [{ state: 'Degraded', observedGeneration: 1 }, ['warning'], 'warning', 'Degraded'],
    [{ state: 'Degraded', observedGeneration: 1 }, ['critical'], 'danger', 'critical alerts'],
    [{ state: 'Failed', observedGeneration: 1 }, ['critical'], 'danger', 'setup failed'],
  ])('is not well while alerts fire %#', (status, severities, level, text) => {
    const h = headlineOf(cluster(status), severities.map((severity) => ({ name: 'x', severity, labels: {} })));
    expect([h.level, inEnglish(h.sentence)]).toEqual([level, expect.stringContaining(text)]);
  });
  it('has the words of the operator', () =>
    expect(healthOf(cluster({ state: 'Failed', observedGeneration: 1, conditions: [{ type: 'Ready', status: 'False', message: 'a\nb' }] })).details).toEqual(['a', 'b']));
  const status = (name: string): NodeStatus => ({
    metadata: { name },
    status: {
      devices: [dev(), dev({ name: '/dev/sdc', state: 'Failing' })],
      nodeStatus: [{ name: 'thin', thinPool: { name: 'p', size: '100', metadataSize: '1', dataPercent: 25, metadataPercent: 3 } }, { name: 'thick', size: '100', free: '40' }, { name: 'new' }],
    },
  });
  it('what is used and free, by class and node', () => {
    const usage = usageOf([status('a')], new Map([['a', { metadata: { name: 'a' } }]]));
    expect(usage.map((u) => [u.deviceClass, u.used, u.free, u.stale])).toEqual([['thin', 25, 75, true], ['thick', 60, 40, true], ['new', undefined, undefined, true]]);
  });
  it('what is not known is not counted as nothing', () => expect([total([undefined]), total([1, undefined, 2])]).toEqual([undefined, 3]));
  it('devices that need attention come first', () => expect(deviceRows([status('b'), status('a')]).map((r) => r.node + r.device.name)).toEqual(['a/dev/sdc', 'b/dev/sdc', 'a/dev/sdb', 'b/dev/sdb']));
  it('shows our events, the newest first', () => {
    const e = (kind: string, lastTimestamp: string) => ({ metadata: {}, involvedObject: { kind }, lastTimestamp });
    expect(ownEvents([e('Pod', '9'), e('LVMCluster', '1'), e('LVMVolumeGroup', '2')], 5).map((x) => x.lastTimestamp)).toEqual(['2', '1']);
  });
});

describe('progress', () => {
  const c: LVMCluster = withClasses(newCluster('ns'), [{ name: 'vg1', nodeSelector: where('disk', 'Exists') }]);
  const nodes = ['a', 'b', 'c', 'd', 'e'].map((n) => node(n, { disk: '' }));
  const told = (name: string, ...groups: NonNullable<NonNullable<NodeStatus['status']>['nodeStatus']>): NodeStatus => ({ metadata: { name }, status: { nodeStatus: groups } });
  it('tells how far each node is', () => {
    const rows = progressOf(c, [...nodes, node('other')], [told('b'), told('c', { name: 'vg1', status: 'Failed', reason: 'no disk' }), told('d', { name: 'vg1', status: 'Ready', size: '5Gi' }), told('e', { name: 'vg1', status: 'Progressing' })]);
    expect(rows.map((r) => [r.node, r.state, inEnglish(r.text)])).toEqual([
      ['a', 'Progressing', 'The node agent is starting.'], ['b', 'Progressing', 'The node agent has not started with this device class yet.'], ['c', 'Failed', 'no disk'],
      ['d', 'Ready', 'Volumes can be created.'], ['e', 'Progressing', 'The volume group is being created.'],
    ]);
  });
  it('a node that does not answer is not in progress', () => expect(progressOf(c, [{ metadata: { name: 'x', labels: { disk: '' } } }], [])[0]?.state).toBe('Unknown'));
});

describe('changes', () => {
  it('a new class has a free name, and is the default if none is', () => {
    expect(newClass([])).toMatchObject({ name: 'vg1', default: true });
    expect(newClass([{ name: 'vg2', default: true }])).toMatchObject({ name: 'vg3' });
    expect(newClass([{ name: 'vg2', default: true }]).default).toBeUndefined();
  });
  it('keeps what it does not know', () => {
    const c = { ...newCluster('ns'), spec: { extra: 1, storage: { more: 2, deviceClasses: [{ name: 'a', own: 3 }] } } } as unknown as LVMCluster;
    expect(withClass(c, 0, withField(c.spec?.storage?.deviceClasses?.[0] as never, 'default' as never, true as never))).toMatchObject({ spec: { extra: 1, storage: { more: 2, deviceClasses: [{ name: 'a', own: 3, default: true }] } } });
  });
  it('kinds of volumes exclude each other', () => {
    const thin = newClass([]);
    const raid = withProvisioning(thin, 'raid5');
    expect([provisioningOf(thin), provisioningOf(raid), provisioningOf(withProvisioning(raid, 'thick')), provisioningOf(withProvisioning(raid, 'thin'))]).toEqual(['thin', 'raid5', 'thick', 'thin']);
    expect(raid.thinPoolConfig).toBeUndefined();
    expect(withProvisioning({ ...raid, raidConfig: { type: 'raid5', stripes: 4 } }, 'raid5').raidConfig?.stripes).toBe(4);
  });
  it('a kind of volumes removes settings that it excludes', () => {
    const thick = withProvisioning({ ...newClass([]), trim: { schedule: 'Daily', poolUsageThresholdPercent: 80 } }, 'thick');
    expect(thick.trim).toEqual({ schedule: 'Daily' });
    expect(withProvisioning({ ...thick, eraseOnDelete: 'Zero' }, 'thin').eraseOnDelete).toBeUndefined();
    expect(withProvisioning({ ...thick, thickConfig: { stripes: 2 } }, 'thin').thickConfig).toBeUndefined();
    expect(withProvisioning({ ...thick, thickConfig: { stripes: 2 } }, 'thick').thickConfig).toEqual({ stripes: 2 });
    expect(withProvisioning({ ...thick, eraseOnDelete: 'Discard' }, 'thin').eraseOnDelete).toBe('Discard');
  });
  it('a message has its values', () => expect(inEnglish(msg('{{a}} and {{b}}', { a: 1 }))).toBe('1 and {{b}}'));
});
