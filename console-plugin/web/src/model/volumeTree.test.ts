import { describe, expect, it } from 'vitest';
import type { LogicalVolume } from '../api/types';
import { MOST_LEVELS, rowsOf, treeOf, withAncestors } from './volumeTree';
import { volumesOf, type Volume } from './volumes';

const lv = (name: string, source?: string, annotations: Record<string, string> = {}): LogicalVolume => ({
  metadata: { name, uid: name, annotations }, spec: { name, nodeName: 'a', size: '1Gi', deviceClass: 'vg1', ...(source ? { source, accessType: 'ro' } : {}) }, status: { volumeID: name, currentSize: '1Gi' },
});
const broken = { 'lvm.topolvm.io/condition': 'lost a part' };
const volumes = (...list: LogicalVolume[]): Volume[] => volumesOf(list, undefined);
const shown = (list: Volume[], expanded: (name: string) => boolean = () => true, exists?: (name: string) => boolean) =>
  rowsOf(treeOf(list, exists), expanded).map((r) => `${'-'.repeat(r.level)}${r.volume.name} ${r.position}/${r.siblings}${r.children ? (r.expanded ? ' open' : ' closed') : ''}${r.orphan ? ' orphan' : ''}${r.problems ? ` ${r.problems} problems` : ''}`);

describe('the tree', () => {
  const family = volumes(lv('v'), lv('s1', 'v'), lv('s2', 'v'), lv('c', 's1'), lv('w'));
  it('has what was created from a volume below it', () => expect(shown(family)).toEqual(['-v 1/2 open', '--s1 1/2 open', '---c 1/1', '--s2 2/2', '-w 2/2']));
  it('has only what is expanded', () => {
    expect(shown(family, () => false)).toEqual(['-v 1/2 closed', '-w 2/2']);
    expect(shown(family, (n) => n === 'v')).toEqual(['-v 1/2 open', '--s1 1/2 closed', '--s2 2/2', '-w 2/2']);
  });
  it('has one whose source does not exist at the top, with a note', () => {
    expect(shown(volumes(lv('a'), lv('s', 'gone')), () => true, (n) => n === 'a')).toEqual(['-s 1/2 orphan', '-a 2/2']);
  });
  it('has no note if the source is elsewhere, or the sources could not be read', () => {
    expect(shown(volumes(lv('s', 'other')), () => true, () => true)).toEqual(['-s 1/1']);
    expect(shown(volumes(lv('s', 'gone')))).toEqual(['-s 1/1']);
  });
  it('says at the top that something below has a problem, and puts it before others', () => {
    expect(shown(volumes(lv('a'), lv('v'), lv('s', 'v'), lv('t', 's', broken)), () => false)).toEqual(['-v 1/2 closed 1 problems', '-a 2/2']);
  });
  it('is not deeper than its limit, and nothing is left out', () => {
    const rows = rowsOf(treeOf(volumes(lv('v00'), ...Array.from({ length: 30 }, (_, i) => lv(`v${String(i + 1).padStart(2, '0')}`, `v${String(i).padStart(2, '0')}`)))), () => true);
    expect(rows).toHaveLength(31);
    expect(Math.max(...rows.map((r) => r.level))).toBe(MOST_LEVELS);
  });
  it('leaves out no volume of a cycle', () => {
    expect(rowsOf(treeOf(volumes(lv('a', 'b'), lv('b', 'c'), lv('c', 'a'), lv('d', 'a'), lv('e', 'e'))), () => true).map((r) => r.volume.name).sort()).toEqual(['a', 'b', 'c', 'd', 'e']);
  });
  it('of nothing is empty', () => expect(shown([])).toEqual([]));
});

it('what a filter finds stands in its tree, also in a cycle', () => {
  const list = volumes(lv('v'), lv('s1', 'v'), lv('s2', 'v'), lv('w'), lv('x', 'y'), lv('y', 'x'));
  expect(withAncestors(list, (v) => v.name === 's2').map((v) => v.name).sort()).toEqual(['s2', 'v']);
  expect(withAncestors(list, (v) => v.name === 'x').map((v) => v.name).sort()).toEqual(['x', 'y']);
  expect(withAncestors(list, () => false)).toEqual([]);
});
