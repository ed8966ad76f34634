import { describe, expect, it } from 'vitest';
import type { DeviceClass, LogicalVolume, PhysicalVolumeStatus } from '../api/types';
import { changesOf, type Member } from './members';
import { inEnglish } from './message';
import { consequencesForVolume, consequencesOfResumption, consequencesOfSuspension, detailsOf, limited, recordOf, requestText, suspendedBy, suspensionOf, volumesBeside, withSuspension } from './suspension';
import { titleOf, volumesOf } from './volumes';

const lv = (name: string, annotations?: Record<string, string>, spec: Partial<LogicalVolume['spec']> = {}): LogicalVolume => ({
  metadata: { name, ...(annotations ? { annotations } : {}) }, spec: { name, nodeName: 'a', size: '1Gi', deviceClass: 'vg1', ...spec }, status: { volumeID: name, currentSize: '1Gi' },
});
const own = (text: string) => ({ 'lvm.topolvm.io/suspended': text });
const device = { 'lvm.topolvm.io/suspended-devices': '/dev/sdb, /dev/sdc' };

describe('the suspension of a volume', () => {
  it.each<[string, Record<string, string> | undefined, unknown]>([
    ['nothing', undefined, undefined], ['no device', { 'lvm.topolvm.io/suspended-devices': '' }, undefined], ['who, when and why', own('by ann at 2026-01-02T03:04:05Z: \n backup  now'), { own: 'by ann at 2026-01-02T03:04:05Z: backup now' }],
    // Any value suspends it.
    ['an empty text', own(''), { own: '' }], ['false', own('false'), { own: 'false' }], ['devices', device, { devices: '/dev/sdb, /dev/sdc' }], ['both', { ...own('x'), ...device }, { own: 'x', devices: '/dev/sdb, /dev/sdc' }],
  ])('is read from annotations: %s', (_, annotations, want) => expect(suspensionOf(lv('v', annotations))).toEqual(want));

  const now = new Date('2026-01-02T03:04:05.678Z');
  it.each([['backup', 'by ann at 2026-01-02T03:04:05Z: backup'], ['', 'by ann at 2026-01-02T03:04:05Z'], [' two\n lines ', 'by ann at 2026-01-02T03:04:05Z: two lines']])('is written as kubectl lvms writes it, with the reason %j', (reason, text) =>
    expect(suspendedBy('ann', now, reason)).toBe(text),
  );
  it.each(['ann', 'system:serviceaccount:ns:admin', 'ann at work'])('of the user %s is read as it was written', (user) => {
    expect(recordOf(suspendedBy(user, now, 'why: so'))).toEqual({ user, time: new Date('2026-01-02T03:04:05Z'), reason: 'why: so' });
    expect(recordOf(suspendedBy(user, now, ''))?.reason).toBe('');
  });
  it.each(['false', '', 'by ann', 'by ann at 2026-99-99T03:04:05Z', 'by ann at noon: x'])('that somebody else wrote is no record: %j', (text) => expect(recordOf(text)).toBeUndefined());
  it.each<[Record<string, string>, string[]]>([
    [own('by ann at 2026-01-02T03:04:05Z: backup'), ['Suspended by ann on 2026-01-02', 'Reason: backup']], [own('by ann at 2026-01-02T03:04:05Z'), ['Suspended by ann on 2026-01-02']],
    [own('maintenance'), ['maintenance']], [{ ...own(''), ...device }, ['Suspended by an unknown user', 'Suspended device with data of the volume: /dev/sdb, /dev/sdc']],
  ])('has details: %j', (annotations, want) => expect(detailsOf(suspensionOf(lv('v', annotations)) ?? {}, (time) => time.toISOString().slice(0, 10)).map(inEnglish)).toEqual(want));
  it('comes with what it leads to', () => {
    expect(consequencesForVolume(true, undefined).map((x) => inEnglish(x.text)).join()).toMatch(/New Pods do not get the volume.*Pods that run keep the volume/);
    expect(consequencesForVolume(false, { own: 'x' }).map((x) => x.level)).toEqual(['info']);
    expect(consequencesForVolume(false, { own: 'x', devices: '/dev/sdb' }).map((x) => `${x.level}: ${inEnglish(x.text)}`)).toEqual(['warning: The volume has data on the suspended device /dev/sdb. New Pods do not get it until the device is resumed too.']);
  });
  it('puts a volume before others', () => expect(volumesOf([lv('a'), lv('b', own('x'))], []).map((v) => [v.name, v.suspension?.own])).toEqual([['b', 'x'], ['a', undefined]]));
});

