// The disks of a node in the order of their slots, with what lies on each. A slot is a link below /dev/disk/by-path: where the disk is attached.
import type { Device, NodeStatus } from '../api/types';
import { devicesOf } from './devices';
import { membersOf, type Member } from './members';

export interface Slot {
  device: Device;
  /** The controller and the slot there, as the link names them; undefined if the disk has no such link. */
  place?: { controller?: string; slot: string };
  /** The physical volume that the disk is, in the volume group of a device class. */
  member?: Member;
}

/** A controller has an address of a bus, which the slot follows: pci-0000:00:1f.2-ata-1. */
const controllerPattern = /^(.*?(?:pci|platform|acpi|ccw)-[^-]+)-(.+)$/;

/** The place that a link below /dev/disk/by-path names. */
export function placeOf(link: string): { controller?: string; slot: string } {
  const [, controller, slot] = controllerPattern.exec(link) ?? [];
  return controller && slot ? { controller, slot } : { slot: link };
}

/** Disks as a person finds them in the machine: partitions, and what is built of disks, are left out. */
const isDisk = (d: Device): boolean => (d.type ?? 'disk') === 'disk';

/** The disks that a node lists, by slot. Those without a slot come last. */
export function slotsOf(status: NodeStatus | undefined): Slot[] {
  const members = (status?.status?.nodeStatus ?? []).flatMap((g) => (status ? membersOf(g.name, [status]) : []));
  const byNumber = new Intl.Collator('en', { numeric: true });
  const key = ({ device, place }: Slot): string => (place ? [place.controller ?? '', place.slot].join(' ') : device.name);
  return devicesOf(status)
    .filter(isDisk)
    .map((device): Slot => ({ device, place: device.byPath?.[0] ? placeOf(device.byPath[0]) : undefined, member: members.find((x) => x.device === device) }))
    .sort((a, b) => Number(!a.place) - Number(!b.place) || byNumber.compare(key(a), key(b)));
}
