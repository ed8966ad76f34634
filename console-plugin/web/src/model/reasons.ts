// The codes of docs/reference/devices.md as words, for reasons whose message was cut: a list of devices that is too long loses messages first.
import type { Device } from '../api/types';
import { msg, type Message } from './message';

const words: Record<string, Message> = {
  UnsupportedType: msg('is a drive for discs, memory, or a network device'),
  LVMInternal: msg('is a logical volume, or a part of one'),
  KubernetesLoop: msg('is a loop device that kubelet made for a volume'),
  ReadOnly: msg('cannot be written'),
  Removable: msg('the medium can be taken out'),
  Suspended: msg('input and output are held back'),
  TooSmall: msg('is smaller than 16 MiB'),
  Mounted: msg('has a mounted file system'),
  SwapInUse: msg('is swap space in use'),
  HasPartitions: msg('has partitions, or an empty partition table'),
  HasHolders: msg('another device is made of it'),
  PartitionReserved: msg('the firmware or the boot loader needs it'),
  HasSignature: msg('carries a file system or the like'),
  MultipathMember: msg('is one of several paths to a disk'),
  RAIDMember: msg('is part of an array'),
  InVolumeGroup: msg('is in another volume group'),
  UnassignedPV: msg('is a physical volume of no volume group'),
  UnknownPV: msg('is labeled as a physical volume, and LVM on the node does not list it'),
  DuplicatePV: msg('is a copy of a physical volume that LVM uses on another device'),
  Busy: msg('somebody has it open'),
  Unreadable: msg('could not be read'),
  ProbeError: msg('something about it could not be found out'),
  Failing: msg('gives errors, or does not answer'),
  IsOSDisk: msg('the machine runs from it'),
  LUKSLocked: msg('is encrypted, and not open'),
  CephBlueStore: msg('is storage of a Ceph OSD'),
  NoStablePath: msg('has no name that stays the same'),
  NotSelected: msg('the device class asks for other properties'),
  UsedByOtherDeviceClass: msg('another device class names it, or would take it as well'),
  NotAtCreation: msg('came after the volume group was made'),
  TooYoung: msg('came less than a minute ago'),
  RemovalRequested: msg('is to be removed'),
  NotWiped: msg('may be wiped, and is not'),
};

export const reasonCodes = Object.keys(words);

/** The reasons against a device: in the words of its node, else by their codes. A code that this version does not know is shown as it is. */
export const reasonsOf = (d: Device): Message[] =>
  (d.reasons ?? []).map((r) => (r.message ? msg('{{text}}', { text: r.message }) : (Object.hasOwn(words, r.code) && words[r.code]) || msg('{{text}}', { text: r.code })));
