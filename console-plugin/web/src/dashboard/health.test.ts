import { expect, it } from 'vitest';
import type { LVMCluster } from '../api/types';
import { newCluster } from '../model/cluster';
import { validate } from '../model/validate';
import { fromYAML } from '../model/yaml';
import { handler, standingOf } from './health';
import { template } from './template';

const cluster = (state: string, volumeGroups = '1/1'): LVMCluster => ({ ...newCluster('ns'), status: { state: state as never, volumeGroups, observedGeneration: 1 } });
const of = (c?: LVMCluster) => standingOf({ clusters: { data: c ? [c] : [], loaded: true } }).state;

it('says how local storage is in the words of the console', () => {
  expect([of(cluster('Ready')), of(cluster('Ready', '0/0')), of(cluster('Progressing')), of(cluster('Degraded')), of(cluster('Failed')), of(cluster('Unknown')), of()]).toEqual(['OK', 'OK', 'PROGRESS', 'WARNING', 'ERROR', 'WARNING', 'NOT_AVAILABLE']);
});
it('what could not be read, or not yet, is not health', () => {
  expect(standingOf({ clusters: { data: [cluster('Ready')], loaded: true, loadError: new Error('no') } }).state).toBe('UNKNOWN');
  expect(standingOf(undefined).state).toBe('LOADING');
});
it('is translated with the texts of the plugin', () => {
  expect(handler({ clusters: { data: [], loaded: true } }, (key) => `<${key}>`)).toEqual({ state: 'NOT_AVAILABLE', message: '<plugin__lvms-console~Not set up>' });
  expect(handler({ clusters: { data: [], loaded: true } }).message).toBe('Not set up');
});
it('the template of the editor is right', () => {
  const parsed = fromYAML(template, newCluster('openshift-lvm-storage'));
  expect('cluster' in parsed && validate(parsed.cluster)).toEqual([]);
});
