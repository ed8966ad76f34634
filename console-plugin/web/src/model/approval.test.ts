import { describe, expect, it } from 'vitest';
import type { Device, DeviceApproval, DeviceClass, Node, NodeStatus } from '../api/types';
import { canBeApproved, consequencesOfApproval, destroys, effectOf, effectOfRevocation, isSameApproval, keyOf, namesIn, newApproval, sortedApprovals, standingOf, stateOf, waitingOf, waitsFor, type ApprovalState, type Effect, type Waiting } from './approval';
import { inEnglish } from './message';

const print = (n: number): string => `v1-${String(n).padStart(2, '0')}23456789abcdef0123456789abcdef`;
const dev = (n: string, more: Partial<Device> = {}): Device => ({ name: `/dev/sd${n}`, id: `wwn:${n}`, byID: [`wwn-${n}`], state: 'Available', fingerprint: print(1), eligibility: [{ deviceClass: 'vg1', eligible: false, reasons: ['AwaitingApproval'] }], ...more });
const changed = [{ deviceClass: 'vg1', eligible: false, reasons: ['ChangedSinceReview'] }];
const content: Partial<Device> = { state: 'Excluded', signatures: [{ type: 'xfs' }], reasons: [{ code: 'HasSignature' }] };
const status = (name: string, ...devices: Device[]): NodeStatus => ({ metadata: { name }, status: { devices, nodeStatus: [{ name: 'vg1' }] } });
const waiting = (more: Partial<Device> = {}, reason: Waiting['reason'] = 'AwaitingApproval'): Waiting => ({ node: 'a', deviceClass: 'vg1', device: dev('b', more), reason });

describe('devices that wait', () => {
  it('are those with one of the two reasons for a device class: those that have changed come first', () => {
    const other = [{ deviceClass: 'vg1', eligible: false, reasons: ['NotSelected'] }, { deviceClass: 'vg2', eligible: false, reasons: ['AwaitingApproval'] }];
    const statuses = [status('b', dev('b')), status('a', dev('c'), dev('d', { eligibility: changed }), dev('e', { eligibility: other }), dev('f', { eligibility: [] }), dev('g', { eligibility: undefined }))];
    const names = (list: Waiting[]) => list.map((w) => `${w.node}${w.device.name}:${w.deviceClass}`);
    expect(names(waitingOf(statuses))).toEqual(['a/dev/sdd:vg1', 'a/dev/sdc:vg1', 'a/dev/sde:vg2', 'b/dev/sdb:vg1']);
    expect(names(waitingOf(statuses, 'vg2'))).toEqual(['a/dev/sde:vg2']);
    expect(waitingOf([{ metadata: { name: 'x' } }])).toEqual([]);
    expect(waitsFor(dev('e', { eligibility: other }))).toEqual(['vg2']);
  });
  it('have the words of the agent, by any name of the device', () => {
    const s = status('a', dev('b', { eligibility: changed }));
    const group = s.status?.nodeStatus?.[0];
    if (group) group.excluded = [{ name: '/dev/disk/by-id/wwn-b', reasons: ['HasSignature: carries xfs', 'ChangedSinceReview: has changed since ann approved it'] }];
    expect(waitingOf([s])[0]?.message).toBe('has changed since ann approved it');
    expect(waitingOf([status('a', dev('b'))])[0]?.message).toBeUndefined();
  });
  it('cannot be approved without a fingerprint', () => expect([waiting(), waiting({ fingerprint: undefined }), waiting({ fingerprint: '' })].map(canBeApproved)).toEqual([true, false, false]));
  it('keep their key while the name of the kernel changes', () => {
    expect(keyOf(waiting({ name: '/dev/sdz' }))).toBe(keyOf(waiting()));
    expect(keyOf(waiting({ id: undefined }))).toBe('a vg1 /dev/disk/by-id/wwn-b');
  });
  it('are named in a sentence, not all of many', () => expect(namesIn(Array.from({ length: 6 }, () => waiting()))).toBe(`${Array.from({ length: 5 }, () => '/dev/sdb (a)').join(', ')} …`));
  it.each<[string, NodeStatus[], string]>([
    ['as it was', [status('a', dev('b'))], 'waits'], ['with another name of the kernel', [status('a', dev('b', { name: '/dev/sdz' }))], 'waits'], ['with another fingerprint', [status('a', dev('b', { fingerprint: print(2) }))], 'changed'],
    ['without one', [status('a', dev('b', { fingerprint: undefined }))], 'changed'], ['approved by somebody else', [status('a', dev('b', { eligibility: [{ deviceClass: 'vg1', eligible: true }] }))], 'settled'],
    ['another device has its name', [status('a', dev('c', { name: '/dev/sdb' }))], 'gone'], ['of another node', [status('b', dev('b'))], 'gone'], ['of a node without a status', [], 'gone'],
  ])('is a device that is %s', (_, statuses, standing) => expect(standingOf(waiting(), statuses)).toBe(standing));
});

