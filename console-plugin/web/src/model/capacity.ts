// What devices come to: raw → volume group → pool → volumes. The redundancy part follows vgmanager/volume/engine/view/raid_capacity.go, and
// vgmanager/group/volumegroup/testdata/capacity.json holds both to the same values. Sizes are bytes.
import { DEFAULTS } from '../api/limits';
import type { DeviceClass, RAIDConfig, ThinPoolConfig } from '../api/types';
import { bytesOf } from './quantity';

/** LVM's extents (vgcreate(8), --physicalextentsize). */
export const EXTENT = 4 * 2 ** 20;
/** LVM's label and metadata at the beginning of a device; data begins behind it (pvcreate(8), --dataalignment). */
const LABEL = 2 ** 20;
/** What the kernel's superblock and bitmap of a RAID image take (vgmanager/volume/engine/view/raid_capacity.go, metadataBytes). */
const IMAGE_METADATA = 2 ** 20;

const MIN_POOL_METADATA = 2 * 2 ** 20;
/** The most that LVM gives to a pool's metadata (lvmthin(7): 15.81 GiB), in whole MiB. */
const MAX_POOL_METADATA = 16189 * 2 ** 20;
const DEFAULT_CHUNK = 128 * 2 ** 10;
const LEAST_CHUNK = 64 * 2 ** 10;
const MAX_CHUNK = 2 ** 30;
const DEFAULT_POOL_METADATA = 2 ** 30;

const roundDown = (bytes: number, step: number) => Math.floor(bytes / step) * step;
const roundUp = (bytes: number, step: number) => Math.ceil(bytes / step) * step;
const sum = (list: number[]) => list.reduce((a, b) => a + b, 0);

/** How a volume is spread over physical volumes. */
export interface Layout {
  /** Parts of one size, each on physical volumes of its own. */
  images: number;
  /** Images that the data has; the others are copies or parity. */
  data: number;
  /** How many devices of a volume may be lost, whichever they are. */
  tolerated: number;
}

/** api/v1alpha1, RAIDConfig: Copies, DataStripes, Parity. */
export function layoutOf(raid: RAIDConfig): Layout {
  const mirrored = raid.type === 'raid1' || raid.type === 'raid10';
  const copies = mirrored ? (raid.mirrors ?? 1) : 0;
  const data = raid.type === 'raid1' ? 1 : (raid.stripes ?? (raid.type === 'raid6' ? 3 : 2));
  const parity = { raid1: 0, raid4: 1, raid5: 1, raid6: 2, raid10: 0 }[raid.type];
  return { images: data * (copies + 1) + parity, data, tolerated: mirrored ? copies : parity };
}

/** The devices that a volume needs at least (lvmraid(7)). */
export const minimumDevices = (raid: RAIDConfig): number => layoutOf(raid).images;

/** What a volume group has of a device. */
export const physicalVolume = (size: number): number => Math.max(0, roundDown(size - LABEL, EXTENT));

/** What each of n parts has if every complete set of n devices has one device for each part: vgmanager/lvm/free.go, InSets. Sorted by size. */
function inSets(sorted: number[], n: number): number {
  let share = 0;
  for (let set = n; set <= sorted.length; set += n) share += sorted[set - 1] ?? 0;
  return share;
}

/** How large one volume with redundancy can be on blank physical volumes: room.go, createRoom. */
export function raidRoom(raid: RAIDConfig, physicalVolumes: number[]): number {
  const { images, data } = layoutOf(raid);
  const metadata = roundUp(IMAGE_METADATA, EXTENT);
  const sorted = physicalVolumes.filter((size) => size > metadata).sort((a, b) => b - a);
  return Math.max(0, inSets(sorted, images) - metadata) * data;
}

export interface Pool {
  data: number;
  metadata: number;
}

/**
 * The chunk size that LVM is given. By default it grows with the pool (vgmanager/group/volumegroup/plan/thinpool/pool.go, ChunkWanted).
 * With Host LVM takes its minimum, and a larger one if the metadata would be too large.
 */
