import { expect, it } from 'vitest';
import { byVolume, fastestQuery, growthQuery, largestQuery, rankedOf, usedQuery } from './ranking';

it('Prometheus selects ten volumes', () => {
  for (const thin of [true, false]) for (const query of [largestQuery(thin, 'vg1'), fastestQuery(thin, 'vg1')]) expect(query).toMatch(/^topk\(10, /);
});
it('a thin volume counts by what is written, a thick one by its file system', () => {
  expect(largestQuery(true, 'vg1')).toContain('lvms_volume_data_percent{device_class="vg1"} * lvms_volume_size_bytes{device_class="vg1"} / 100');
  expect(largestQuery(false, 'vg1')).toContain('kubelet_volume_stats_used_bytes');
  expect(largestQuery(false, 'vg1')).toContain('lvms_volume_size_bytes{device_class="vg1"}');
});
it('growth covers seven days, and further columns only the named volumes', () => {
  expect(fastestQuery(true, 'vg1')).toMatch(/\[7d:1h\]\) \/ 7 > 0\)$/);
  expect(usedQuery(true, 'vg1', ['a-1', 'b.2'])).toContain('{device_class="vg1",volume=~"a-1|b\\\\.2"}');
  expect(growthQuery(false, 'vg1', ['a'])).toContain('volume=~"a"');
});
it('the highest value is first, with what it is for', () => {
  const sample = (volume: string, value: number, namespace = '', persistentvolumeclaim = '') => ({ labels: { volume, node: 'n', namespace, persistentvolumeclaim }, value });
  expect(rankedOf([sample('b', 1), sample('a', 2, 'shop', 'data'), sample('c', NaN), { labels: {}, value: 9 }])).toEqual([{ volume: 'a', node: 'n', value: 2, purpose: 'shop/data' }, { volume: 'b', node: 'n', value: 1 }]);
  expect(rankedOf([])).toEqual([]);
  expect(rankedOf(Array.from({ length: 20 }, (_, i) => sample(`v${i}`, i)))).toHaveLength(10);
  expect([...byVolume([sample('a', 3), sample('b', NaN)])]).toEqual([['a', 3]]);
});
