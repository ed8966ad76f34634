import { describe, expect, it } from 'vitest';
import type { LVMCluster } from '../api/types';
import { newClass, newCluster, withClasses } from './cluster';
import { inEnglish } from './message';
import { fromYAML, toYAML } from './yaml';

const cluster = withClasses({ ...newCluster('ns', 'c'), status: { state: 'Ready' } }, [newClass([])]);
const read = (text: string, current: LVMCluster = cluster) => fromYAML(text, current);
const fault = (text: string) => {
  const parsed = read(text);
  return 'fault' in parsed ? [parsed.fault.line, inEnglish(parsed.fault.message)] : undefined;
};
const head = 'apiVersion: lvm.topolvm.io/v1alpha1\nkind: LVMCluster\nmetadata: {name: c, namespace: ns}\n';

it('text and object are the same, there and back', () => {
  const parsed = read(toYAML(cluster));
  expect('cluster' in parsed && parsed.cluster).toEqual(cluster);
});
it('what the server alone writes is not shown, and kept', () => {
  const live = { ...cluster, metadata: { ...cluster.metadata, uid: 'u', resourceVersion: '7', generation: 2, managedFields: [] } } as LVMCluster;
  expect(toYAML(live)).not.toMatch(/resourceVersion|uid|status|managedFields/);
  const parsed = read(toYAML(live), live);
  expect('cluster' in parsed && parsed.cluster.metadata).toMatchObject({ name: 'c', uid: 'u', resourceVersion: '7', generation: 2 });
  expect('cluster' in parsed && parsed.cluster.status).toEqual({ state: 'Ready' });
});
it('fields that the form does not know are kept', () => {
  const parsed = read(`${head}spec: {future: [1, {a: b}], storage: {deviceClasses: [{name: x, more: 1}]}}`);
  expect('cluster' in parsed && parsed.cluster.spec).toEqual({ future: [1, { a: 'b' }], storage: { deviceClasses: [{ name: 'x', more: 1 }] } });
});
it('nothing where lists and maps could be is no fault', () => expect(fault(`${head}spec:\n  storage:\n    deviceClasses:\n`)).toBeUndefined());

describe('tells line and cause', () => {
  it.each<[string, string, number, RegExp]>([
    ['no YAML', 'a: [', 1, /not valid/], ['a key twice', 'kind: a\nkind: b', 2, /not valid/], ['a list', '- a', 1, /must be a map/], ['nothing', '', 0, /LVMCluster must be set/],
    ['another kind', 'apiVersion: v1\nkind: Pod\nmetadata: {}', 1, /describes Pod v1/], ['classes as a text', `${head}spec:\n  storage:\n    deviceClasses: none`, 6, /deviceClasses must be a list/],
    ['a class without a name', `${head}spec: {storage: {deviceClasses: [{}]}}`, 0, /0\.name must be set/], ['a class that is nothing', `${head}spec: {storage: {deviceClasses: [null]}}`, 4, /0 must be set/],
    ['a number as a name', `${head}spec: {storage: {deviceClasses: [{name: 1}]}}`, 4, /name must be a string/], ['a path that is a map', `${head}spec: {storage: {deviceClasses: [{name: a, deviceSelector: {paths: [{}]}}]}}`, 4, /paths.0 must be a string/],
    ['a percent in words', `${head}spec: {storage: {deviceClasses: [{name: a, thinPoolConfig: {name: p, overprovisionRatio: ten}}]}}`, 4, /must be a number/],
    ['a label that is a number', `${head}spec: {storage: {deviceClasses: [{name: a, storageClassOptions: {additionalLabels: {x: 1}}}]}}`, 4, /additionalLabels.x must be a string/],
    ['a node selector without terms', `${head}spec: {storage: {deviceClasses: [{name: a, nodeSelector: {}}]}}`, 0, /nodeSelectorTerms must be set/], ['too many aliases', `a: &a [1,1]\nb: &b [${'*a,'.repeat(20)}]\nc: [${'*b,'.repeat(20)}]`, 0, /not valid/],
  ])('%s', (_, text, line, says) => expect(fault(text)).toEqual([line, expect.stringMatching(says)]));
});
