// On which disks logical volumes are, by the metrics of the node agent: lvms_volume_device_info has a series for each volume and disk. For a thin volume, these
// are the disks with the data of its thin pool.
import type { Member } from './members';

interface Sample {
  labels: Record<string, string>;
}

/** An answer has at most so many series. One that has as many may lack some. */
export const MOST_PLACES = 2000;

/** The disks of one volume. */
export const disksQuery = (volume: string): string => `lvms_volume_device_info{volume=${JSON.stringify(volume)}}`;

/** The disks of all volumes of a node. */
export const placesQuery = (node: string): string => `topk(${MOST_PLACES}, lvms_volume_device_info{node=${JSON.stringify(node)}})`;

/** Whether a series is about a disk: by the UUID of the physical volume, which is on the disk itself. */
const isOn = ({ labels }: Sample, { node, pv }: Member): boolean => labels['node'] === node && labels['physical_volume'] === pv.uuid;

/** A disk that a volume is on. */
export interface Disk {
  /** The UUID of the physical volume. */
  uuid: string;
  /** As the series has it. */
  device: string;
  /** The disk in the node status, if it is listed there. */
  member?: Member;
}

/** The disks of one volume, by name; undefined if the answer has none, as from an older node agent. */
export function disksOf(samples: Sample[], members: Member[]): Disk[] | undefined {
  const disks = new Map<string, Disk>();
  for (const s of samples) {
    const uuid = s.labels['physical_volume'] ?? '';
    if (uuid) disks.set(uuid, { uuid, device: s.labels['device'] || uuid, member: members.find((m) => isOn(s, m)) });
  }
  return disks.size ? [...disks.values()].sort((a, b) => a.device.localeCompare(b.device, 'en', { numeric: true })) : undefined;
}

/** The volumes of a node by the UUIDs of the physical volumes that they are on, and all that have a series. */
export interface Places {
  byDisk: Map<string, Set<string>>;
  known: Set<string>;
}

/** undefined if the answer has no series, as from an older node agent, or may lack some. */
export function placesOf(samples: Sample[]): Places | undefined {
  if (samples.length === 0 || samples.length >= MOST_PLACES) return undefined;
  const places: Places = { byDisk: new Map(), known: new Set() };
  for (const { labels } of samples) {
    const { physical_volume: uuid, volume } = labels;
    if (!uuid || !volume) continue;
    places.known.add(volume);
    const there = places.byDisk.get(uuid);
    if (there) there.add(volume);
    else places.byDisk.set(uuid, new Set([volume]));
  }
  return places.known.size ? places : undefined;
}