function chunkOf(config: ThinPoolConfig, data: number): number {
  if (config.chunkSizeCalculationPolicy === 'Host') return LEAST_CHUNK;
  const given = bytesOf(config.chunkSize);
  if (given !== undefined) return given;
  let chunk = DEFAULT_CHUNK;
  while (chunk < MAX_CHUNK && data > ((MAX_POOL_METADATA / 64) * chunk) / 2) chunk *= 2;
  return chunk;
}

/** 64 bytes of metadata for each chunk (lvmthin(7), "Metadata size"), unless the device class says a size. */
function poolMetadata(config: ThinPoolConfig, data: number): number {
  if (config.metadataSizeCalculationPolicy === 'Static')
    return Math.min(roundUp(bytesOf(config.metadataSize) ?? DEFAULT_POOL_METADATA, EXTENT), roundDown(MAX_POOL_METADATA, EXTENT));
  const estimate = (data / chunkOf(config, data)) * 64;
  return roundUp(Math.min(Math.max(estimate, MIN_POOL_METADATA), MAX_POOL_METADATA), EXTENT);
}

/** The pool that lvcreate makes of a share of the free extents: the metadata and its spare are taken out of the share. */
export function poolOf(config: ThinPoolConfig, free: number): Pool {
  const share = roundDown((free * (config.sizePercent ?? DEFAULTS['thinPoolConfig.sizePercent'])) / 100, EXTENT);
  if (share === 0) return { data: 0, metadata: 0 };
  const metadata = poolMetadata(config, share);
  return { data: Math.max(0, share - 2 * metadata), metadata };
}

/** A pool whose data is striped: each device keeps space for the metadata and its spare (vgmanager/group/volumegroup/plan/thinpool/stripes.go, stripedSize). */
function stripedPool(config: ThinPoolConfig, physicalVolumes: number[], stripes: number): Pool {
  const share = Math.floor(sum(physicalVolumes) / 100) * (config.sizePercent ?? DEFAULTS['thinPoolConfig.sizePercent']);
  const metadata = poolMetadata(config, share);
  const room = inSets([...physicalVolumes].sort((a, b) => b - a), stripes) * stripes;
  const data = Math.max(0, roundDown(Math.min(share - 2 * metadata, room - 2 * metadata * stripes), EXTENT * stripes));
  return { data, metadata: data > 0 ? metadata : 0 };
}

/** What the volumes of a pool may have together (vgmanager/volume/engine/view/capacity.go, room). */
export const virtualSize = (config: ThinPoolConfig, pool: number): number => Math.floor(config.overprovisionRatio * pool);

/** What a device class comes to on a node. */
export interface Preview {
  raw: number;
  group: number;
  pool?: Pool;
  /** What new volumes can have: all together, with redundancy a single one. */
  volumes: number;
  /** What is left in the volume group, for a pool to grow and for its metadata. */
  reserve: number;
  /** Devices that redundancy or stripes still lack. */
  lacking: number;
}

export function preview(deviceClass: DeviceClass, sizes: number[]): Preview {
  const volumes = sizes.map(physicalVolume);
  const [raw, group] = [sum(sizes), sum(volumes)];
  if (deviceClass.raidConfig) {
    const lacking = Math.max(0, minimumDevices(deviceClass.raidConfig) - volumes.length);
    return { raw, group, volumes: raidRoom(deviceClass.raidConfig, volumes), reserve: 0, lacking };
  }
  const config = deviceClass.thinPoolConfig;
  if (!config) {
    const stripes = deviceClass.thickConfig?.stripes ?? 1;
    if (!(stripes > 1)) return { raw, group, volumes: group, reserve: 0, lacking: 0 };
    const room = inSets([...volumes].sort((a, b) => b - a), stripes) * stripes;
    return { raw, group, volumes: room, reserve: 0, lacking: Math.max(0, stripes - volumes.length) };
  }
  const stripes = config.stripes ?? 1;
  const pool = stripes > 1 ? stripedPool(config, volumes, stripes) : poolOf(config, group);
  return {
    raw, group, pool, volumes: virtualSize(config, pool.data), reserve: Math.max(0, group - pool.data - 2 * pool.metadata),
    lacking: stripes > 1 ? Math.max(0, stripes - volumes.length) : 0,
  };
}
