import { expect, it } from 'vitest';
import { currentOf, forecastLine, mostOf, summaryOf, withGaps } from './series';

const points = [{ at: 0, value: 0.2 }, { at: 1000, value: 0.1 }, { at: 2000, value: 0.5 }];

it('a summary has the lowest and highest value, and the end of the forecast', () => {
  expect(summaryOf(points, [{ at: 2000, value: 0.5 }, { at: 3000, value: 0.7 }])).toEqual({ lowest: 0.1, highest: 0.5, ahead: 0.7 });
  expect(summaryOf(points)).toEqual({ lowest: 0.1, highest: 0.5, ahead: undefined });
  expect(summaryOf([])).toEqual({});
});
it.each([
  ['within the axis, it ends after the time', 0.7, [[2000, 0.5], [3000, 0.7]]],
  ['above the axis, it ends earlier, at its top', 1.5, [[2000, 0.5], [2500, 1]]],
  ['below 0, it ends earlier, at 0', -0.5, [[2000, 0.5], [2500, 0]]],
  ['without growth, it is flat', 0.5, [[2000, 0.5], [3000, 0.5]]],
])('a forecast: %s', (_, predicted, wanted) => expect(forecastLine(points, predicted, 1000, 1)?.map((p) => [p.at, p.value])).toEqual(wanted));
it('there is no forecast without a value or a point', () => expect([forecastLine(points, undefined, 1, 1), forecastLine(points, NaN, 1, 1), forecastLine([], 0.5, 1, 1)]).toEqual([undefined, undefined, undefined]));
it('a space that is full stays on the axis', () => expect(forecastLine([{ at: 0, value: 1 }], 1.2, 1000, 1)).toEqual([{ at: 0, value: 1 }, { at: 0, value: 1 }]));
it('an axis ends above the highest point, and has a height without one', () => expect([mostOf([points]), mostOf([]), mostOf([[{ at: 0, value: 0 }]])]).toEqual([0.55, 1, 1]));

it('an axis for small values has a height of its own', () => expect(mostOf([], 0.001)).toBe(0.001));
it.each([
  ['without a step, it is the last point', undefined, 90_000, 0.5],
  ['within two steps, it is the last point', 1000, 4000, 0.5],
  ['later, there is none', 1000, 4001, undefined],
])('the current value: %s', (_, step, now, wanted) => expect(currentOf(points, step, now)).toBe(wanted));
it('there is no current value without a point', () => expect(currentOf([], 1000, 0)).toBeUndefined());

const at = (...times: number[]) => times.map((t) => ({ at: t, value: 1 }));
it.each([
  ['none', at(0, 60, 120), [[0, 1], [60, 1], [120, 1]]],
  ['between two parts', at(0, 60, 240, 300), [[0, 1], [60, 1], [232.5, null], [240, 1], [300, 1]]],
  ['around a single point, which becomes a short line', at(0, 60, 240), [[0, 1], [60, 1], [217.5, null], [225, 1], [255, 1]]],
  ['no points', [], []],
])('gaps: %s', (_, line, wanted) => expect(withGaps(line, 60).map((p) => [p.at, p.value])).toEqual(wanted));
