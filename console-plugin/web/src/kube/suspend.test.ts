import { afterEach, describe, expect, it, vi } from 'vitest';
import type { LogicalVolume } from '../api/types';
import { podsOf } from './pods';
import { writeSuspension } from './suspend';

const text = 'by ann at 2026-01-02T03:04:05Z: backup';
const volume = (own?: string, more: object = {}): LogicalVolume => ({
  metadata: { name: 'pvc-1', uid: 'u', resourceVersion: '5', ...(own === undefined ? {} : { annotations: { 'lvm.topolvm.io/suspended': own } }), ...more }, spec: { name: 'pvc-1', nodeName: 'a', size: '1Gi' },
});
const address = '/api/kubernetes/apis/topolvm.io/v1/logicalvolumes/pvc-1';

let calls: [string, string, unknown?][] = [];
/** Answers requests by method, in turn. */
function answers(by: Record<string, [number, unknown][]>) {
  calls = [];
  vi.stubGlobal('fetch', (url: string, init: RequestInit = {}) => {
    const method = init.method ?? 'GET';
    const call: [string, string, unknown?] = [method, url.split('?')[0] ?? ''];
    if (init.body) call.push(JSON.parse(init.body as string));
    calls.push(call);
    const [status, body] = by[method]?.shift() ?? [599, {}];
    return Promise.resolve(new Response(JSON.stringify(body), { status, headers: { 'Content-Type': 'application/json' } }));
  });
}
afterEach(() => vi.unstubAllGlobals());
const conflict: [number, unknown] = [409, { reason: 'Conflict', message: 'the object has been modified' }];

describe('a volume', () => {
  it.each<[string, LogicalVolume, string | undefined, string | null]>([['is suspended', volume(), text, text], ['is resumed', volume(text), undefined, null]])('%s as it was read, and no other one of its name', async (_, shown, next, value) => {
    answers({ GET: [[200, { ...shown, metadata: { ...shown.metadata, resourceVersion: '7' } }]], PATCH: [[200, {}]] });
    expect(await writeSuspension(shown, next)).toEqual({ kind: 'accepted' });
    expect(calls).toEqual([['GET', address], ['PATCH', address, { metadata: { uid: 'u', resourceVersion: '7', annotations: { 'lvm.topolvm.io/suspended': value } } }]]);
  });
  it.each<[string, [number, unknown], string | undefined, unknown]>([
    ['somebody else suspended', [200, volume('by bob at 2026-01-02T03:00:00Z')], text, { kind: 'stale', standing: 'changed' }], ['was deleted', [404, { message: 'not found' }], text, { kind: 'stale', standing: 'deleted' }],
    ['was recreated', [200, volume(undefined, { uid: 'other' })], text, { kind: 'stale', standing: 'deleted' }], ['cannot be read', [403, { message: 'forbidden' }], text, { kind: 'refused', code: 403, message: 'forbidden', causes: [], warnings: [] }],
    ['is of a server that fails', [500, { message: 'broken' }], text, { kind: 'unknown', message: 'broken' }], ['is as requested', [200, volume(text)], text, { kind: 'accepted' }], ['is not suspended', [200, volume()], undefined, { kind: 'accepted' }],
  ])('that %s is not patched', async (_, answer, next, outcome) => {
    answers({ GET: [answer] });
    expect(await writeSuspension(volume(), next)).toEqual(outcome);
    expect(calls.map(([method]) => method)).toEqual(['GET']);
  });
  it('that somebody else suspended again is not resumed', async () => {
    answers({ GET: [[200, volume('by bob at 2026-01-02T03:00:00Z')]] });
    expect(await writeSuspension(volume(text), undefined)).toEqual({ kind: 'stale', standing: 'changed' });
  });
  it('that a node agent changed in between is read again, until it was suspended by somebody else', async () => {
    answers({ GET: [[200, volume()], [200, volume(undefined, { resourceVersion: '6' })]], PATCH: [conflict, [200, {}]] });
    expect(await writeSuspension(volume(), text)).toEqual({ kind: 'accepted' });
    expect((calls.at(-1)?.[2] as LogicalVolume).metadata.resourceVersion).toBe('6');
    answers({ GET: [[200, volume()], [200, volume('x')]], PATCH: [conflict] });
    expect(await writeSuspension(volume(), text)).toEqual({ kind: 'stale', standing: 'changed' });
  });
  it('that changes all the time is given up', async () => {
    answers({ GET: Array.from({ length: 9 }, () => [200, volume()] as [number, unknown]), PATCH: Array.from({ length: 9 }, () => conflict) });
    expect(await writeSuspension(volume(), text)).toMatchObject({ kind: 'refused', code: 409 });
    expect(calls.filter(([method]) => method === 'PATCH')).toHaveLength(5);
  });
  it('whose patch nobody answered may be suspended', async () => {
    answers({ GET: [[200, volume()]], PATCH: [[502, {}]] });
    expect((await writeSuspension(volume(), text)).kind).toBe('unknown');
  });
});

describe('the Pods of a claim', () => {
  const pod = (name: string, volumes: object[], phase = 'Running') => ({ metadata: { name }, spec: { volumes }, status: { phase } });
  const data = { name: 'v', persistentVolumeClaim: { claimName: 'data' } };
  it('are those that have not ended, of all pages', async () => {
    answers({ GET: [[200, { items: [pod('b', [data]), pod('ended', [data], 'Succeeded'), pod('other', [{ name: 'v', persistentVolumeClaim: { claimName: 'logs' } }])], metadata: { continue: 'next' } }], [200, { items: [pod('a', [data]), { metadata: { name: 'none' } }], metadata: {} }]] });
    expect(await podsOf('shop', 'data')).toEqual(['a', 'b']);
    expect(calls.map(([, url]) => url)).toEqual(Array(2).fill('/api/kubernetes/api/v1/namespaces/shop/pods'));
  });
  it('have it as a generic ephemeral volume too', async () => {
    answers({ GET: [[200, { items: [pod('web', [{ name: 'scratch', ephemeral: {} }])], metadata: {} }]] });
    expect(await podsOf('shop', 'web-scratch')).toEqual(['web']);
  });
  it('are not known if a page cannot be read', async () => {
    answers({ GET: [[200, { items: [pod('b', [data])], metadata: { continue: 'next' } }], [403, { message: 'forbidden' }]] });
    await expect(podsOf('shop', 'data')).rejects.toThrow('forbidden');
  });
});
