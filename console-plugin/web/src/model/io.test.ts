import { expect, it } from 'vitest';
import { formatLatency, ioQuery, pointsOf } from './io';

it('a device class has what the rules recorded, and a long step its average', () => {
  expect(ioQuery('throughput', { deviceClass: 'vg1' }, 60)).toBe(
    'label_replace(sum(lvms:volume_read_bytes:rate5m{device_class="vg1"}), "direction", "read", "", "") or label_replace(sum(lvms:volume_written_bytes:rate5m{device_class="vg1"}), "direction", "write", "", "")',
  );
  expect(ioQuery('operations', { deviceClass: 'vg1' }, 2520)).toContain('sum(avg_over_time(lvms:volume_reads:rate5m{device_class="vg1"}[2520s]))');
});
it('a volume has its counters, over five minutes or a longer step', () => {
  expect(ioQuery('throughput', { volume: 'u1' }, 60)).toContain('sum(rate(lvms_volume_written_bytes_total{volume="u1"}[300s]))');
  expect(ioQuery('operations', { volume: 'u1' }, 2520)).toContain('sum(rate(lvms_volume_writes_total{volume="u1"}[2520s]))');
});
it('latency is time by operations, of reads and of writes', () => {
  const query = ioQuery('latency', { volume: 'u1' }, 60);
  expect(query).toContain('sum(rate(lvms_volume_read_seconds_total{volume="u1"}[300s])) / sum(rate(lvms_volume_reads_total{volume="u1"}[300s]))');
  expect(query).toContain('sum(rate(lvms_volume_write_seconds_total{volume="u1"}[300s])) / sum(rate(lvms_volume_writes_total{volume="u1"}[300s]))');
});
it('each direction has its points, and none without an answer', () => {
  const points = [{ at: 1, value: 2 }];
  expect([pointsOf([{ labels: { direction: 'write' }, points }], 'write'), pointsOf([{ labels: { direction: 'write' }, points }], 'read'), pointsOf([], 'read')]).toEqual([points, [], []]);
});
it.each([[0, '0 ms'], [0.0000123, '12 μs'], [0.0012, '1.2 ms'], [0.25, '250 ms'], [2.5, '2.5 sec']])('%s seconds are %s', (seconds, wanted) => expect(formatLatency(seconds, 'en')).toBe(wanted));
