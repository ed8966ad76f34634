import { cleanup, renderHook, waitFor } from '@testing-library/react';
import { afterEach, expect, it, vi } from 'vitest';
import { ask, askRange, MOST_SERIES, POINTS, useHistory, useMetrics } from './prometheus';

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

const matrix = (count: number, values: [number, string][]) => json({ status: 'success', data: { resultType: 'matrix', result: Array.from({ length: count }, (_, i) => ({ metric: { node: `n${i}` }, values })) } });
it('asks for a range at times that the next question has too, and bounds the answer', async () => {
  vi.useFakeTimers({ now: 1_000_000_123_456, shouldAdvanceTime: true });
  stub();
  answer = () => matrix(MOST_SERIES + 5, [[60, '0.5'], [120, 'NaN'], [180, '0.7']]);
  const series = await askRange('up', 86_400, 'ns');
  expect(series).toHaveLength(MOST_SERIES);
  expect(series[0]).toEqual({ labels: { node: 'n0' }, points: [{ at: 60_000, value: 0.5 }, { at: 180_000, value: 0.7 }] });
  const url = new URL(urls[0] ?? '', 'http://x');
  expect(url.pathname).toBe('/api/prometheus-tenancy/api/v1/query_range');
  const [start, end, step] = ['start', 'end', 'step'].map((p) => Number(url.searchParams.get(p)));
  expect([(start ?? 1) % (step ?? 0), (end ?? 1) % (step ?? 0)]).toEqual([0, 0]);
  expect(((end ?? 0) - (start ?? 0)) / (step ?? 1)).toBeLessThanOrEqual(POINTS);
  expect(url.searchParams.get('namespace')).toBe('ns');
});
it('a range that could not be read is an error, and what was there stays', async () => {
  vi.useFakeTimers({ shouldAdvanceTime: true });
  stub();
  answer = () => vector('1');
  await expect(askRange('up', 3600)).rejects.toThrow('no list of series');
  answer = () => matrix(1, [[60, '0.5']]);
  const { result } = renderHook(() => useHistory('up', 3600, 'ns'));
  await waitFor(() => expect(result.current.series).toHaveLength(1));
  answer = () => json({ message: 'bad gateway' }, 502);
  await vi.advanceTimersByTimeAsync(60_000);
  await waitFor(() => expect(result.current).toMatchObject({ error: 'bad gateway', forbidden: false, loaded: true }));
  expect(result.current.series).toHaveLength(1);
});
it('another range is read from the start', async () => {
  stub();
  answer = () => matrix(1, [[60, '0.5']]);
  const { result, rerender } = renderHook(({ seconds }) => useHistory('up', seconds), { initialProps: { seconds: 3600 } });
  await waitFor(() => expect(result.current.loaded).toBe(true));
  answer = () => new Promise<Response>(() => undefined);
  rerender({ seconds: 7200 });
  await waitFor(() => expect(result.current).toEqual({ series: [], loaded: false }));
});
