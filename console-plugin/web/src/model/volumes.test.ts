import { expect, it } from 'vitest';
import type { LogicalVolume, PersistentVolume } from '../api/types';
import { newCluster, withClasses } from './cluster';
import { inEnglish } from './message';
import { classOf, volumesOf } from './volumes';

const lv = (name: string, more: Partial<LogicalVolume['spec']> = {}, annotations: Record<string, string> = {}, status: LogicalVolume['status'] = { volumeID: `id-${name}`, currentSize: '2Gi' }): LogicalVolume => ({
  metadata: { name, uid: `uid-${name}`, annotations }, spec: { name, nodeName: 'a', size: '1Gi', deviceClass: 'vg1', ...more }, status,
});
const pv = (name: string, handle: string, namespace = 'shop', claim = 'data', driver = 'topolvm.io'): PersistentVolume => ({ metadata: { name }, spec: { csi: { driver, volumeHandle: handle }, claimRef: { namespace, name: claim } }, status: { phase: 'Bound' } });

it('a volume has its claim, of the PersistentVolume or else of the annotation', () => {
  const list = volumesOf([lv('pvc-1'), lv('pvc-2', {}, { 'lvm.topolvm.io/claim': 'shop/logs' }), lv('pvc-3')], [pv('pvc-1', 'id-pvc-1'), pv('x', 'id-pvc-3', 'no', 'no', 'other.driver')]);
  expect(list.map((v) => [v.name, v.namespace, v.claim, v.persistentVolume, v.phase, v.size])).toEqual([
    ['pvc-3', undefined, undefined, undefined, undefined, 2 ** 31], ['pvc-1', 'shop', 'data', 'pvc-1', 'Bound', 2 ** 31], ['pvc-2', 'shop', 'logs', undefined, undefined, 2 ** 31],
  ]);
});
it('snapshots and copies know their source, and the source its snapshots', () => {
  const list = volumesOf([lv('pvc-1', {}, { 'lvm.topolvm.io/claim': 'shop/data' }), lv('snapshot-1', { source: 'pvc-1', accessType: 'ro' }), lv('pvc-2', { source: 'gone', accessType: 'rw' })], undefined);
  const by = Object.fromEntries(list.map((v) => [v.name, v]));
  expect([by['pvc-1']?.snapshots, by['snapshot-1']?.kind, by['snapshot-1']?.source, by['pvc-2']?.kind, by['pvc-2']?.source]).toEqual([1, 'snapshot', 'shop/data', 'volume', 'gone']);
});
it('what a move created is neither the volume of the claim nor a snapshot of it', () => {
  const made = { 'lvm.topolvm.io/claim': 'shop/data', 'lvm.topolvm.io/move': 'u1' };
  const list = volumesOf([lv('pvc-1', {}, { 'lvm.topolvm.io/claim': 'shop/data' }), lv('move-1', { source: 'pvc-1', accessType: 'ro' }, made), lv('move-copy', { source: 'move-1', accessType: 'rw', nodeName: 'b' }, made, {})], undefined);
  const by = Object.fromEntries(list.map((v) => [v.name, v]));
  expect(list.map((v) => [v.name, v.isPartOfMove]).sort()).toEqual([['move-1', true], ['move-copy', true], ['pvc-1', false]]);
  expect([by['pvc-1']?.snapshots, by['move-copy']?.problems]).toEqual([0, []]);
});
it('tells what is wrong, and those first', () => {
  const list = volumesOf([lv('a'), lv('b', {}, { 'lvm.topolvm.io/condition': 'lost a part' }), lv('c', {}, { 'lvm.topolvm.io/unclaimed': 'true' }), lv('d', {}, {}, { code: 8, message: 'no space' }), lv('e', {}, {}, {}), { ...lv('f'), metadata: { name: 'f', deletionTimestamp: 'x' } }], []);
  expect(list.map((v) => [v.name, ...v.problems.map(inEnglish)])).toEqual([
    ['b', 'lost a part'], ['c', 'Orphaned: no PersistentVolume, snapshot or claim refers to this volume. It is not deleted automatically.'], ['d', 'no space'], ['e', 'The volume is being created.'], ['f', 'The volume is being deleted.'], ['a'],
  ]);
});
it('a copy in progress is no problem, and an error of it is', () => {
  const copy = (code: number, more: LogicalVolume['status'] = {}) => lv('c', { source: 's' }, {}, { code, message: '3 of 12 MiB', ...more });
  const list = volumesOf([copy(10), copy(14), copy(10, { volumeID: 'c' }), lv('c', {}, {}, { code: 10, message: '3 of 12 MiB' })], []);
  expect(list.map((v) => [v.copying, ...v.problems.map(inEnglish)]).sort()).toEqual([[undefined, '3 of 12 MiB'], [undefined, '3 of 12 MiB'], [undefined, '3 of 12 MiB'], ['3 of 12 MiB']].sort());
  expect(volumesOf([{ ...copy(10), metadata: { name: 'c', deletionTimestamp: 'x' } }], [])[0]?.copying).toBeUndefined();
});
it('one without a device class is of the default one', () => {
  const [fast, safe] = [{ name: 'fast', default: true }, { name: 'safe' }];
  expect(classOf(lv('a', { deviceClass: '' }), withClasses(newCluster('ns'), [safe, fast]))).toBe('fast');
  expect(classOf(lv('a', { deviceClass: undefined }), withClasses(newCluster('ns'), [safe]))).toBe('safe');
  expect(classOf(lv('a', { deviceClass: undefined }), undefined)).toBeUndefined();
  expect(classOf(lv('a'), undefined)).toBe('vg1');
});
