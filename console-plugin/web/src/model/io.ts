// The I/O of volumes as questions to Prometheus. The node agent counts it for each volume (docs/reference/metrics.md).

const HOUR = 3600;
/** The periods to choose from, in seconds. */
export const IO_PERIODS = [HOUR, 24 * HOUR, 7 * 24 * HOUR] as const;
export type IOPeriod = (typeof IO_PERIODS)[number];

/** Throughput in bytes per second, operations per second, and seconds that an operation took. */
export const IO_KINDS = ['throughput', 'operations', 'latency'] as const;
export type IOKind = (typeof IO_KINDS)[number];
export type Direction = 'read' | 'write';
const directions: Direction[] = ['read', 'write'];

const bytes: Record<Direction, string> = { read: 'lvms_volume_read_bytes_total', write: 'lvms_volume_written_bytes_total' };
const operations: Record<Direction, string> = { read: 'lvms_volume_reads_total', write: 'lvms_volume_writes_total' };
const time: Record<Direction, string> = { read: 'lvms_volume_read_seconds_total', write: 'lvms_volume_write_seconds_total' };

/** The volumes of a device class, or one of them by the name of its logical volume. */
export type IOScope = { deviceClass: string } | { volume: string };

/** What the operator's rules record for all volumes of a device class on a node: per second, over five minutes. */
const recorded: Record<string, string> = Object.fromEntries(
  [...Object.values(bytes), ...Object.values(operations), ...Object.values(time)].map((metric) => [metric, `${metric.replace('lvms_', 'lvms:').replace('_total', '')}:rate5m`]),
);

/** The label that tells reads from writes in the answer. */
const LABEL = 'direction';
/** Seconds over which a rate is computed. */
const WINDOW = 300;

/** A rate per second, summed over the volumes. It covers five minutes, or the whole step of a chart if that is longer: else I/O between two points would be missing. */
function rateOf(metric: string, scope: IOScope, step: number): string {
  if ('volume' in scope) return `sum(rate(${metric}{volume=${JSON.stringify(scope.volume)}}[${Math.max(WINDOW, step)}s]))`;
  const series = `${recorded[metric]}{device_class=${JSON.stringify(scope.deviceClass)}}`;
  return step > WINDOW ? `sum(avg_over_time(${series}[${step}s]))` : `sum(${series})`;
}

/** One question with two series: of reads, and of writes. step is in seconds. Without I/O there is no latency: 0 by 0 is no number, which a chart leaves out. */
export function ioQuery(kind: IOKind, scope: IOScope, step: number): string {
  const of: Record<IOKind, (d: Direction) => string> = {
    throughput: (d) => rateOf(bytes[d], scope, step),
    operations: (d) => rateOf(operations[d], scope, step),
    latency: (d) => `${rateOf(time[d], scope, step)} / ${rateOf(operations[d], scope, step)}`,
  };
  return directions.map((d) => `label_replace(${of[kind](d)}, "${LABEL}", "${d}", "", "")`).join(' or ');
}

/** As kube/prometheus.ts has it. */
interface Series {
  labels: Record<string, string>;
  points: { at: number; value: number }[];
}

/** The points of both directions; none if the answer has none. */
export const pointsOf = (series: Series[], direction: Direction): Series['points'] => series.find((s) => s.labels[LABEL] === direction)?.points ?? [];

/** A time for people, from seconds: microseconds, milliseconds or seconds, with two digits at least. */
export function formatLatency(seconds: number, locale: string): string {
  const [value, unit] = seconds >= 1 ? [seconds, 'second'] : seconds >= 0.001 || seconds === 0 ? [seconds * 1000, 'millisecond'] : [seconds * 1e6, 'microsecond'];
  return new Intl.NumberFormat(locale, { style: 'unit', unit, maximumFractionDigits: value < 10 ? 1 : 0 }).format(value);
}
