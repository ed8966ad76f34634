import { readFileSync } from 'node:fs';
import { describe, expect, it } from 'vitest';
import type { LogicalVolume, LVMRecovery, NodeStatus, RecoveryAction, RecoveryPlan, VGStatus } from '../api/types';
import { inEnglish } from './message';
import {
  actionNames, ageOf, approvalPatch, byProblem, checkable, claimOf, emptyDraft, isApprovable, isUrgent, levelOf, lossesOf, losesData, NEARLY_FULL, obstacleOf, openSuggestions, orphansOf, problemOf, recoveryOf, sorted, suggestionsOf, unfinished, unlisted,
  type Draft,
} from './recovery';
import { volumesOf } from './volumes';

const status = (group: Partial<VGStatus>): NodeStatus => ({ metadata: { name: 'a' }, status: { nodeStatus: [{ name: 'other', conditions: [{ type: 'ThinPoolHealthy', status: 'False', reason: 'ThinPoolFailed' }] }, { name: 'vg1', ...group }] } });
const wrong = (reason: string, message = '', type = 'T') => ({ type, status: 'False' as const, reason, message });
const suggested = (group: Partial<VGStatus>) => suggestionsOf(status(group), 'vg1').map((s) => `${s.action} (${s.cause})`);
const hint = (action: string) => `create an LVMRecovery {nodeName: a, deviceClassName: vg1, action: ${action}}, which changes nothing until it is approved`;

