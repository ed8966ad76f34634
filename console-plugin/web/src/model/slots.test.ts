import { expect, it } from 'vitest';
import type { Device, NodeStatus } from '../api/types';
import { placeOf, slotsOf } from './slots';

it.each([
  ['pci-0000:00:1f.2-ata-1', { controller: 'pci-0000:00:1f.2', slot: 'ata-1' }],
  ['pci-0000:01:00.0-nvme-1', { controller: 'pci-0000:01:00.0', slot: 'nvme-1' }],
  ['pci-0000:03:00.0-sas-exp0x500056b3ca123456-phy4-lun-0', { controller: 'pci-0000:03:00.0', slot: 'sas-exp0x500056b3ca123456-phy4-lun-0' }],
  ['virtio-pci-0000:00:04.0', { slot: 'virtio-pci-0000:00:04.0' }],
  ['ccw-0.0.e000', { slot: 'ccw-0.0.e000' }],
])('%s', (link, wanted) => expect(placeOf(link)).toEqual(wanted));

const disk = (name: string, path?: string, more: Partial<Device> = {}): Device => ({ name: `/dev/${name}`, type: 'disk', state: 'Available', byPath: path ? [path] : [], ...more });
const status = (devices: Device[], nodeStatus: NonNullable<NodeStatus['status']>['nodeStatus'] = []): NodeStatus => ({ metadata: { name: 'a' }, status: { devices, nodeStatus } });

it('disks are in the order of their slots, by number, and those without a slot last', () => {
  const list = slotsOf(status([disk('sdz'), disk('sda', 'pci-0000:00:1f.2-ata-10'), disk('sdb', 'pci-0000:00:1f.2-ata-2'), disk('nvme0n1', 'pci-0000:00:01.0-nvme-1'), disk('sda1', 'pci-0000:00:1f.2-ata-10-part1', { type: 'part' }), disk('dm-0', undefined, { type: 'lvm' })]));
  expect(list.map((s) => s.device.name)).toEqual(['/dev/nvme0n1', '/dev/sdb', '/dev/sda', '/dev/sdz']);
});

it('a disk of a device class has its physical volume, and another one has none', () => {
  const pv = { uuid: 'u', name: '/dev/sda', state: 'Ready' as const, size: '10Gi', free: '4Gi' };
  const list = slotsOf(status([disk('sda', 'pci-0-ata-1', { pvUUID: 'u', volumeGroup: 'vg1', state: 'InUse' }), disk('sdb', 'pci-0-ata-2', { pvUUID: 'v', volumeGroup: 'other', state: 'InUse' })], [{ name: 'vg1', physicalVolumes: [pv] }]));
  expect(list.map((s) => [s.member?.pv.uuid, s.member?.group.name])).toEqual([['u', 'vg1'], [undefined, undefined]]);
});

it('a node without a status has no disks', () => expect([slotsOf(undefined), slotsOf({ metadata: { name: 'a' } })]).toEqual([[], []]));
