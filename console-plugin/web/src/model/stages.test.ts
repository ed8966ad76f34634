import { describe, expect, it } from 'vitest';
import type { DeviceClass } from '../api/types';
import { preview } from './capacity';
import { stagesOf } from './stages';

const GiB = 2 ** 30;
const of = (c: DeviceClass, ...nodes: number[][]) => stagesOf(c, nodes.map((sizes) => ({ sizes, p: preview(c, sizes) })));
const lengths = (c: DeviceClass, ...nodes: number[][]) => of(c, ...nodes).map((s) => [s.name, ...s.parts.map((p) => p.kind)]);
const thin = (overprovisionRatio: number, sizePercent = 90): DeviceClass => ({ name: 'x', thinPoolConfig: { name: 'p', overprovisionRatio, sizePercent } });

describe('the stages of a device class', () => {
  it.each<[string, DeviceClass, string[][]]>([
    ['thick', { name: 'x' }, [['disks', 'disk', 'disk'], ['group', 'group'], ['volumes', 'volumes']]],
    ['thin', thin(10), [['disks', 'disk', 'disk'], ['group', 'group'], ['pool', 'pool', 'metadata', 'reserve'], ['volumes', 'volumes', 'overcommitted']]],
    ['thin, not overcommitted', thin(1), [['disks', 'disk', 'disk'], ['group', 'group'], ['pool', 'pool', 'metadata', 'reserve'], ['volumes', 'volumes']]],
    ['mirrored', { name: 'x', raidConfig: { type: 'raid1' } }, [['disks', 'disk', 'disk'], ['group', 'group'], ['volumes', 'volumes', 'redundancy']]],
  ])('%s', (_, c, wanted) => expect(lengths(c, [100 * GiB, 50 * GiB])).toEqual(wanted));

  it('are sums over the nodes, and no longer than the disks', () => {
    for (const c of [thin(10), thin(100), thin(1), { name: 'x' }, { name: 'x', raidConfig: { type: 'raid6' as const } }])
      for (const stage of of(c, [100 * GiB, 100 * GiB, 70 * GiB, 100 * GiB, 100 * GiB], [30 * GiB]))
        expect(stage.parts.reduce((n, p) => n + p.length, 0), stage.name).toBeLessThanOrEqual(1 + 1e-9);
    const [disks, group, pool, volumes] = of(thin(10), [100 * GiB], [100 * GiB]);
    const one = preview(thin(10), [100 * GiB]);
    expect([disks?.bytes, group?.bytes, pool?.bytes, volumes?.bytes]).toEqual([200 * GiB, 2 * one.group, 2 * (one.pool?.data ?? 0), 2 * one.volumes]);
    expect(volumes?.parts[1]).toMatchObject({ kind: 'overcommitted', bytes: 2 * (one.volumes - (one.pool?.data ?? 0)) });
  });

  it('mirrored volumes have half of the space', () => {
    const volumes = of({ name: 'x', raidConfig: { type: 'raid1' } }, [100 * GiB, 100 * GiB]).at(-1);
    expect(volumes?.parts.map((p) => p.bytes)).toEqual([volumes?.bytes, volumes?.bytes]);
  });

  it('many disks are one part', () => expect(of({ name: 'x' }, Array.from({ length: 49 }, () => GiB))[0]?.parts).toEqual([{ kind: 'disk', bytes: 49 * GiB, length: 1 }]));
  it('without disks, there are none', () => expect([of(thin(10)), of(thin(10), [])]).toEqual([[], []]));
  it('redundancy without enough disks has no volumes', () => expect(of({ name: 'x', raidConfig: { type: 'raid1' } }, [GiB]).at(-1)).toMatchObject({ bytes: 0, parts: [] }));
});