describe('what the status suggests', () => {
  it.each<[string, string, string[]]>([
    ['DeviceMissing', `attach the disk again; if the disk is lost, so is data of volumes: ${hint('RemoveLostDevices')}`, ['RemoveLostDevices (DeviceMissing)']],
    ['DeviceMissing', `to restore the label, ${hint('RestoreLabels')}; if the data was overwritten, too, ${hint('RemoveLostDevices')}`, ['RestoreLabels (DeviceMissing)']],
    ['DeviceMissing', `was deleted: to restore it, ${hint('RestoreMetadata')}; if its data is not needed, ${hint('RemoveLostDevices')}`, ['RestoreMetadata (DeviceMissing)']],
    ['DeviceMissing', '', ['RemoveLostDevices (DeviceMissing)']],
    ['DeviceMissing', 'run on the node: lvmdevices --adddev /dev/sdb', []],
    ['DeviceMissing', `lvmdevices --adddev /dev/sdb\n${hint('RemoveLostDevices')}`, []],
    ['DeviceMissing', 'run on the node: vgextend --restoremissing vg1 /dev/sdb', []],
    ['DeviceMissing', 'no volume is affected: add to the deviceRequests of the device class: {node: a}', []],
    ['RAIDFailed', '', ['RemoveLostDevices (RAIDFailed)']],
    ['ThinPoolNeedsCheck', '', ['RepairThinPool (ThinPoolNeedsCheck)']],
    ['ThinPoolReadOnly', '', ['RepairThinPool (ThinPoolReadOnly)']],
    ['ThinPoolFailed', '', ['RepairThinPool (ThinPoolFailed)']],
    ['ThinPoolFailed', `its metadata does not match: ${hint('RestoreMetadata')}`, ['RestoreMetadata (ThinPoolFailed)']],
    ['ThinPoolFailed', 'no longer has the thin pool: restore it (vgcfgrestore --list vg1)', []],
    ['ThinPoolOutOfMetadata', '', ['RepairThinPool (ThinPoolOutOfMetadata)']],
    ['ThinPoolOutOfData', '', ['FreePoolSpace (ThinPoolOutOfData)']],
    ['ThinPoolCannotGrow', '', ['FreePoolSpace (ThinPoolCannotGrow)']],
    ['DeviceFailing', '', []],
    ['RAIDDegraded', '', []],
    ['constructor', '', []],
  ])('%s, %j', (reason, message, want) => expect(suggested({ conditions: [wrong(reason, message)] })).toEqual(want));

  it('is what docs/how-to/recover.md says, for each reason', () => {
    const [, table = ''] = readFileSync('../../docs/how-to/recover.md', 'utf8').split('| the status says | action |');
    const rows = [...(table.split('\n\n')[0] ?? '').matchAll(/^\| (.*) \| \[`(\w+)`\]/gm)];
    const documented = rows.flatMap(([, says = '', action]) => [...says.matchAll(/`((?:ThinPool|RAID)\w+)`/g)].map((m) => ({ reason: m[1] ?? '', action, named: says.includes('the message names') })));
    expect(documented.length).toBeGreaterThanOrEqual(7);
    for (const { reason, action = '', named } of documented) {
      expect(suggested({ conditions: [wrong(reason, named ? hint(action) : '')] }), reason).toEqual([`${action} (${reason})`]);
    }
    for (const [, , action] of rows) expect(actionNames, action).toContain(action);
  });
  it('a missing device decides alone: its pool and its RAID volumes cannot be repaired meanwhile', () => {
    expect(suggested({ conditions: [wrong('ThinPoolFailed'), wrong('DeviceMissing', hint('RemoveLostDevices')), wrong('RAIDFailed')] })).toEqual(['RemoveLostDevices (DeviceMissing)']);
    expect(suggested({ conditions: [wrong('ThinPoolFailed'), wrong('DeviceMissing', 'lvmdevices --adddev /dev/sdb')] })).toEqual([]);
  });
  it('nothing, if nothing is wrong or known', () => {
    expect(suggested({ conditions: [{ type: 'ThinPoolHealthy', status: 'True', reason: 'ThinPoolFailed' }] })).toEqual([]);
    expect(suggested({})).toEqual([]);
    expect(suggestionsOf({ metadata: { name: 'a' } }, 'vg1')).toEqual([]);
  });
  it('a pool that is nearly full, unless a condition says more', () => {
    const thinPool = { name: 'p', size: '1Gi', metadataSize: '1Mi', dataPercent: NEARLY_FULL, metadataPercent: 0, virtualSize: '1Gi' };
    expect(suggested({ thinPool })).toEqual(['FreePoolSpace (PoolNearlyFull)']);
    expect(suggested({ thinPool: { ...thinPool, dataPercent: NEARLY_FULL - 0.1 } })).toEqual([]);
    expect(suggested({ thinPool, conditions: [wrong('ThinPoolOutOfData')] })).toEqual(['FreePoolSpace (ThinPoolOutOfData)']);
  });
  it('orphans that are logical volumes only, the action that keeps them first', () => {
    const orphans = [{ kind: 'LogicalVolume' as const, name: 'vg1/x', size: '1Gi', claim: 'shop/data' }, { kind: 'Object' as const, name: 'y' }, { kind: 'Unclaimed' as const, name: 'z' }];
    expect(suggestionsOf(status({ orphans }), 'vg1').map((s) => [s.action, s.count])).toEqual([['ImportVolumes', 1], ['DeleteOrphans', 1]]);
    expect(suggested({ orphans: orphans.slice(1) })).toEqual([]);
    expect(orphansOf({ name: 'vg1', orphans }, 'DeleteOrphans')).toEqual([{ name: 'x', size: 2 ** 30, claim: 'shop/data' }]);
    expect(orphansOf(undefined, 'DeleteOrphans')).toEqual([]);
  });
  it('a volume whose object names another node is imported, and never deleted', () => {
    const orphans = [{ kind: 'OtherNode' as const, name: 'vg1/x', size: '1Gi', claim: 'shop/data', object: 'pvc-1', objectNode: 'b' }];
    expect(suggestionsOf(status({ orphans }), 'vg1').map((s) => [s.action, s.count])).toEqual([['ImportVolumes', 1]]);
    expect(orphansOf({ name: 'vg1', orphans }, 'ImportVolumes')).toEqual([{ name: 'x', size: 2 ** 30, claim: 'shop/data' }]);
    expect(orphansOf({ name: 'vg1', orphans }, 'DeleteOrphans')).toEqual([]);
  });
});

