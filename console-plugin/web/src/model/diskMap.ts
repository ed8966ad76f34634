// The devices of all nodes as tiles: one row a node, colored by health, sized by capacity, filled by what volumes have of them.
import type { Device, DeviceState, NodeStatus, PhysicalVolumeState, PhysicalVolumeStatus } from '../api/types';
import { bytesOf } from './quantity';

/** How a device is: in a volume group; free; not for volumes; a request is carried out; look at it; broken. */
export type Level = 'used' | 'available' | 'other' | 'changing' | 'warning' | 'danger';

export interface Tile {
  device: Device;
  state: DeviceState | PhysicalVolumeState;
  level: Level;
  /** Bytes; none if the device does not say. */
  size?: number;
  /** The part that logical volumes have, from 0 to 1; none if it is in no volume group, or does not say. */
  filled?: number;
}

export interface MapRow {
  node: string;
  tiles: Tile[];
}

const levels: Record<string, Level> = {
  Failing: 'danger', Missing: 'danger', Unknown: 'warning', Blocked: 'warning', Cordoned: 'changing', Draining: 'changing', Drained: 'changing',
  Available: 'available', Excluded: 'other', InUse: 'other', Ready: 'used',
};
const order: Level[] = ['danger', 'warning', 'changing', 'used', 'available', 'other'];
const natural = new Intl.Collator('en', { numeric: true });

/** All nodes, those with the worst device first, and then by name. */
export function diskMap(statuses: NodeStatus[]): MapRow[] {
  const rows = statuses.map((s): MapRow => ({ node: s.metadata.name ?? '', tiles: tilesOf(s) }));
  const worst = new Map(rows.map((r) => [r, Math.min(2, ...r.tiles.map((t) => order.indexOf(t.level)))]));
  return rows.sort((a, b) => (worst.get(a) ?? 0) - (worst.get(b) ?? 0) || natural.compare(a.node, b.node));
}

function tilesOf({ status }: NodeStatus): Tile[] {
  const members = (status?.nodeStatus ?? []).flatMap((g) => g.physicalVolumes ?? []);
  const byUUID = new Map(members.map((pv) => [pv.uuid, pv]));
  const byName = new Map(members.map((pv) => [pv.name, pv]));
  return (status?.devices ?? [])
    .map((device): Tile => {
      const pv = device.pvUUID ? byUUID.get(device.pvUUID) : device.volumeGroup ? byName.get(device.name) : undefined;
      // What is wrong with the device itself comes first.
      const state = pv && device.state === 'InUse' ? pv.state : device.state;
      return { device, state: state === 'Ready' ? 'InUse' : state, level: levels[state] ?? 'warning', size: bytesOf(device.size), filled: filledOf(pv) };
    })
    .sort((a, b) => natural.compare(a.device.name, b.device.name));
}

function filledOf(pv: PhysicalVolumeStatus | undefined): number | undefined {
  const [size, free] = [bytesOf(pv?.size), bytesOf(pv?.free)];
  return size && free !== undefined ? Math.min(1, Math.max(0, (size - free) / size)) : undefined;
}

/** The width of a tile in pixels. The area follows the capacity, so that a large disk does not hide the others. */
export function widthOf(size: number | undefined, largest: number): number {
  const [least, more] = [24, 48];
  return least + Math.round(more * Math.sqrt(largest > 0 ? Math.min(1, (size ?? 0) / largest) : 0));
}

/** The rows of a box that are in sight, with some around them. */
export function inSight(top: number, height: number, rowHeight: number, rows: number): [number, number] {
  const around = 6;
  return [Math.max(0, Math.floor(top / rowHeight) - around), Math.min(rows, Math.ceil((top + height) / rowHeight) + around)];
}

/** How far a box is scrolled for a row at a position to be in sight, and no further than needed. */
export const scrolledTo = (position: number, top: number, height: number, rowHeight: number): number => Math.min(position, Math.max(top, position + rowHeight - height));

export interface Place {
  row: number;
  /** 0 is the name of the node, then the tiles. */
  column: number;
}

const PAGE = 10;

/** Where a key leads from a place; none if it leads nowhere. */
export function moved(key: string, { row, column }: Place, rows: MapRow[]): Place | undefined {
  const tiles = (at: number): number => rows[at]?.tiles.length ?? 0;
  const to = (r: number, c: number): Place => {
    const bounded = Math.min(Math.max(0, r), rows.length - 1);
    return { row: bounded, column: Math.min(Math.max(0, c), tiles(bounded)) };
  };
  switch (key) {
    case 'ArrowLeft':
      return to(row, column - 1);
    case 'ArrowRight':
      return to(row, column + 1);
    case 'ArrowUp':
      return to(row - 1, column);
    case 'ArrowDown':
      return to(row + 1, column);
    case 'PageUp':
      return to(row - PAGE, column);
    case 'PageDown':
      return to(row + PAGE, column);
    case 'Home':
      return to(row, 0);
    case 'End':
      return to(row, tiles(row));
    default:
      return undefined;
  }
}
