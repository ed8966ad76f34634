import { afterEach, describe, expect, it, vi } from 'vitest';
import type { LVMCluster } from '../api/types';
import { newCluster } from '../model/cluster';
import { send, sendNewest, warningsOf } from './submit';

const calls: { url: string; method?: string; body?: string }[] = [];
function answer(status: number, body: unknown, warning?: string) {
  calls.length = 0;
  vi.stubGlobal('fetch', (url: string, init: RequestInit) => {
    calls.push({ url, method: init.method, body: init.body as string });
    return Promise.resolve(new Response(JSON.stringify(body), { status, headers: { 'Content-Type': 'application/json', ...(warning ? { Warning: warning } : {}) } }));
  });
}
afterEach(() => vi.unstubAllGlobals());

it('a new object is posted, an old one put, and a dry run says so', async () => {
  answer(201, newCluster('ns'));
  await send({ ...newCluster('ns'), status: { state: 'Ready' } }, { dryRun: true });
  expect(calls[0]).toMatchObject({ method: 'POST', url: expect.stringMatching(/namespaces\/ns\/lvmclusters\?.*fieldValidation=Strict.*dryRun=All/) });
  expect(calls[0]?.body).not.toContain('status');
  await send({ ...newCluster('ns', 'c'), metadata: { name: 'c', namespace: 'ns', resourceVersion: '1' } }, { dryRun: false });
  expect(calls[1]).toMatchObject({ method: 'PUT', url: expect.stringMatching(/lvmclusters\/c\?(?!.*dryRun)/) });
});
it('has the causes with their fields, and the warnings', async () => {
  answer(422, { message: 'invalid', details: { causes: [{ field: 'spec.x', message: 'no' }] } }, '299 - "careful"');
  expect(await send(newCluster('ns'), { dryRun: true })).toEqual({ kind: 'refused', code: 422, message: 'invalid', causes: [{ field: 'spec.x', message: 'no' }], warnings: ['careful'] });
  answer(200, newCluster('ns'), '299 - "one", 299 - "a \\"quoted\\" two"');
  expect(await send(newCluster('ns'), { dryRun: true })).toMatchObject({ kind: 'accepted', warnings: ['one', 'a "quoted" two'] });
});
it('no answer is neither yes nor no', async () => {
  vi.stubGlobal('fetch', () => Promise.reject(new TypeError('Failed to fetch')));
  expect(await send(newCluster('ns'), { dryRun: true })).toEqual({ kind: 'unknown', message: 'Failed to fetch' });
  answer(502, { message: 'bad gateway' });
  expect(await send(newCluster('ns'), { dryRun: true })).toMatchObject({ kind: 'unknown' });
});
it('no warning is no warning', () => expect(warningsOf(null)).toEqual([]));

describe('the operator writes its status meanwhile', () => {
  const version = (n: number, name = 'vg1'): LVMCluster => {
    const c = newCluster('ns', 'c');
    return { ...c, metadata: { name: 'c', namespace: 'ns', resourceVersion: String(n) }, spec: { storage: { deviceClasses: [{ name }] } } };
  };
  /** Answers that the object was changed to all versions but one. */
  function acceptOnly(resourceVersion: string) {
    calls.length = 0;
    vi.stubGlobal('fetch', (url: string, init: RequestInit) => {
      calls.push({ url, method: init.method, body: init.body as string });
      const yes = (JSON.parse(init.body as string) as LVMCluster).metadata.resourceVersion === resourceVersion;
      return Promise.resolve(new Response(JSON.stringify(yes ? version(9) : { message: 'the object has been modified', reason: 'Conflict', details: {} }), { status: yes ? 200 : 409, headers: { 'Content-Type': 'application/json' } }));
    });
  }
  it('the newest version is sent again', async () => {
    acceptOnly('3');
    let n = 0;
    expect(await sendNewest(() => version(++n), { dryRun: true })).toMatchObject({ kind: 'accepted' });
    expect(calls).toHaveLength(3);
  });
  it('not without end, and not when something else is wanted by then', async () => {
    acceptOnly('none');
    expect(await sendNewest(() => version(1), { dryRun: false })).toMatchObject({ kind: 'refused', code: 409 });
    expect(calls).toHaveLength(5);
    acceptOnly('2');
    let n = 0;
    expect(await sendNewest(() => version(++n, n > 1 ? 'vg2' : 'vg1'), { dryRun: false })).toMatchObject({ kind: 'refused', code: 409 });
    expect(calls).toHaveLength(1);
  });
  it('a new object that exists already is not sent twice', async () => {
    acceptOnly('none');
    expect(await sendNewest(() => newCluster('ns', 'c'), { dryRun: false })).toMatchObject({ kind: 'refused', code: 409 });
    expect(calls).toHaveLength(1);
  });
});
