import { expect, it } from 'vitest';
import { fieldOf, rangeOf } from './schema';

it('has the limits of the CRD', () => {
  expect(rangeOf('thinPoolConfig.autoExtend.thresholdPercent')).toEqual({ low: 50, high: 95 });
  expect(fieldOf('deviceSelectors.paths').maxItems).toBe(128);
});
it('a field that the CRD does not have is an error', () => expect(() => fieldOf('thinPoolConfig.nothing')).toThrow('thinPoolConfig.nothing'));
