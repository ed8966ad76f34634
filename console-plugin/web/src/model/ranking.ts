// The largest and the fastest growing volumes of a device class, as questions to Prometheus: it sorts, so that an answer has ten volumes and not all.

/** The number of volumes in a list. */
export const MOST_RANKED = 10;
/** The days over which growth is measured. */
const DAYS = 7;
/** Growth compares values that are an hour apart at least. */
const RESOLUTION = '1h';

const BY = 'max by (node, volume, namespace, persistentvolumeclaim)';

/** Volumes of a device class; only those with one of the names, if there are names. The name of a logical volume is a UID. */
function selector(deviceClass: string, names?: string[]): string {
  const only = names ? `,volume=~${JSON.stringify(names.map((n) => n.replace(/[^\w-]/g, '\\$&')).join('|'))}` : '';
  return `{device_class=${JSON.stringify(deviceClass)}${only}}`;
}

/**
 * Bytes of each volume: of a thin one, the data that is written to the pool; of a thick one, what the kubelet reports as used in its file system, while a Pod uses
 * it. Labels of Pods are left out: they change with each restart of a node agent.
 */
function bytesOf(thin: boolean, deviceClass: string, names?: string[]): string {
  const volumes = selector(deviceClass, names);
  if (thin) return `${BY} (lvms_volume_data_percent${volumes} * lvms_volume_size_bytes${volumes} / 100)`;
  return `${BY} (lvms_volume_size_bytes${volumes}) * 0 + on (namespace, persistentvolumeclaim) group_left () max by (namespace, persistentvolumeclaim) (kubelet_volume_stats_used_bytes)`;
}

/** Bytes of the largest volumes. */
export const largestQuery = (thin: boolean, deviceClass: string): string => `topk(${MOST_RANKED}, ${bytesOf(thin, deviceClass)})`;

/** Bytes of the named volumes. */
export const usedQuery = (thin: boolean, deviceClass: string, names: string[]): string => bytesOf(thin, deviceClass, names);

/** Bytes per day by which the named volumes have grown. */
export const growthQuery = (thin: boolean, deviceClass: string, names?: string[]): string => `delta((${bytesOf(thin, deviceClass, names)})[${DAYS}d:${RESOLUTION}]) / ${DAYS}`;

/** Bytes per day by which the fastest growing volumes have grown. */
export const fastestQuery = (thin: boolean, deviceClass: string): string => `topk(${MOST_RANKED}, ${growthQuery(thin, deviceClass)} > 0)`;

interface Sample {
  labels: Record<string, string>;
  value: number;
}

/** A volume in a list, by the labels of its metrics. */
export interface Ranked {
  /** The name of its logical volume. */
  volume: string;
  node: string;
  /** What the volume is for, as the node agent knows it. */
  purpose?: string;
  value: number;
}

/** The volumes of an answer, the highest value first. */
export const rankedOf = (samples: Sample[]): Ranked[] =>
  samples
    .filter((s) => s.labels['volume'] && Number.isFinite(s.value))
    .map(({ labels, value }) => {
      const { volume = '', node = '', namespace, persistentvolumeclaim } = labels;
      return { volume, node, value, ...(namespace && persistentvolumeclaim ? { purpose: `${namespace}/${persistentvolumeclaim}` } : {}) };
    })
    .sort((a, b) => b.value - a.value || a.volume.localeCompare(b.volume))
    .slice(0, MOST_RANKED);

/** The values of an answer by the name of the logical volume. */
export const byVolume = (samples: Sample[]): Map<string, number> => new Map(samples.filter((s) => Number.isFinite(s.value)).map((s) => [s.labels['volume'] ?? '', s.value]));
