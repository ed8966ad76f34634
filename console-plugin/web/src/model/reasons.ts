// The codes of docs/reference/devices.md as words, for reasons whose message was cut: a list of devices that is too long loses messages first.
import type { Device } from '../api/types';
import { msg, type Message } from './message';

const words: Record<string, Message> = {
  UnsupportedType: msg('is an optical drive, a RAM disk or a network device'),
  LVMInternal: msg('is a logical volume, or part of one'),
  KubernetesLoop: msg('is a loop device that the kubelet created for a volume'),
  ReadOnly: msg('is read-only'),
  Removable: msg('is removable'),
  Suspended: msg('its I/O is suspended'),
  TooSmall: msg('is smaller than 16 MiB'),
  Mounted: msg('has a mounted file system'),
  SwapInUse: msg('is swap space in use'),
  HasPartitions: msg('has partitions, or an empty partition table'),
  HasHolders: msg('is in use by another block device'),
  PartitionReserved: msg('is reserved for the firmware or the boot loader'),
  HasSignature: msg('contains a file system or another known signature'),
  MultipathMember: msg('is a path of a multipath device'),
  RAIDMember: msg('is a member of a RAID array'),
  InVolumeGroup: msg('is in another volume group'),
  UnassignedPV: msg('is a physical volume without a volume group'),
  UnknownPV: msg('is labeled as a physical volume, but LVM on the node does not list it'),
  DuplicatePV: msg('is a copy of a physical volume that LVM uses on another device'),
  Busy: msg('is opened exclusively by another process'),
  Unreadable: msg('could not be read'),
  ProbeError: msg('some of its properties could not be determined'),
  Failing: msg('has errors, or does not respond'),
  IsOSDisk: msg('is a disk of the operating system'),
  LUKSLocked: msg('is encrypted and locked'),
  CephBlueStore: msg('is in use by a Ceph OSD'),
  NoStablePath: msg('has no stable name'),
  NotSelected: msg('does not match the properties of the device class'),
  UsedByOtherDeviceClass: msg('is also selected by another device class'),
  NotAtCreation: msg('appeared after the volume group was created'),
  TooYoung: msg('appeared less than a minute ago'),
  RemovalRequested: msg('is marked for removal'),
  OtherSectorSize: msg('has another sector size than the other devices'),
  PathMoved: msg('is not the device to which its path led before'),
  SharedWithNode: msg('is also attached to another node'),
  AwaitingApproval: msg('awaits approval'),
  ChangedSinceReview: msg('has changed since it was approved'),
  NotWiped: msg('is selected for wiping, but has not been wiped'),
};

export const reasonCodes = Object.keys(words);

/** The reasons against a device: in the words of its node, else by their codes. A code that this version does not know is shown as it is. */
export const reasonsOf = (d: Device): Message[] =>
  (d.reasons ?? []).map((r) => (r.message ? msg('{{text}}', { text: r.message }) : (Object.hasOwn(words, r.code) && words[r.code]) || msg('{{text}}', { text: r.code })));