describe('an approval', () => {
  it('is written as by the CLI', () =>
    expect(newApproval({ ...waiting(), node: 'worker-1' }, 'ns', 'ann')).toEqual({
      apiVersion: 'lvm.topolvm.io/v1alpha1', kind: 'LVMDeviceApproval', metadata: { namespace: 'ns', name: 'worker-1-vg1-0123456789ab' },
      spec: { nodeName: 'worker-1', deviceClassName: 'vg1', device: '/dev/disk/by-id/wwn-b', fingerprint: print(1), approvedBy: 'ann' },
    }));
  it('has a valid name for a node with a long one', () => expect(newApproval({ ...waiting(), node: `${'n'.repeat(148)}.-${'x'.repeat(60)}` }, 'ns', 'ann').metadata.name).toBe(`${'n'.repeat(148)}-vg1-0123456789ab`));
  it('is the same whoever gave it', () => {
    const [a, b] = [newApproval(waiting(), 'ns', 'ann'), newApproval(waiting(), 'ns', 'bob')];
    expect(isSameApproval(a, b)).toBe(true);
    for (const more of [{ nodeName: 'b' }, { deviceClassName: 'vg2' }, { fingerprint: print(2) }]) expect(isSameApproval(a, { ...b, spec: { ...b.spec, ...more } })).toBe(false);
  });
  const used = dev('b', { state: 'InUse', volumeGroup: 'vg1', fingerprint: print(9) });
  it.each<[string, NodeStatus[], ApprovalState]>([
    ['in the volume group', [status('a', used)], 'used'], ['as it was approved', [status('a', dev('b', { eligibility: [{ deviceClass: 'vg1', eligible: true }] }))], 'valid'],
    ['as it was approved, by another name', [status('a', dev('c'))], 'valid'], ['with other content', [status('a', dev('b', { fingerprint: print(2) }))], 'changed'],
    ['in a volume group that no device class has', [status('a', { ...used, volumeGroup: 'data' })], 'changed'], ['not listed', [status('a', dev('c', { fingerprint: print(2) }))], 'absent'],
    ['missing', [status('a', dev('b', { state: 'Missing' }))], 'absent'], ['of a node without a status', [status('b', used)], 'unknown'], ['of a node that lists no devices', [{ metadata: { name: 'a' } }], 'unknown'],
  ])('of a device that is %s', (_, statuses, state) => {
    expect(stateOf(newApproval(waiting(), 'ns', 'ann'), statuses)).toBe(state);
    expect(inEnglish(effectOfRevocation[state])).not.toBe('');
  });
  it('is listed with the newest first', () => {
    const at = (name: string, creationTimestamp?: string): DeviceApproval => ({ ...newApproval(waiting(), 'ns', 'ann'), metadata: { name, creationTimestamp } });
    expect(sortedApprovals([at('c'), at('a', '2026-01-01T00:00:00Z'), at('b', '2026-02-01T00:00:00Z'), at('d', '2026-01-01T00:00:00Z')]).map((a) => a.metadata.name)).toEqual(['b', 'a', 'd', 'c']);
  });
});