const plan = (more: Partial<RecoveryPlan> = {}): RecoveryPlan => ({ id: 'p1', creationTime: '2026-01-01T00:00:00Z', devices: [], lostVolumeCount: 0, keptVolumeCount: 3, ...more });
const recovery = (more: Partial<LVMRecovery['status']> & object = {}, spec: Partial<LVMRecovery['spec']> = {}, metadata: Partial<LVMRecovery['metadata']> = {}): LVMRecovery => ({
  metadata: { name: 'r', namespace: 'ns', uid: 'u1', creationTimestamp: '2026-01-02T00:00:00Z', ...metadata }, spec: { nodeName: 'a', deviceClassName: 'vg1', action: 'RemoveLostDevices', ...spec }, status: { phase: 'AwaitingApproval', plan: plan(), ...more },
});

describe('recoveries', () => {
  it('no suggestion for what is already asked for', () => {
    const s = suggestionsOf(status({ conditions: [wrong('RAIDFailed')] }), 'vg1');
    expect(openSuggestions(s, 'vg1', [recovery()])).toEqual([]);
    expect(openSuggestions(s, 'vg1', [recovery({ phase: 'Succeeded' }), recovery({}, { nodeName: 'b' }), recovery({}, { deviceClassName: 'x' }), recovery({}, { action: 'RepairThinPool' })])).toEqual(s);
  });
  it('suggestions are together for each problem of a node, orphans last', () => {
    const group = { conditions: [wrong('RAIDFailed')], orphans: [{ kind: 'LogicalVolume' as const, name: 'vg1/x' }] };
    const both = [...suggestionsOf(status({ orphans: group.orphans }), 'vg1'), ...suggestionsOf({ ...status(group), metadata: { name: 'b' } }, 'vg1')];
    expect(byProblem(both).map((l) => l.map((s) => `${s.node} ${s.action}`))).toEqual([['b RemoveLostDevices'], ['a ImportVolumes', 'a DeleteOrphans'], ['b ImportVolumes', 'b DeleteOrphans']]);
  });
  it('those that have not ended, the oldest first', () => {
    const list = [recovery(), recovery({ phase: 'Running' }, {}, { name: 'old', creationTimestamp: '2025-01-01T00:00:00Z' }), recovery({ phase: 'Succeeded' }), recovery({}, {}, { deletionTimestamp: 'x' })];
    expect(unfinished(list, 'a', 'vg1').map((r) => r.metadata.name)).toEqual(['old', 'r']);
  });
  it('those that wait for an approval are first, then the newest', () => {
    const list = [recovery({ phase: 'Succeeded' }, {}, { name: 'new', creationTimestamp: '2027' }), recovery({ phase: 'Running' }, {}, { name: 'old', creationTimestamp: '2025' }), recovery()];
    expect(sorted(list).map((r) => r.metadata.name)).toEqual(['r', 'new', 'old']);
    expect(list[0]?.metadata.name).toBe('new');
  });
  it('are urgent if something is wrong or waits, and not for orphans alone', () => {
    const orphans = suggestionsOf(status({ orphans: [{ kind: 'LogicalVolume', name: 'vg1/x' }] }), 'vg1');
    expect(isUrgent(orphans, [recovery({ phase: 'Running' })])).toBe(false);
    expect(isUrgent(orphans, [recovery()])).toBe(true);
    expect(isUrgent(suggestionsOf(status({ conditions: [wrong('RAIDFailed')] }), 'vg1'), [])).toBe(true);
  });
  it('levels', () => expect([undefined, 'Running', 'Preparing', 'AwaitingApproval', 'NotApplicable', 'Succeeded'].map((p) => levelOf(p as never))).toEqual(['info', 'info', 'info', 'warning', 'info', 'success']));
});

