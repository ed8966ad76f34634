// Alerts that fire, and when space will be full, from what Prometheus answers. monitoring/rules is the source of the series.
import { summaries } from './alerts';

/** As kube/prometheus.ts has it. */
interface Sample {
  labels: Record<string, string>;
  value: number;
}

/** Marks the sample that tells how many parts of the product are scraped: without it nothing is known of alerts. */
const PROBE = 'lvms_probe';

export const alertQuery = `ALERTS{alertstate="firing"} or label_replace(count(lvms_build_info), "${PROBE}", "scraped", "", "")`;

export interface FiringAlert {
  name: string;
  severity: string;
  /** In the words of the rule; none for an alert that is not one of the product, which has no runbook either. */
  summary?: string;
  labels: Record<string, string>;
}

const severities = ['critical', 'warning', 'info'];
const rank = (severity: string): number => (severities.includes(severity) ? severities.indexOf(severity) : severities.length);

/** The alerts that fire, the most serious first. */
export function alertsOf(samples: Sample[]): FiringAlert[] {
  return samples
    .filter((s) => s.labels['__name__'] === 'ALERTS')
    .map(({ labels }) => {
      const name = labels['alertname'] ?? '';
      const summary = Object.hasOwn(summaries, name) ? summaries[name] : undefined;
      return { name, severity: labels['severity'] ?? '', labels, ...(summary ? { summary: filled(summary, labels) } : {}) };
    })
    .sort((a, b) => rank(a.severity) - rank(b.severity) || a.name.localeCompare(b.name) || (a.labels['node'] ?? '').localeCompare(b.labels['node'] ?? ''));
}

const filled = (text: string, labels: Record<string, string>): string => text.replace(/{{ \$labels\.(\w+) }}/g, (_, label: string) => labels[label] ?? '?');

/** Whether Prometheus collects the metrics of the product at all. */
export const isScraped = (samples: Sample[]): boolean => samples.some((s) => s.labels[PROBE] !== undefined && s.value > 0);

export type Space = 'data' | 'metadata' | 'group';

const series: Record<Space, string> = { data: 'lvms:thinpool_data:ratio', metadata: 'lvms:thinpool_metadata:ratio', group: 'lvms:volumegroup_used:ratio' };

/**
 * Seconds until a space is full, by the growth of a day and by that of its last six hours, whichever is later: the alerts ask for both too. -1
 * where it does not grow by both. Nothing where less than a day is known.
 */
function forecastOf(space: Space): string {
  const x = series[space];
  const within = (window: string) => `label_replace((1 - ${x}) / (deriv(${x}[${window}]) > 0), "lvms_window", "${window}", "", "")`;
  const later = `max without (lvms_window) (${within('6h')} or ${within('1d')})`;
  return `label_replace(${later} and (deriv(${x}[6h]) > 0) and (deriv(${x}[1d]) > 0) and ${x} offset 1d or (${x} offset 1d) * 0 - 1, "lvms_space", "${space}", "", "")`;
}

export const forecastQuery = (Object.keys(series) as Space[]).map(forecastOf).join(' or ');

/** Seconds until the first of the spaces of a volume group is full; none where it does not fill. */
export interface Forecast {
  seconds?: number;
  space?: Space;
}

const DAY = 86_400;
/** Further ahead nothing is said. */
const HORIZON = 90 * DAY;

export const forecastKey = (node: string, deviceClass: string): string => `${node}/${deviceClass}`;

/** What is known, by node and device class. */
export function forecastsOf(samples: Sample[]): Map<string, Forecast> {
  const all = new Map<string, Forecast>();
  for (const { labels, value } of samples) {
    const key = forecastKey(labels['node'] ?? '', labels['device_class'] ?? '');
    const soonest = all.get(key) ?? {};
    const fills = Number.isFinite(value) && value >= 0 && value <= HORIZON;
    all.set(key, fills && value < (soonest.seconds ?? Infinity) ? { seconds: value, space: labels['lvms_space'] as Space } : soonest);
  }
  return all;
}

/** For Intl.RelativeTimeFormat: hours below two days, then days. Rounded down: there is no more time than that. */
export const ahead = (seconds: number): [number, 'hour' | 'day'] => (seconds < 2 * DAY ? [Math.floor(seconds / 3600), 'hour'] : [Math.floor(seconds / DAY), 'day']);
