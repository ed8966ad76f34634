import { describe, expect, it } from 'vitest';
import type { MovePhase, NodeStatus, VolumeMove } from '../api/types';
import { copiedOf, durationOf, emptyMove, formatDuration, levelOf, moveOfClaim, movesOfNode, newMove, openMove, problemOf, secondsOf, sorted, targetOf, targetsOf, undoOf, type Undo } from './moves';

const move = (name: string, phase?: MovePhase, more: Partial<VolumeMove['status']> & object = {}, created = '2026-01-01T00:00:00Z'): VolumeMove => ({
  metadata: { name, creationTimestamp: created }, spec: { claim: { namespace: 'shop', name: 'data' } }, ...(phase ? { status: { phase, ...more } } : {}),
});
const names = (moves: VolumeMove[]) => moves.map((m) => m.metadata.name);

describe('the move of a claim', () => {
  it.each<[MovePhase | undefined, boolean, boolean]>([
    [undefined, true, true], ['Pending', true, true], ['Copying', true, true], ['WaitingForPods', true, true], ['Switching', true, true], ['KeepingSource', false, true], ['Completed', false, false], ['Failed', false, false],
  ])('%s: it is open (%s), and the claim shows it (%s)', (phase, open, shown) => {
    expect([openMove([move('x', phase)], 'shop/data') !== undefined, moveOfClaim([move('x', phase)], 'shop/data') !== undefined]).toEqual([open, shown]);
    expect(moveOfClaim([move('x', phase)], 'shop/other')).toBeUndefined();
  });
  it('is the open one before one whose old logical volume is kept, and of those the newest', () => {
    const kept = [move('old', 'KeepingSource'), move('new', 'KeepingSource', {}, '2026-01-02T00:00:00Z')];
    expect(moveOfClaim(kept, 'shop/data')?.metadata.name).toBe('new');
    expect(moveOfClaim([...kept, move('open', 'Copying')], 'shop/data')?.metadata.name).toBe('open');
  });
});

it('those that somebody has to act on come first, and those that have ended last', () => {
  expect(names(sorted([move('ended', 'Completed', {}, '2026-02-01T00:00:00Z'), move('b', 'Copying'), move('newer', 'Pending', {}, '2026-01-05T00:00:00Z'), move('pods', 'WaitingForPods'), move('a')]))).toEqual(['pods', 'newer', 'a', 'b', 'ended']);
});
it('a node has the moves from it and to it', () => {
  const wanted = move('wanted');
  wanted.spec.nodeName = 'n2';
  const moves = [move('from', 'Copying', { sourceNode: 'n1', targetNode: 'n3' }), move('to', 'Copying', { sourceNode: 'n4', targetNode: 'n1' }), wanted];
  expect([names(movesOfNode(moves, 'n1')), names(movesOfNode(moves, 'n2')), targetOf(move('x'))]).toEqual([['from', 'to'], ['wanted'], undefined]);
});

describe('the progress', () => {
  it('is rounded down, and never more than all', () => {
    expect(copiedOf(move('x', 'Copying', { round: 2, copiedBytes: 999, totalBytes: 1000 }))).toEqual({ round: 2, copied: 999, total: 1000, percent: 99 });
    expect(copiedOf(move('x', 'Copying', { round: 1, copiedBytes: 1001, totalBytes: 1000 }))?.percent).toBe(100);
  });
  it('is not known before the first round, and of no interest after the switch', () => {
    expect([copiedOf(move('x')), copiedOf(move('x', 'Pending', { totalBytes: 5 })), copiedOf(move('x', 'Copying', { round: 1 })), copiedOf(move('x', 'KeepingSource', { round: 3, totalBytes: 5 }))]).toEqual([undefined, undefined, undefined, undefined]);
  });
  it('is a warning only if somebody has to act', () => {
    expect(['Pending', 'Copying', 'WaitingForPods', 'Switching', 'KeepingSource', 'Completed', 'Failed', undefined].map((p) => levelOf(p as MovePhase))).toEqual(['info', 'info', 'warning', 'info', 'success', 'success', 'danger', 'info']);
  });
});