describe('losses', () => {
  it('are by claim, whole volumes first, and volumes without a claim last', () => {
    const p = plan({
      lostVolumeCount: 5, lostVolumes: [{ name: 'v0', size: 5 }, { name: 'v1', claim: 'shop/b', size: 10 }, { name: 'v2', claim: 'shop/a', size: 1 }, { name: 'v3', claim: 'shop/b', size: 20 }],
      damagedVolumes: [{ name: 'v4', claim: 'shop/b', size: 9, lostBytes: 4 }],
    });
    expect(lossesOf(p).map((l) => [l.kind, l.claim?.name, l.volumes, l.size, l.lostBytes])).toEqual([
      ['lost', 'a', ['v2'], 1, 0], ['lost', 'b', ['v1', 'v3'], 30, 0], ['lost', undefined, ['v0'], 5, 0], ['damaged', 'b', ['v4'], 9, 4],
    ]);
    expect(unlisted(p)).toBe(1);
    expect(unlisted(plan())).toBe(0);
  });
  it('need more than a click, whatever tells of them', () => {
    expect(losesData(plan())).toBe(false);
    expect(losesData(plan({ lostVolumeCount: 1 }))).toBe(true);
    expect(losesData(plan({ lostVolumes: [{ name: 'x' }] }))).toBe(true);
    expect(losesData(plan({ damagedVolumes: [{ name: 'x' }] }))).toBe(true);
  });
});

describe('approval', () => {
  it('is of the plan that waits for one', () => {
    expect(isApprovable(recovery())).toBe(true);
    expect(isApprovable(recovery({}, { approvedPlan: 'p0' }))).toBe(true);
    expect(isApprovable(recovery({}, { approvedPlan: 'p1' }))).toBe(false);
    expect(isApprovable(recovery({ phase: 'NotApplicable' }))).toBe(false);
    expect(isApprovable(recovery({ plan: undefined }))).toBe(false);
    expect(isApprovable(recovery({}, {}, { deletionTimestamp: 'x' }))).toBe(false);
  });
  it.each<[string, LVMRecovery | undefined, ReturnType<typeof obstacleOf>]>([
    ['the same', recovery(), undefined], ['deleted', undefined, 'gone'], ['another of the same name', recovery({}, {}, { uid: 'u2' }), 'gone'], ['being deleted', recovery({}, {}, { deletionTimestamp: 'x' }), 'gone'],
    ['a new plan', recovery({ plan: plan({ id: 'p2' }) }), 'changed'], ['no plan', recovery({ plan: undefined }), 'changed'], ['already approved', recovery({}, { approvedPlan: 'p1' }), 'approved'],
    ['runs', recovery({ phase: 'Running' }, { approvedPlan: 'p1' }), 'approved'], ['runs with another plan', recovery({ phase: 'Running', plan: plan({ id: 'p2' }) }, { approvedPlan: 'p2' }), 'ended'],
    ['no longer applies', recovery({ phase: 'NotApplicable' }), 'ended'],
  ])('what is shown is compared with what is there: %s', (_, now, want) => expect(obstacleOf(plan(), 'u1', now)).toBe(want));
  it('is a patch that holds for this object and this plan only', () =>
    expect(approvalPatch(recovery({ plan: plan({ id: 'newer' }) }), plan())).toEqual([
      { op: 'test', path: '/metadata/uid', value: 'u1' }, { op: 'test', path: '/status/plan', value: plan() }, { op: 'add', path: '/spec/approvedPlan', value: 'p1' },
    ]));
});