describe('what an approval leads to', () => {
  const node = (name: string): Node => ({ metadata: { name, labels: { 'kubernetes.io/hostname': name } } });
  const named = (more: object): DeviceClass => ({ name: 'vg1', deviceSelector: { paths: ['/dev/disk/by-id//wwn-b'], ...more } });
  const grouped: Partial<Device> = { state: 'InUse', volumeGroup: 'data', volumeGroupUUID: 'u-1', pvUUID: 'p', reasons: [{ code: 'InVolumeGroup' }] };
  const elsewhere = { nodeSelectorTerms: [{ matchExpressions: [{ key: 'kubernetes.io/hostname', operator: 'In', values: ['b'] }] }] };
  it.each<[string, Waiting, DeviceClass | undefined, Effect]>([
    ['a blank device', waiting(), undefined, 'use'], ['content that only waits: the agent has checked the consent', waiting(content), undefined, 'wipe'], ['a volume group that only waits', waiting(grouped), undefined, 'wipe'],
    ['a blank device that has changed', waiting({}, 'ChangedSinceReview'), undefined, 'use'], ['content that has changed, with consent', waiting(content, 'ChangedSinceReview'), named({ forceWipeDevicesAndDestroyAllData: true }), 'wipe'],
    ['content that has changed, without consent', waiting(content, 'ChangedSinceReview'), named({}), 'kept'], ['consent for another device', waiting(content, 'ChangedSinceReview'), { name: 'vg1', deviceSelector: { paths: ['/dev/x'], forceWipeDevicesAndDestroyAllData: true } }, 'kept'],
    ['consent for another node', waiting(content, 'ChangedSinceReview'), { name: 'vg1', deviceSelectors: [{ paths: ['/dev/sdb'], forceWipeDevicesAndDestroyAllData: true, nodeSelector: elsewhere }] }, 'kept'],
    ['consent for its volume group', waiting(grouped, 'ChangedSinceReview'), named({ wipeVolumeGroups: ['u-1'] }), 'wipe'], ['consent for another volume group', waiting(grouped, 'ChangedSinceReview'), named({ wipeVolumeGroups: ['u-2'] }), 'kept'],
    ['a class that was not read', waiting(content, 'ChangedSinceReview'), undefined, 'unknown'], ['a device that was mounted', waiting({ state: 'InUse', reasons: [{ code: 'Mounted' }] }, 'ChangedSinceReview'), named({}), 'blocked'],
  ])('for %s', (_, w, c, effect) => expect(effectOf(w, c, node('a'))).toBe(effect));
  it('is unknown without the node', () => expect(effectOf(waiting(content, 'ChangedSinceReview'), named({ forceWipeDevicesAndDestroyAllData: true }), undefined)).toBe('unknown'));
  it('is said with the worst first, and destruction is told from the rest', () => {
    const [wiped, kept] = [waiting(content), { ...waiting({ name: '/dev/sdc', id: 'wwn:c' }, 'ChangedSinceReview'), deviceClass: 'vg2' }];
    const effect = (w: Waiting): Effect => (w === wiped ? 'wipe' : 'kept');
    expect(consequencesOfApproval([wiped, kept], effect).map((x) => [x.level, inEnglish(x.text)])).toEqual([
      ['danger', expect.stringContaining('The content of 1 devices is destroyed')], ['warning', expect.stringMatching(/does not allow to be wiped.*\/dev\/sdc \(a\)/)],
      ['warning', expect.stringContaining('were approved before')], ['info', expect.stringContaining('device class vg1, vg2')],
    ]);
    expect([destroys([wiped], effect), destroys([kept], effect), destroys([kept], () => 'unknown')]).toEqual([true, false, true]);
  });
});
