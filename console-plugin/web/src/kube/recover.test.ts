import { afterEach, expect, it, vi } from 'vitest';
import type { LVMRecovery } from '../api/types';
import { approveRecovery, createRecovery, deleteRecovery } from './recover';

const calls: { url: string; method?: string; body: unknown; type: string | null }[] = [];
function answer(status: number, body: unknown) {
  calls.length = 0;
  vi.stubGlobal('fetch', (url: string, init: RequestInit) => {
    calls.push({ url, method: init.method, body: JSON.parse(init.body as string), type: new Headers(init.headers).get('Content-Type') });
    return Promise.resolve(new Response(JSON.stringify(body), { status, headers: { 'Content-Type': 'application/json' } }));
  });
}
afterEach(() => vi.unstubAllGlobals());

const recovery: LVMRecovery = {
  metadata: { name: 'r', namespace: 'ns', uid: 'u1', resourceVersion: '7' }, spec: { nodeName: 'a', deviceClassName: 'vg1', action: 'RepairThinPool' },
  status: { phase: 'AwaitingApproval', plan: { id: 'newer', creationTime: '', devices: [], lostVolumeCount: 0, keptVolumeCount: 0 } },
};

const shown = { id: 'shown', creationTime: '', devices: [], lostVolumeCount: 0, keptVolumeCount: 0 };

it('approves the plan that it was given, and lets the API server compare it', async () => {
  answer(200, recovery);
  expect(await approveRecovery(recovery, shown)).toEqual({ kind: 'accepted', recovery });
  expect(calls).toEqual([{
    url: expect.stringMatching(/namespaces\/ns\/lvmrecoveries\/r\?.*fieldValidation=Strict/), method: 'PATCH', type: 'application/json-patch+json',
    body: [{ op: 'test', path: '/metadata/uid', value: 'u1' }, { op: 'test', path: '/status/plan', value: shown }, { op: 'add', path: '/spec/approvedPlan', value: 'shown' }],
  }]);
});
it('creates one, with a name from the API server', async () => {
  answer(201, recovery);
  const { status: _, ...outgoing } = { ...recovery, metadata: { generateName: 'a-vg1-', namespace: 'ns' } };
  expect(await createRecovery(outgoing)).toMatchObject({ kind: 'accepted', recovery: { metadata: { name: 'r' } } });
  expect(calls[0]).toMatchObject({ method: 'POST', url: expect.stringMatching(/namespaces\/ns\/lvmrecoveries\?/), body: outgoing });
});
it('deletes this object, and no other of its name', async () => {
  answer(200, {});
  await deleteRecovery(recovery);
  expect(calls[0]).toMatchObject({ method: 'DELETE', url: expect.stringMatching(/lvmrecoveries\/r$/), body: { preconditions: { uid: 'u1' } } });
});
it('a refusal has its reason, and silence is neither yes nor no', async () => {
  answer(403, { message: 'forbidden' });
  expect(await approveRecovery(recovery, shown)).toMatchObject({ kind: 'refused', code: 403, message: 'forbidden' });
  vi.stubGlobal('fetch', () => Promise.reject(new TypeError('Failed to fetch')));
  expect(await deleteRecovery(recovery)).toEqual({ kind: 'unknown', message: 'Failed to fetch' });
});