describe('a new recovery', () => {
  const draft = (more: Partial<Draft>): Draft => ({ ...emptyDraft, node: 'a', ...more });
  const problem = (d: Draft) => {
    const p = problemOf(d, 'vg1');
    return p && inEnglish(p);
  };
  it.each<[Partial<Draft>, RegExp | undefined]>([
    [{ node: '' }, /Select a node/], [{}, /Select an action/], [{ action: 'RemoveLostDevices' }, undefined], [{ action: 'RemoveLostDevices', typed: '?!' }, undefined],
    [{ action: 'DeleteOrphans' }, /at least one volume/], [{ action: 'CheckFileSystems', typed: ' \n' }, /at least one volume/], [{ action: 'ImportVolumes' }, undefined],
    [{ action: 'DeleteOrphans', selected: ['x'] }, undefined], [{ action: 'DeleteOrphans', typed: 'a/b' }, /a\/b is not the name/], [{ action: 'DeleteOrphans', typed: 'x y' }, /one volume on each line/],
    [{ action: 'DeleteOrphans', typed: 'vg1/x' }, undefined], [{ action: 'ImportVolumes', typed: 'x shop/data' }, undefined], [{ action: 'ImportVolumes', typed: 'x data' }, /data is not a claim/],
    [{ action: 'ImportVolumes', selected: ['x'], claims: { x: 'data' } }, /data is not a claim/], [{ action: 'DeleteOrphans', selected: ['x'], claims: { x: 'data' } }, undefined],
  ])('%j', (more, want) => (want ? expect(problem(draft(more))).toMatch(want) : expect(problem(draft(more))).toBeUndefined()));
  it('has volumes and claims for the actions that have them, each once', () => {
    const spec = (d: Partial<Draft>) => recoveryOf(draft(d), 'vg1', 'ns').spec;
    const all = { selected: ['x', 'y'], typed: 'vg1/x\nz  shop/data\n', claims: { y: ' shop/logs ', gone: 'shop/gone' } };
    expect(spec({ action: 'ImportVolumes', ...all })).toEqual({
      nodeName: 'a', deviceClassName: 'vg1', action: 'ImportVolumes', volumes: ['x', 'y', 'z'], claims: [{ volume: 'y', namespace: 'shop', name: 'logs' }, { volume: 'z', namespace: 'shop', name: 'data' }],
    });
    expect(spec({ action: 'ImportVolumes' })).toEqual({ nodeName: 'a', deviceClassName: 'vg1', action: 'ImportVolumes' });
    expect(spec({ action: 'RepairThinPool', ...all })).toEqual({ nodeName: 'a', deviceClassName: 'vg1', action: 'RepairThinPool' });
    expect(spec({ action: 'DeleteOrphans', selected: ['x'], claims: { x: 'shop/data' } })).toEqual({ nodeName: 'a', deviceClassName: 'vg1', action: 'DeleteOrphans', volumes: ['x'] });
    expect(recoveryOf(draft({ action: 'FreePoolSpace' }), 'vg1', 'ns').metadata).toEqual({ generateName: 'a-vg1-', namespace: 'ns' });
  });
  it('has the actions of the CRD, and no other', () => {
    const crd = readFileSync('../../config/crd/lvm.topolvm.io_lvmrecoveries.yaml', 'utf8');
    const listed = [...(/enum:\n((?:\s+- \w+\n)+)/.exec(crd)?.[1] ?? '').matchAll(/- (\w+)/g)].map((m) => m[1] as RecoveryAction);
    expect([...actionNames].sort()).toEqual(listed.sort());
  });
  it('checks the volumes of the node, those with a problem first', () => {
    const lv = (name: string, more: Partial<LogicalVolume['spec']> = {}, annotations: Record<string, string> = {}): LogicalVolume => ({
      metadata: { name, annotations }, spec: { name, nodeName: 'a', size: '1Gi', deviceClass: 'vg1', ...more }, status: { volumeID: `id-${name}` },
    });
    const list = volumesOf([lv('x', {}, { 'lvm.topolvm.io/claim': 'shop/a' }), lv('y', { nodeName: 'b' }), lv('snap', { accessType: 'ro', source: 'x' }), lv('z', {}, { 'lvm.topolvm.io/condition': 'file system has errors' }), { ...lv('new'), status: undefined }], []);
    expect(checkable(list, 'a', inEnglish)).toEqual([
      { name: 'id-z', size: 2 ** 30, claim: undefined, problem: 'file system has errors' }, { name: 'id-x', size: 2 ** 30, claim: 'shop/a', problem: undefined },
    ]);
  });
});

it.each<[string | undefined, unknown]>([['shop/data', { namespace: 'shop', name: 'data' }], ['data', undefined], ['a/b/c', undefined], ['/x', undefined], [undefined, undefined]])('claim %s', (text, want) => expect(claimOf(text)).toEqual(want));
it.each<[number, string]>([[0, '0 sec'], [59, '59 sec'], [60, '1 min'], [7200, '2 hr'], [90_000, '1 day'], [-5, '0 sec']])('%d seconds are %s', (seconds, want) =>
  expect(ageOf('2026-01-01T00:00:00Z', Date.parse('2026-01-01T00:00:00Z') + seconds * 1000, 'en')).toBe(want));
it('no time has no age', () => expect(ageOf(undefined, 0, 'en')).toBe('–'));
