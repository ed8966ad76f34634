import { expect, it } from 'vitest';
import { forecastLine, mostOf, summaryOf } from './series';

const points = [{ at: 0, value: 0.2 }, { at: 1000, value: 0.1 }, { at: 2000, value: 0.5 }];

it('a summary has the last, lowest and highest value, and the end of the forecast', () => {
  expect(summaryOf(points, [{ at: 2000, value: 0.5 }, { at: 3000, value: 0.7 }])).toEqual({ now: 0.5, lowest: 0.1, highest: 0.5, ahead: 0.7 });
  expect(summaryOf(points)).toEqual({ now: 0.5, lowest: 0.1, highest: 0.5, ahead: undefined });
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
