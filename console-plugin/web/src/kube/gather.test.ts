import { cleanup, renderHook, waitFor } from '@testing-library/react';
import { afterEach, expect, it, vi } from 'vitest';
import { gatherCommand, useGatherCommand } from './gather';

const version = (image?: string, owned = 'lvmclusters.lvm.topolvm.io') => ({ metadata: { annotations: image ? { 'operators.openshift.io/must-gather-image': image } : {} }, spec: { customresourcedefinitions: { owned: [{ name: owned }] } } });
const answer = (status: number, body: unknown) => vi.stubGlobal('fetch', vi.fn(() => Promise.resolve(new Response(JSON.stringify(body), { status, headers: { 'Content-Type': 'application/json' } }))));
afterEach(() => {
  cleanup();
  vi.unstubAllGlobals();
});

it('is what the release of this operator names, and of no other', async () => {
  answer(200, { items: [version('registry/other:1', 'others.example.com'), version(), version('registry/gather@sha256:0a1b')] });
  expect(await gatherCommand('ns')).toBe('oc adm must-gather --image=registry/gather@sha256:0a1b');
});
it('is none where none is named, or where it would be more than an image', async () => {
  for (const items of [[], [version()], [version('x; rm -rf /')]]) {
    answer(200, { items });
    expect(await gatherCommand('ns')).toBeUndefined();
  }
});
it('is none where it cannot be read, and not asked for where all is well', async () => {
  answer(403, { message: 'forbidden' });
  await expect(gatherCommand('ns')).rejects.toThrow('forbidden');
  const { result, rerender } = renderHook((wanted: boolean) => useGatherCommand('ns', wanted), { initialProps: false });
  expect(vi.mocked(fetch)).toHaveBeenCalledTimes(1);
  rerender(true);
  await waitFor(() => expect(vi.mocked(fetch)).toHaveBeenCalledTimes(2));
  expect(result.current).toBeUndefined();
});
