import { cleanup, renderHook, waitFor } from '@testing-library/react';
import { afterEach, beforeEach, expect, it, vi } from 'vitest';
import { usePersistentVolume } from './watch';

let reply: () => [number, unknown];
beforeEach(() => {
  vi.stubGlobal('WebSocket', class { close() {} });
  vi.stubGlobal('fetch', (url: string) => {
    const [code, body] = url.endsWith('/api/v1') ? [200, { resources: [{ name: 'persistentvolumes', kind: 'PersistentVolume', namespaced: false }] }] : reply();
    return Promise.resolve(new Response(JSON.stringify(body), { status: code, headers: { 'Content-Type': 'application/json' } }));
  });
});
afterEach(() => {
  cleanup();
  vi.unstubAllGlobals();
});

const list = (...names: string[]) => ({ metadata: { resourceVersion: '1' }, items: names.map((name) => ({ metadata: { name, uid: name } })) });
const read = (name?: string) => renderHook((n?: string) => usePersistentVolume(n), { initialProps: name });

it('has the object of a name', async () => {
  reply = () => [200, list('a')];
  const { result } = read('a');
  await waitFor(() => expect(result.current).toMatchObject({ loaded: true, data: { metadata: { name: 'a' } } }));
});
it('none is no error, as the console and as a list tell it', async () => {
  for (const answer of [[200, list()], [404, { message: 'not found' }]] as [number, unknown][]) {
    reply = () => answer;
    const { result, unmount } = read('a');
    await waitFor(() => expect(result.current.loaded).toBe(true));
    expect(result.current).toEqual({ data: undefined, loaded: true });
    unmount();
  }
});
it('what may not be read is an error, and not none', async () => {
  reply = () => [403, { message: 'forbidden' }];
  const { result } = read('a');
  await waitFor(() => expect(result.current.error).toBe('forbidden'));
});
it('never shows the object that was asked for before', async () => {
  reply = () => [200, list('a')];
  const { result, rerender } = read('a');
  await waitFor(() => expect(result.current.data).toBeDefined());
  rerender('b');
  expect(result.current.data).toBeUndefined();
});
it('asks nothing without a name', () => {
  const { result } = read();
  expect(result.current).toEqual({ data: undefined, loaded: false });
});
