import { expect, it } from 'vitest';
import type { LVMCluster, State } from '../api/types';
import { newCluster } from '../model/cluster';
import { mapper, model } from './inventory';

const cluster = (states: (State | undefined)[], volumeGroups?: string): LVMCluster => ({
  ...newCluster('ns'), status: { volumeGroups, deviceClassStatuses: [{ name: 'vg0' }, { name: 'vg1', nodeStatus: states.map((status, i) => ({ name: 'vg1', node: `n${i}`, status })) }] },
});
const counts = (...clusters: LVMCluster[]) => Object.fromEntries(Object.entries(mapper(clusters)).map(([group, { count }]) => [group, count]).filter(([, n]) => n !== 0));

it.each<[string, LVMCluster[], Record<string, number>]>([
  ['nothing is set up', [], {}],
  ['the operator has not looked yet', [newCluster('ns')], {}],
  ['each state has its sign', [cluster(['Ready', 'Ready', 'Degraded', 'Failed', 'Progressing', undefined], '2/6')], { NOT_MAPPED: 2, WARN: 1, ERROR: 1, PROGRESS: 2 }],
  ['a state that is not known here is not taken for ready', [cluster(['Unknown', 'Molten' as State], '0/2')], { UNKNOWN: 2 }],
  ['without the two numbers the list is counted', [cluster(['Ready'])], { NOT_MAPPED: 1 }],
  ['numbers that cannot be read change nothing', [cluster(['Ready'], 'many')], { NOT_MAPPED: 1 }],
  ['ready ones that were cut are counted', [cluster(['Failed', 'Ready'], '8/9')], { ERROR: 1, NOT_MAPPED: 8 }],
  ['others that were cut are not taken for ready', [cluster(['Failed'], '3/9')], { ERROR: 1, NOT_MAPPED: 3, UNKNOWN: 5 }],
  ['the numbers are older than the list', [cluster(['Failed', 'Ready'], '0/1')], { ERROR: 1, NOT_MAPPED: 1 }],
  ['of several LVMClusters the sum', [cluster(['Ready'], '1/1'), cluster(['Failed'], '0/1')], { NOT_MAPPED: 1, ERROR: 1 }],
])('%s', (_, clusters, want) => expect(counts(...clusters)).toEqual(want));
it('asked twice says the same', () => {
  const one = cluster(['Ready', 'Failed'], '1/2');
  expect(mapper([one])).toEqual(mapper([one]));
});
it('names what is counted, not the kind that is read', () =>
  expect(model).toMatchObject({ apiGroup: 'lvm.topolvm.io', plural: 'lvmclusters', crd: true, label: 'Local volume group', labelPluralKey: 'plugin__lvms-console~Local volume groups' }));