it.each<[MovePhase | undefined, Partial<VolumeMove['status']> & object, Undo]>([
  [undefined, {}, 'stays'], ['Pending', {}, 'stays'], ['Copying', {}, 'stays'], ['WaitingForPods', {}, 'stays'], ['Switching', {}, 'switching'], ['Switching', { switchTime: '2026-01-01T00:00:00Z' }, 'removesSource'],
  ['KeepingSource', {}, 'removesSource'], ['Completed', {}, 'record'], ['Failed', {}, 'failed'],
])('what a deletion does in phase %s %j: %s', (phase, status, undo) => expect(undoOf(move('x', phase, status))).toBe(undo));

describe('durations', () => {
  it.each<[string, number | undefined]>([['30s', 30], ['1h30m', 5400], ['1.5h', 5400], ['100ms', 0.1], ['', undefined], ['30', undefined], ['s', undefined], ['1d', undefined], ['-1s', undefined], ['1s x', undefined]])('%s', (text, seconds) => expect(secondsOf(text)).toBe(seconds));
  it.each<[number, string]>([[0, '0s'], [59, '59s'], [60, '1m0s'], [3600, '1h0m0s'], [25600, '7h6m40s']])('%d', (seconds, text) => expect(durationOf(seconds)).toBe(text));
});

it.each<[number, string, string]>([[0, 'en', '0 sec'], [102, 'en', '1 min 42 sec'], [3600, 'en', '1 hr'], [3661, 'fr', '1 h 1 min 1 s']])('%d seconds in %s: %s', (seconds, locale, text) => expect(formatDuration(seconds, locale).replace(/[\u00a0\u202f]/g, ' ')).toBe(text));

describe('a new move', () => {
  it('has what was asked for, and a name from the API server', () => {
    const common = { apiVersion: 'lvm.topolvm.io/v1alpha1', kind: 'VolumeMove', metadata: { namespace: 'ns', generateName: 'shop-data-' } };
    const claim = { namespace: 'shop', name: 'data' };
    expect(newMove('ns', 'shop/data')).toEqual({ ...common, spec: { claim } });
    expect(newMove('ns', 'shop/data', emptyMove)).toEqual({ ...common, spec: { claim, maxPause: '30s', keepSource: '24h' } });
    expect(newMove('ns', 'shop/data', { node: 'b', maxPause: ' 1m ', keepSource: '0s' })).toEqual({ ...common, spec: { claim, nodeName: 'b', maxPause: '1m', keepSource: '0s' } });
    expect(newMove('ns', 'shop/data', { node: '', keepSource: '1h' })).toEqual({ ...common, spec: { claim, keepSource: '1h' } });
  });
  it.each<[string | undefined, string, RegExp | undefined]>([
    ['30s', '24h', undefined], [undefined, '24h', undefined], [undefined, 'x', /old logical volume/], ['1s', '0s', undefined], ['24h', '8760h', undefined], ['999ms', '24h', /maximum pause/], ['25h', '24h', /maximum pause/], ['x', '24h', /maximum pause/], ['30s', '8761h', /old logical volume/], ['30s', '', /old logical volume/],
  ])('with pause %s and source kept for %s', (maxPause, keepSource, problem) => {
    const found = problemOf({ node: '', maxPause, keepSource })?.key;
    if (problem) expect(found).toMatch(problem);
    else expect(found).toBeUndefined();
  });
  describe('can go to the other nodes', () => {
    const status = (node: string, name: string, free?: string, thin = true): NodeStatus => ({ metadata: { name: node }, status: { nodeStatus: [{ name, ...(thin ? { free: '99', thinPool: { name: 'p', size: '10Gi', metadataSize: '1Gi', dataPercent: 1, metadataPercent: 1, virtualSize: '1Gi', free } } : { free }) }] } });
    const all = (thin: boolean) => [status('a', 'vg1', '9', thin), status('b', 'vg1', '1', thin), status('c', 'vg1', '2', thin), status('d', 'vg2', '9', thin), status('e', 'vg1', undefined, thin)];
    it('with a thin pool of the device class', () => expect(targetsOf([...all(true), status('f', 'vg1', '9', false)], 'vg1', 'a', false)).toEqual([{ node: 'c', free: 2 }, { node: 'b', free: 1 }, { node: 'e' }]));
    it('with a volume group of the device class, if it is thick', () => expect(targetsOf(all(false), 'vg1', 'a', true)).toEqual([{ node: 'c', free: 2 }, { node: 'b', free: 1 }, { node: 'e' }]));
  });
});
