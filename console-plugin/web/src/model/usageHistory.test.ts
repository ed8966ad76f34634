import { describe, expect, it } from 'vitest';
import { PREDICTION, THRESHOLDS } from './alerts';
import { historyQuery, horizonOf, MOST_LINES, PERIODS, predictionQuery, thresholds, usageLines } from './usageHistory';

describe('the questions', () => {
  it('are about the fullest node of each class, or about the nodes of one class', () => {
    expect(historyQuery()).toContain('max by (namespace, device_class) (lvms:thinpool_data:ratio or lvms:volumegroup_used:ratio)');
    expect(historyQuery('vg1')).toContain('max by (namespace, node) (lvms:thinpool_data:ratio{device_class="vg1"} or lvms:volumegroup_used:ratio{device_class="vg1"})');
    for (const q of [historyQuery(), historyQuery('vg1')]) expect(q).toContain(`topk(${MOST_LINES}, `);
  });
  it('predict with the windows of the alerts', () => {
    for (const window of PREDICTION.windows) expect(predictionQuery(3600, 'vg1')).toContain(`predict_linear(lvms:thinpool_data:ratio{device_class="vg1"}[${window}], 3600)`);
  });
  it('look no further ahead than the alerts', () => expect(PERIODS.map(horizonOf)).toEqual([43_200, 302_400, PREDICTION.days * 86_400]));
});

describe('lines', () => {
  const at = (name: string, ...values: number[]) => ({ labels: { namespace: 'ns', device_class: name }, points: values.map((value, i) => ({ at: i * 1000, value })) });
  it('have their forecast, and the fullest is first', () => {
    const lines = usageLines([at('a', 0.1, 0.2), at('b', 0.5, 0.6)], [{ labels: { device_class: 'b' }, value: 1.4 }], 86_400);
    expect(lines.map((l) => l.label)).toEqual(['b', 'a']);
    expect(lines[0]?.forecast).toEqual([{ at: 1000, value: 0.6 }, { at: 1000 + 21_600_000, value: 1 }]);
    expect(lines[1]?.forecast).toBeUndefined();
  });
  it('of one class are named after their nodes', () =>
    expect(usageLines([{ labels: { node: 'n1' }, points: [] }], [{ labels: { node: 'n1' }, value: 1 }], 86_400, 'vg1')).toEqual([{ label: 'n1', points: [], forecast: undefined }]));
  it('are none without an answer', () => expect(usageLines([], [], 86_400)).toEqual([]));
});

it('the thresholds are those of the alerts', () => {
  expect(thresholds.map((t) => t.value)).toEqual(Object.values(THRESHOLDS));
  expect(thresholds.map((t) => t.value)).toEqual([...thresholds.map((t) => t.value)].sort());
});
