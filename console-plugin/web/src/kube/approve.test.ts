import { afterEach, describe, expect, it, vi } from 'vitest';
import type { NodeStatus } from '../api/types';
import { newApproval, type Waiting } from '../model/approval';
import { approveDevice, revoke, whoAmI } from './approve';

const fingerprint = 'v1-0123456789abcdef0123456789abcdef';
const shown: Waiting = { node: 'a', deviceClass: 'vg1', reason: 'AwaitingApproval', device: { name: '/dev/sdb', id: 'wwn:b', byID: ['wwn-b'], state: 'Available', fingerprint, eligibility: [{ deviceClass: 'vg1', eligible: false, reasons: ['AwaitingApproval'] }] } };
const approval = newApproval(shown, 'ns', 'ann');
const listing = (more: object = {}): NodeStatus => ({ metadata: { name: 'a' }, status: { devices: [{ ...shown.device, ...more }] } });

let calls: [string, string, unknown][] = [];
/** Answers requests by method, in turn. */
function answers(by: Record<string, [number, unknown][]>) {
  calls = [];
  vi.stubGlobal('fetch', (url: string, init: RequestInit = {}) => {
    const method = init.method ?? 'GET';
    calls.push([method, url.split('?')[0] ?? '', init.body ? JSON.parse(init.body as string) : undefined]);
    const [status, body] = by[method]?.shift() ?? [599, {}];
    return Promise.resolve(new Response(JSON.stringify(body), { status, headers: { 'Content-Type': 'application/json' } }));
  });
}
afterEach(() => vi.unstubAllGlobals());
const exists = { reason: 'AlreadyExists', message: 'already exists' };

describe('an approval', () => {
  it('is written if the node still lists the device as it is shown', async () => {
    answers({ GET: [[200, listing()]], POST: [[201, approval]] });
    expect(await approveDevice(shown, 'ns', 'ann')).toEqual({ kind: 'accepted' });
    const folder = '/api/kubernetes/apis/lvm.topolvm.io/v1alpha1/namespaces/ns';
    expect(calls).toEqual([['GET', `${folder}/lvmvolumegroupnodestatuses/a`, undefined], ['POST', `${folder}/lvmdeviceapprovals`, approval]]);
  });
  it.each<[string, [number, unknown], unknown]>([
    ['has changed', [200, listing({ fingerprint: `${fingerprint.slice(0, -1)}0` })], { kind: 'stale', standing: 'changed' }], ['is not listed', [200, { metadata: { name: 'a' } }], { kind: 'stale', standing: 'gone' }],
    ['no longer waits', [200, listing({ eligibility: [] })], { kind: 'stale', standing: 'settled' }], ['is of a node without a status', [404, { message: 'not found' }], { kind: 'stale', standing: 'gone' }],
    ['cannot be read', [403, { message: 'forbidden' }], { kind: 'refused', code: 403, message: 'forbidden', causes: [], warnings: [] }], ['is of a server that fails', [500, { message: 'broken' }], { kind: 'unknown', message: 'broken' }],
  ])('is not written if the device %s', async (_, answer, outcome) => {
    answers({ GET: [answer] });
    expect(await approveDevice(shown, 'ns', 'ann')).toEqual(outcome);
    expect(calls.map(([method]) => method)).toEqual(['GET']);
  });
  it('that exists already counts, if it is the same', async () => {
    answers({ GET: [[200, listing()], [200, newApproval(shown, 'ns', 'bob')]], POST: [[409, exists]] });
    expect(await approveDevice(shown, 'ns', 'ann')).toEqual({ kind: 'accepted' });
    expect(calls.at(-1)?.[1]).toMatch(/lvmdeviceapprovals\/a-vg1-0123456789ab$/);
    answers({ GET: [[200, listing()], [200, { ...approval, spec: { ...approval.spec, fingerprint: 'other' } }]], POST: [[409, exists]] });
    expect(await approveDevice(shown, 'ns', 'ann')).toEqual({ kind: 'taken', name: 'a-vg1-0123456789ab' });
    answers({ GET: [[200, listing()], [403, { message: 'forbidden' }]], POST: [[409, exists]] });
    expect(await approveDevice(shown, 'ns', 'ann')).toMatchObject({ kind: 'refused', message: 'forbidden' });
  });
  it('has the words of a refusal, and silence is neither yes nor no', async () => {
    answers({ GET: [[200, listing()]], POST: [[422, { message: 'approvedBy: it must be the user' }]] });
    expect(await approveDevice(shown, 'ns', 'ann')).toMatchObject({ kind: 'refused', message: 'approvedBy: it must be the user' });
    vi.stubGlobal('fetch', () => Promise.reject(new TypeError('Failed to fetch')));
    expect(await approveDevice(shown, 'ns', 'ann')).toEqual({ kind: 'unknown', message: 'Failed to fetch' });
  });
});

it('the user is the one that the API server knows', async () => {
  answers({ POST: [[201, { status: { userInfo: { username: 'ann' } } }], [201, { status: {} }], [403, { message: 'forbidden' }]] });
  expect(await whoAmI()).toBe('ann');
  expect(calls[0]?.[1]).toBe('/api/kubernetes/apis/authentication.k8s.io/v1/selfsubjectreviews');
  await expect(whoAmI()).rejects.toThrow('did not return a user name');
  await expect(whoAmI()).rejects.toThrow('forbidden');
});

it('a revocation deletes this object, and no other of its name; one that is gone needs no second one', async () => {
  const present = { ...approval, metadata: { ...approval.metadata, uid: 'u1' } };
  answers({ DELETE: [[200, {}], [404, { message: 'not found' }], [409, { message: 'the UID in the precondition does not match' }]] });
  expect(await revoke(present)).toEqual({ kind: 'accepted' });
  expect(calls[0]).toEqual(['DELETE', expect.stringMatching(/lvmdeviceapprovals\/a-vg1-0123456789ab$/), { apiVersion: 'v1', kind: 'DeleteOptions', preconditions: { uid: 'u1' } }]);
  expect(await revoke(present)).toEqual({ kind: 'accepted' });
  expect(await revoke(present)).toMatchObject({ kind: 'refused', code: 409 });
});
