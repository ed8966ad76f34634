import { describe, expect, it } from 'vitest';
import type { Device, NodeStatus, PhysicalVolumeStatus } from '../api/types';
import { diskMap, inSight, moved, scrolledTo, widthOf } from './diskMap';

const device = (name: string, more: Partial<Device> = {}): Device => ({ name, type: 'disk', size: '100Gi', state: 'Available', ...more }) as Device;
const member = (name: string, state: PhysicalVolumeStatus['state'] = 'Ready', more: Partial<PhysicalVolumeStatus> = {}): PhysicalVolumeStatus => ({ uuid: `${name}-uuid`, name, state, size: '100Gi', free: '25Gi', ...more });
const status = (node: string, devices: Device[], physicalVolumes: PhysicalVolumeStatus[] = []): NodeStatus => ({ metadata: { name: node }, status: { devices, nodeStatus: [{ name: 'vg1', physicalVolumes }] } }) as NodeStatus;

describe('a tile', () => {
  it.each([
    ['of a volume group', device('/dev/sdb', { state: 'InUse', pvUUID: '/dev/sdb-uuid' }), 'Ready', { state: 'InUse', level: 'used', filled: 0.75 }],
    ['that is emptied', device('/dev/sdb', { state: 'InUse', pvUUID: '/dev/sdb-uuid' }), 'Draining', { state: 'Draining', level: 'changing', filled: 0.75 }],
    ['that cannot be emptied', device('/dev/sdb', { state: 'InUse', volumeGroup: 'vg1' }), 'Blocked', { state: 'Blocked', level: 'warning', filled: 0.75 }],
    ['that fails', device('/dev/sdb', { state: 'Failing', pvUUID: '/dev/sdb-uuid' }), 'Ready', { state: 'Failing', level: 'danger', filled: 0.75 }],
    ['that is blank', device('/dev/sdc'), 'Ready', { state: 'Available', level: 'available', filled: undefined }],
    ['of the system', device('/dev/sda', { state: 'InUse' }), 'Ready', { state: 'InUse', level: 'other', filled: undefined }],
    ['that nobody could read', device('/dev/sda', { state: 'Unknown' }), 'Ready', { state: 'Unknown', level: 'warning', filled: undefined }],
  ] as const)('%s', (_, d, state, wanted) => expect(diskMap([status('a', [d], [member('/dev/sdb', state)])])[0]?.tiles[0]).toMatchObject(wanted));
  it('of which nobody knows how much is free is not empty', () =>
    expect(diskMap([status('a', [device('/dev/sdb', { state: 'InUse', pvUUID: '/dev/sdb-uuid' })], [member('/dev/sdb', 'Ready', { free: undefined })])])[0]?.tiles[0]?.filled).toBeUndefined());
  it('is wider with more capacity, and never too small to be hit', () => {
    expect([widthOf(100, 100), widthOf(25, 100), widthOf(0, 100), widthOf(undefined, 100), widthOf(5, 0)]).toEqual([72, 48, 24, 24, 24]);
  });
});

it('nodes with broken devices come first, then by number', () => {
  const ok = (n: string) => status(n, [device('/dev/sdb')]);
  expect(diskMap([ok('node-10'), ok('node-9'), status('node-99', [device('/dev/sdb', { state: 'Missing' })]), status('node-1', [])]).map((r) => r.node)).toEqual(['node-99', 'node-1', 'node-9', 'node-10']);
});

it('only the rows in sight are drawn', () => expect([inSight(0, 400, 40, 500), inSight(4000, 400, 40, 500), inSight(19_600, 400, 40, 500), inSight(0, 400, 40, 3)]).toEqual([[0, 16], [94, 116], [484, 500], [0, 3]]));

it.each([[0, 0, 0], [360, 0, 0], [400, 0, 40], [4000, 0, 3640], [0, 400, 0], [200, 400, 200]])('a row at %d comes into sight of a box at %d', (position, top, wanted) => expect(scrolledTo(position, top, 400, 40)).toBe(wanted));

describe('keys', () => {
  const rows = diskMap([status('a', [device('/dev/sda'), device('/dev/sdb')]), status('b', []), ...Array.from({ length: 20 }, (_, i) => status(`c${i}`, [device('/dev/sda')]))]);
  it.each([
    ['ArrowRight', { row: 0, column: 0 }, { row: 0, column: 1 }], ['ArrowRight', { row: 0, column: 2 }, { row: 0, column: 2 }], ['ArrowLeft', { row: 0, column: 0 }, { row: 0, column: 0 }],
    ['ArrowDown', { row: 0, column: 2 }, { row: 1, column: 0 }], ['ArrowUp', { row: 0, column: 1 }, { row: 0, column: 1 }], ['PageDown', { row: 0, column: 0 }, { row: 10, column: 0 }],
    ['PageDown', { row: 15, column: 1 }, { row: 21, column: 1 }], ['PageUp', { row: 5, column: 1 }, { row: 0, column: 1 }], ['End', { row: 0, column: 0 }, { row: 0, column: 2 }], ['Home', { row: 0, column: 2 }, { row: 0, column: 0 }],
  ])('%s from %o leads to %o', (key, from, to) => expect(moved(key, from, rows)).toEqual(to));
  it('others lead nowhere', () => expect(moved('Enter', { row: 0, column: 0 }, rows)).toBeUndefined());
});