const pv = (n: string, more: Partial<PhysicalVolumeStatus> = {}): PhysicalVolumeStatus => ({ uuid: `uuid-${n}`, name: `/dev/sd${n}`, size: '100Gi', free: '40Gi', state: 'Ready', ...more });
const member = (thin = false, ...others: PhysicalVolumeStatus[]): Member => ({ node: 'a', pv: pv('b'), group: { name: 'vg1', physicalVolumes: [pv('b'), ...others], ...(thin ? { thinPool: { name: 'p' } as never } : {}) } });
const c: DeviceClass = { name: 'vg1' };
const request = (action: 'Cordon' | 'Drain' | 'Remove', suspend?: boolean) => ({ node: 'a', device: 'uuid-b', action, ...(suspend === undefined ? {} : { suspend }) });
const other = { node: 'z', device: 'x', action: 'Drain' as const };

describe('the suspension of a device', () => {
  // As suspendOperations of cli/device/suspenddevice.go.
  it.each<[string, boolean, DeviceClass['deviceRequests'], DeviceClass['deviceRequests']]>([
    ['cordons it without a request', true, undefined, [request('Cordon', true)]], ['keeps the action', true, [other, request('Drain')], [other, request('Drain', true)]],
    ['names the UUID instead of a path', true, [{ ...request('Remove'), device: '/dev/sdb' }], [request('Remove', true)]],
    ['is there already', true, [request('Cordon', true)], [request('Cordon', true)]], ['ends with its request', false, [request('Cordon', true), other], [other]],
    ['ends, and leaves no empty list behind', false, [request('Cordon', true)], undefined], ['ends, and the drain goes on', false, [request('Drain', true)], [request('Drain')]],
    ['is not there', false, [request('Cordon')], [request('Cordon')]], ['is not there, nor a request', false, undefined, undefined],
  ])('%s', (_, suspend, before, after) => {
    const once = withSuspension({ ...c, ...(before ? { deviceRequests: before } : {}) }, member(), suspend);
    expect(once.deviceRequests).toEqual(after);
    expect(withSuspension(once, member(), suspend)).toEqual(once);
  });
  it('records who suspended it, until it is resumed, and another suspension changes nothing', () => {
    const once = withSuspension({ ...c, deviceRequests: [request('Drain')] }, member(), true, 'by ann');
    expect(once.deviceRequests).toEqual([{ ...request('Drain', true), suspendReason: 'by ann' }]);
    expect(withSuspension(once, member(), true, 'by bob')).toEqual(once);
    expect(withSuspension(once, member(), false).deviceRequests).toEqual([request('Drain')]);
  });
  it('is shown in what is written', () => {
    expect(changesOf({ ...c, deviceRequests: [request('Drain')] }, withSuspension({ ...c, deviceRequests: [request('Drain')] }, member(), true))).toEqual([
      '- deviceRequests: {node: a, device: uuid-b, action: Drain}', '+ deviceRequests: {node: a, device: uuid-b, action: Drain, suspend: true}',
    ]);
    expect([requestText(request('Drain', true)), requestText(request('Drain'))]).toEqual(['Drain, suspend: true', 'Drain']);
  });
  const words = (...args: Parameters<typeof consequencesOfSuspension>) => consequencesOfSuspension(...args).map((x) => `${x.level}: ${inEnglish(x.text)}`).join('\n');
  it('lists the volumes of the volume group', () => {
    expect(words(member(), ['shop/data'])).toMatch(/info: Volumes with data on the device \(1\): shop\/data\n.*No new data is placed on the device/);
    expect(words(member(true, pv('c')), ['shop/data', 'shop/logs'])).toMatch(/also has other devices. Volumes that may have data on this device \(2\): shop\/data, shop\/logs\ninfo: If the thin pool/);
    expect(words(member(), [])).toMatch(/The volume group has no volumes/);
    expect(words(member(), Array.from({ length: 12 }, (_, i) => `v${i}`))).toMatch(/\(12\): v0, .*v9, …/);
  });
  it('does not take volumes that are not known for none', () => {
    expect(words(member(), undefined)).not.toMatch(/no volumes/);
    expect(words(member(), undefined, 'forbidden')).toMatch(/^warning: The volumes on the device could not be read: forbidden/);
  });
  it('is about volumes of the node and the device class, or of the default one', () => {
    const claim = { 'lvm.topolvm.io/claim': 'shop/data' };
    const all = volumesOf([lv('v1', claim), lv('v2', {}, { deviceClass: '' }), lv('v3', {}, { nodeName: 'b' }), lv('v4', {}, { deviceClass: 'other' }), lv('v5', {}, { source: 'v1', accessType: 'ro' })], undefined);
    expect(volumesBeside(member(), all).map(titleOf).sort()).toEqual(['shop/data', 'v2']);
  });
  it('ends with the request, unless that has another purpose', () => {
    expect(consequencesOfResumption(request('Cordon', true)).map((x) => inEnglish(x.text))[1]).toBe('The device accepts new data again.');
    expect(consequencesOfResumption(request('Remove', true)).map((x) => inEnglish(x.text))[1]).toBe('The request stays: Remove');
  });
  it('names at most ten', () => expect(limited(['a', 'b'])).toEqual({ names: 'a, b', more: 0 }));
});
