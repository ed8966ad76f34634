import { describe, expect, it } from 'vitest';
import type { LVMRecovery, NodeStatus } from '../api/types';
import { activitiesOf, remainingOf, tracked, type Activity, type Track } from './activity';

const status = (node: string, group: object): NodeStatus => ({ metadata: { name: node }, status: { nodeStatus: [{ name: 'vg1', ...group }] } }) as NodeStatus;
const recovery = (name: string, phase: string) => ({ metadata: { name, uid: name }, spec: { nodeName: 'a', deviceClassName: 'vg1', action: 'RepairThinPool' }, status: { phase, message: 'repairs' } }) as LVMRecovery;

it('moves, synchronizations and running recoveries are activities; what has ended or waits is none', () => {
  const statuses = [
    status('node-10', { physicalVolumes: [{ uuid: 'u1', name: '/dev/sdb', state: 'Draining', movedPercent: 12 }, { uuid: 'u2', name: '/dev/sdc', state: 'Drained' }, { uuid: 'u3', state: 'Draining' }] }),
    status('node-9', { raidStatus: { status: 'Degraded', memberCount: 2, degradedMemberCount: 0, lvHealth: [{ name: 'lv1', raidType: 'raid1', syncPercent: 40 }, { name: 'lv2', raidType: 'raid1', syncPercent: 100 }, { name: 'lv3', raidType: 'raid1' }] } }),
  ];
  expect(activitiesOf(statuses, [recovery('r1', 'Running'), recovery('r2', 'Succeeded'), recovery('r3', 'AwaitingApproval')]).map((a) => [a.kind, a.node, a.name, a.percent])).toEqual([
    ['recovery', 'a', 'r1', undefined], ['resync', 'node-9', 'lv1', 40], ['move', 'node-10', '/dev/sdb', 12], ['move', 'node-10', 'u3', undefined],
  ]);
  expect(activitiesOf([], [])).toEqual([]);
});

describe('the remaining time', () => {
  const follow = (values: [number | undefined, number][]): Track | undefined =>
    values.reduce((map, [percent, at]) => tracked(map, [{ key: 'k', percent } as Activity], at), new Map<string, Track>()).get('k');
  it.each<[string, [number | undefined, number][], number, number | undefined]>([
    ['is unknown at first', [[10, 0]], 0, undefined],
    ['is unknown after the first growth: it may have been nearly there before', [[10, 0], [11, 1000]], 1000, undefined],
    ['follows the speed from the second growth on', [[10, 0], [11, 1000], [21, 11_000]], 11_000, 79],
    ['goes on between two answers', [[10, 0], [11, 1000], [21, 11_000], [21, 20_000]], 21_000, 69],
    ['does not become negative', [[10, 0], [11, 1000], [21, 11_000]], 1e9, 0],
    ['begins again if the progress goes back', [[10, 0], [11, 1000], [21, 11_000], [5, 12_000]], 12_000, undefined],
    ['is unknown without a percentage', [[undefined, 0], [undefined, 1000]], 1000, undefined],
    ['is unknown if everything came at the same moment', [[10, 0], [11, 0], [12, 0]], 0, undefined],
  ])('%s', (_, values, now, wanted) => expect(remainingOf(follow(values), now)).toBe(wanted));
  it('of what has ended is forgotten', () => expect(tracked(new Map([['k', { percent: 5 }]]), [], 0).size).toBe(0));
});
