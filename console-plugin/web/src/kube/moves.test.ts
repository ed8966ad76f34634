import { afterEach, describe, expect, it, vi } from 'vitest';
import type { MovePhase, VolumeMove } from '../api/types';
import { createMove, deleteMove } from './moves';

interface Call {
  method: string;
  url: string;
  body: unknown;
}
const calls: Call[] = [];
function answers(reply: (call: Call, n: number) => [number, unknown]) {
  calls.length = 0;
  vi.stubGlobal('fetch', (url: string, init: RequestInit = {}) => {
    const call = { method: init.method ?? 'GET', url, body: init.body ? JSON.parse(init.body as string) : undefined } as Call;
    calls.push(call);
    const [status, body] = reply(call, calls.filter((c) => c.method === call.method).length);
    return Promise.resolve(new Response(JSON.stringify(body), { status, headers: { 'Content-Type': 'application/json' } }));
  });
}
afterEach(() => vi.unstubAllGlobals());

const move = (phase: MovePhase, resourceVersion = '7', more: object = {}): VolumeMove => ({
  metadata: { name: 'shop-data-x', namespace: 'ns', uid: 'u1', resourceVersion, ...more }, spec: { claim: { namespace: 'shop', name: 'data' } }, status: { phase },
});
const deletions = () => calls.filter((c) => c.method === 'DELETE');

describe('creation', () => {
  it('sends the move, strictly', async () => {
    answers(() => [201, move('Pending')]);
    const { status: _, ...outgoing } = move('Pending');
    expect(await createMove(outgoing)).toEqual({ kind: 'accepted', move: move('Pending') });
    expect(calls).toEqual([{ method: 'POST', url: expect.stringMatching(/namespaces\/ns\/volumemoves\?.*fieldValidation=Strict/) as string, body: outgoing }]);
  });
  it('a refusal has its reason, and silence is neither yes nor no', async () => {
    answers(() => [403, { message: 'forbidden' }]);
    expect(await createMove(move('Pending'))).toMatchObject({ kind: 'refused', code: 403, message: 'forbidden' });
    answers(() => [502, {}]);
    expect(await createMove(move('Pending'))).toMatchObject({ kind: 'unknown' });
  });
});

describe('deletion', () => {
  it('deletes the version that was read, and no other object of this name', async () => {
    answers(() => [200, move('Copying', '8')]);
    expect(await deleteMove(move('Copying'), 'stays')).toEqual({ kind: 'accepted' });
    expect(deletions()).toEqual([{ method: 'DELETE', url: expect.stringMatching(/volumemoves\/shop-data-x$/) as string, body: { apiVersion: 'v1', kind: 'DeleteOptions', preconditions: { uid: 'u1', resourceVersion: '8' } } }]);
  });
  it('does nothing if it would do something else by now', async () => {
    answers(() => [200, move('KeepingSource', '9')]);
    expect(await deleteMove(move('Copying'), 'stays')).toEqual({ kind: 'stale', undo: 'removesSource' });
    expect(deletions()).toEqual([]);
  });
  it('reads a move again that was changed meanwhile, and then notices what changed', async () => {
    answers(({ method }, n) => (method === 'DELETE' && n === 1 ? [409, { message: 'changed' }] : [200, move('WaitingForPods', String(n))]));
    expect(await deleteMove(move('Copying'), 'stays')).toEqual({ kind: 'accepted' });
    expect(deletions().map((c) => (c.body as { preconditions: object }).preconditions)).toEqual([{ uid: 'u1', resourceVersion: '1' }, { uid: 'u1', resourceVersion: '2' }]);
    answers(({ method }, n) => (method === 'DELETE' ? [409, { message: 'changed' }] : [200, move(n === 1 ? 'Switching' : 'KeepingSource')]));
    expect(await deleteMove(move('Switching'), 'switching')).toEqual({ kind: 'stale', undo: 'removesSource' });
    expect(deletions()).toHaveLength(1);
  });
  it('ends after some attempts', async () => {
    answers(({ method }) => (method === 'DELETE' ? [409, { message: 'changed' }] : [200, move('Copying')]));
    expect(await deleteMove(move('Copying'), 'stays')).toMatchObject({ kind: 'refused', code: 409 });
    expect(deletions()).toHaveLength(5);
  });
  it.each<[string, [number, unknown]]>([['it is gone', [404, { message: 'not found' }]], ['another one has its name', [200, move('Copying', '1', { uid: 'u2' })]], ['it is being deleted', [200, move('Copying', '1', { deletionTimestamp: 'x' })]]])('needs none if %s', async (_, reply) => {
    answers(() => reply);
    expect(await deleteMove(move('Copying'), 'stays')).toEqual({ kind: 'accepted' });
    expect(deletions()).toEqual([]);
  });
  it.each<[number, string]>([[403, 'refused'], [502, 'unknown']])('deletes nothing if the move cannot be read: %d', async (code, kind) => {
    answers(() => [code, { message: 'no' }]);
    expect(await deleteMove(move('Copying'), 'stays')).toMatchObject({ kind });
    expect(deletions()).toEqual([]);
  });
});
