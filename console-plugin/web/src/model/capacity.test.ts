import { readFileSync } from 'node:fs';
import { describe, expect, it } from 'vitest';
import type { RAIDConfig, ThinPoolConfig } from '../api/types';
import { minimumDevices, layoutOf, physicalVolume, poolOf, preview } from './capacity';

interface Case {
  name: string;
  disksMiB: number[];
  group: number;
  volumes: number;
}
// The node agent is held to the same values: vgmanager/group/volumegroup/capacity_test.go and capacity_lab_test.go.
const fixture = JSON.parse(readFileSync('../../vgmanager/group/volumegroup/testdata/capacity.json', 'utf8')) as {
  raid: (Case & { config?: RAIDConfig })[];
  thin: (Case & { config: ThinPoolConfig; pool: number; metadata: number })[];
};
const sizes = (c: Case) => c.disksMiB.map((n) => n * 2 ** 20);

describe('capacity is what the node agent computes', () => {
  it.each(fixture.raid)('$name', (c) => {
    const p = preview({ name: 'x', raidConfig: c.config }, sizes(c));
    expect({ group: p.group, volumes: p.volumes }).toEqual({ group: c.group, volumes: c.volumes });
  });
  it.each(fixture.thin)('thin: $name', (c) => {
    const p = preview({ name: 'x', thinPoolConfig: c.config }, sizes(c));
    expect({ group: p.group, pool: p.pool, volumes: p.volumes }).toEqual({ group: c.group, pool: { data: c.pool, metadata: c.metadata }, volumes: c.volumes });
  });
});

describe('redundancy', () => {
  it.each<[RAIDConfig, number, number]>([
    [{ type: 'raid1' }, 2, 1], [{ type: 'raid1', mirrors: 2 }, 3, 2], [{ type: 'raid4' }, 3, 1], [{ type: 'raid5', stripes: 4 }, 5, 1],
    [{ type: 'raid6' }, 5, 2], [{ type: 'raid10' }, 4, 1], [{ type: 'raid10', stripes: 3 }, 6, 1],
  ])('%j needs %i disks and tolerates the loss of %i', (raid, least, tolerated) => {
    expect([minimumDevices(raid), layoutOf(raid).tolerated]).toEqual([least, tolerated]);
  });
  it('tells how many disks are lacking', () => expect(preview({ name: 'x', raidConfig: { type: 'raid6' } }, [2 ** 30, 2 ** 30]).lacking).toBe(3));
});

it('a striped pool tells how many disks are lacking, and leaves the rest of a large disk', () => {
  const config = { name: 'p', overprovisionRatio: 1, stripes: 2 };
  expect(preview({ name: 'x', thinPoolConfig: config }, [2 ** 30])).toMatchObject({ lacking: 1, volumes: 0, pool: { data: 0, metadata: 0 } });
  const [even, odd] = [[2 ** 30, 2 ** 30], [2 ** 30, 8 * 2 ** 30]].map((sizes) => preview({ name: 'x', thinPoolConfig: config }, sizes));
  expect(odd?.lacking).toBe(0);
  expect(odd?.volumes).toBeLessThan(2 * 2 ** 30);
  expect(odd?.volumes).toBeGreaterThan(even?.volumes ?? 0);
});

it('striped volumes use what the disks have in common', () => {
  const of = (sizes: number[], thickConfig = {}) => preview({ name: 'x', thickConfig }, sizes);
  expect(of([2 ** 30], { stripes: 2 })).toMatchObject({ lacking: 1, volumes: 0 });
  expect(of([2 ** 30, 8 * 2 ** 30], { stripes: 2 }).volumes).toBe(2 * of([2 ** 30]).volumes);
  expect(of([2 ** 30, 8 * 2 ** 30], { allocation: 'SingleDevice' }).volumes).toBe(of([2 ** 30, 8 * 2 ** 30]).volumes);
});

it('a disk smaller than the label gives nothing', () => expect(physicalVolume(100)).toBe(0));
it('without disks nothing comes of nothing', () => expect(preview({ name: 'x', thinPoolConfig: { name: 'p', overprovisionRatio: 10 } }, [])).toEqual({ raw: 0, group: 0, pool: { data: 0, metadata: 0 }, volumes: 0, reserve: 0, lacking: 0 }));

// vgmanager/group/volumegroup/plan has the same limit: 15.81 TiB with chunks of 128 KiB.
it.each([
  [15, 15 * 2 ** 9],
  [20, 5 * 2 ** 10],
  [40, 5 * 2 ** 10],
])('the metadata of a pool of %d TiB follows its chunk size', (tebi, mebi) => {
  const config = { name: 'p', overprovisionRatio: 10, sizePercent: 100 };
  expect(poolOf(config, tebi * 2 ** 40).metadata).toBe(mebi * 2 ** 20);
});
