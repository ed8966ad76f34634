import { afterEach, expect, it, vi } from 'vitest';
import { newCluster } from '../model/cluster';
import { send, warningsOf } from './submit';

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
