import { describe, expect, it } from 'vitest';
import type { Usage } from './health';
import { percentOf, sharesOf } from './usage';

const usage = (node: string, more: Partial<Usage>): Usage => ({ deviceClass: 'vg1', node, group: { name: 'vg1' }, stale: false, ...more });
const pool = { name: 'p', size: '1', metadataSize: '1', dataPercent: 0, metadataPercent: 0 };
const thin = (node: string, size: number, used: number, virtual?: number): Usage => usage(node, { size, used, virtual, group: { name: 'vg1', thinPool: pool } });

describe('shares', () => {
  it('of a thick class are used and free', () => expect(sharesOf([usage('a', { size: 100, used: 40 })])).toEqual({ size: 100, used: 40, promised: 0, free: 60, known: 1, nodes: 1 }));
  it('of a thin pool have what volumes may still write', () => expect(sharesOf([thin('a', 100, 40, 70)])).toEqual({ size: 100, used: 40, promised: 30, free: 30, provisioned: 70, known: 1, nodes: 1 }));
  it('never promise more than is free, and count no node for another', () =>
    expect(sharesOf([thin('a', 100, 40, 300), thin('b', 100, 10, 10)])).toEqual({ size: 200, used: 50, promised: 60, free: 90, provisioned: 310, known: 2, nodes: 2 }));
  it('say how many nodes are known', () => expect(sharesOf([thin('a', 100, 40, 40), usage('b', {}), usage('c', { size: 10 })])).toMatchObject({ size: 100, known: 1, nodes: 3 }));
  it('of what nobody knows are unknown, and not empty', () => expect([sharesOf([]), sharesOf([usage('a', {})])]).toEqual([undefined, undefined]));
  it('of volumes that are smaller than what they use promise nothing', () => expect(sharesOf([thin('a', 100, 40, 20)])).toMatchObject({ promised: 0, free: 60 }));
});

it.each([[0, 100, 0], [0.1, 100, 1], [41.5, 100, 42], [99.5, 100, 99], [100, 100, 100], [0, 0, 0]])('%d of %d is %d percent', (used, size, percent) =>
  expect(percentOf({ used, size, promised: 0, free: 0, known: 1, nodes: 1 })).toBe(percent));
