import { expect, it } from 'vitest';
import { ahead, alertsOf, forecastsOf, isScraped } from './alerting';
import { summaries } from './alerts';

const firing = (alertname: string, severity: string, more: Record<string, string> = {}) => ({ labels: { __name__: 'ALERTS', alertname, severity, node: 'a', device_class: 'vg1', ...more }, value: 1 });
const fill = (space: string, value: number, node = 'a') => ({ labels: { lvms_space: space, node, device_class: 'vg1' }, value });

it('has the alerts that fire, the most serious first, in the words of the rules', () => {
  const list = alertsOf([firing('PodCrashing', 'none'), firing('LVMSThinPoolDataFillingUpInDays', 'warning'), firing('LVMSDeviceFailing', 'critical', { node: 'b' }), { labels: { lvms_probe: 'scraped' }, value: 2 }]);
  expect(list.map((a) => a.name)).toEqual(['LVMSDeviceFailing', 'LVMSThinPoolDataFillingUpInDays', 'PodCrashing']);
  expect(list[0]?.summary).toBe('A device of device class vg1 on node b is failing.');
  expect(list[2]?.summary).toBeUndefined();
});
it('takes no name of an object for an alert', () => expect(alertsOf([firing('constructor', 'info')])[0]?.summary).toBeUndefined());
it('every summary can be filled from labels', () => {
  for (const text of Object.values(summaries)) expect(text.replace(/{{ \$labels\.\w+ }}/g, '')).not.toMatch(/[{}$]/);
});
it('nothing that is collected is not nothing that fires', () => {
  expect(isScraped([])).toBe(false);
  expect(isScraped([firing('x', 'info')])).toBe(false);
  expect(isScraped([{ labels: { lvms_probe: 'scraped' }, value: 2 }])).toBe(true);
});
it('the space that is full first counts', () => {
  const all = forecastsOf([fill('data', 7200), fill('metadata', 3600), fill('data', -1, 'b'), fill('data', 200 * 86_400, 'c'), fill('data', NaN, 'd')]);
  expect(all.get('a/vg1')).toEqual({ seconds: 3600, space: 'metadata' });
  expect([all.get('b/vg1'), all.get('c/vg1'), all.get('d/vg1'), all.get('e/vg1')]).toEqual([{}, {}, {}, undefined]);
});
it('time is rounded down', () => expect([ahead(7199), ahead(3 * 86_400 - 1), ahead(86_400 * 2 - 1)]).toEqual([[1, 'hour'], [2, 'day'], [47, 'hour']]));
