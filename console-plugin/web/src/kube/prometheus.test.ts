import { cleanup, renderHook, waitFor } from '@testing-library/react';
import { afterEach, expect, it, vi } from 'vitest';
import { ask, useMetrics } from './prometheus';

const urls: string[] = [];
let answer: () => Promise<Response>;
const stub = () => vi.stubGlobal('fetch', (url: string) => (urls.push(url), answer()));
const json = (body: unknown, status = 200) => Promise.resolve(new Response(JSON.stringify(body), { status, headers: { 'Content-Type': 'application/json' } }));
const vector = (value: string) => json({ status: 'success', data: { resultType: 'vector', result: [{ metric: { node: 'a' }, value: [1, value] }] } });
afterEach(() => {
  cleanup();
  vi.unstubAllGlobals();
  vi.useRealTimers();
  urls.length = 0;
});

it('asks about one namespace, or about all', async () => {
  stub();
  answer = () => vector('42');
  expect(await ask('up{a="b"}', 'ns')).toEqual([{ labels: { node: 'a' }, value: 42 }]);
  await ask('up');
  expect(urls).toEqual(['/api/prometheus-tenancy/api/v1/query?query=up%7Ba%3D%22b%22%7D&namespace=ns', '/api/prometheus/api/v1/query?query=up']);
});
it('what is no list of values is an error, and not an empty list', async () => {
  stub();
  for (const body of [{ status: 'error' }, { status: 'success', data: { resultType: 'scalar', result: [1, '2'] } }, { status: 'success', data: { resultType: 'vector' } }]) {
    answer = () => json(body);
    await expect(ask('up')).rejects.toThrow('no list of values');
  }
});
it('keeps what it had when an answer fails, says why, and asks less often', async () => {
  vi.useFakeTimers({ shouldAdvanceTime: true });
  stub();
  answer = () => vector('1');
  const { result, unmount } = renderHook(() => useMetrics('up', 'ns'));
  await waitFor(() => expect(result.current.samples).toHaveLength(1));
  answer = () => json({ message: 'forbidden' }, 403);
  await vi.advanceTimersByTimeAsync(60_000);
  await waitFor(() => expect(result.current).toMatchObject({ forbidden: true, error: 'forbidden', loaded: true }));
  expect(result.current.samples).toHaveLength(1);
  await vi.advanceTimersByTimeAsync(60_000);
  expect(urls).toHaveLength(2);
  await vi.advanceTimersByTimeAsync(60_000);
  expect(urls).toHaveLength(3);
  unmount();
  await vi.advanceTimersByTimeAsync(3_600_000);
  expect(urls).toHaveLength(3);
});
it('asks nothing without a query', () => {
  stub();
  renderHook(() => useMetrics(undefined));
  expect(urls).toEqual([]);
});
