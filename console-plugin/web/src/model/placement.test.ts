import { expect, it } from 'vitest';
import type { Member } from './members';
import { disksOf, MOST_PLACES, placesOf } from './placement';

const member = (node: string, uuid: string): Member => ({ node, group: { name: 'vg1' }, pv: { uuid, name: `/dev/${uuid}`, state: 'Ready' } });
const on = (volume: string, uuid: string, node = 'a') => ({ labels: { node, volume, physical_volume: uuid, device: `/dev/${uuid}` } });

it('a volume has its disks, each once, also those that are no longer listed', () => {
  const here = member('a', 'u2');
  expect(disksOf([on('v', 'u10'), on('v', 'u2'), on('v', 'u2')], [member('b', 'u10'), here])).toEqual([{ uuid: 'u2', device: '/dev/u2', member: here }, { uuid: 'u10', device: '/dev/u10', member: undefined }]);
});
it('an older node agent says nothing, which is not that there are no disks', () => {
  expect(disksOf([], [])).toBeUndefined();
  expect(disksOf([{ labels: { node: 'a', volume: 'v' } }], [])).toBeUndefined();
  expect(placesOf([])).toBeUndefined();
  expect(placesOf([{ labels: { node: 'a' } }])).toBeUndefined();
});
it('a disk has its volumes', () => {
  const places = placesOf([on('v1', 'u1'), on('v1', 'u2'), on('v2', 'u2')]);
  expect([...(places?.byDisk.get('u2') ?? [])]).toEqual(['v1', 'v2']);
  expect([...(places?.known ?? [])]).toEqual(['v1', 'v2']);
});
it('an answer that may lack volumes is not used', () => expect(placesOf(Array.from({ length: MOST_PLACES }, (_, i) => on(`v${i}`, 'u1')))).toBeUndefined());
