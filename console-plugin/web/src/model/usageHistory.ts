// Usage over time with its forecast, as questions to Prometheus. monitoring/rules is the source of the series and of what the alerts predict.
import { PREDICTION, THRESHOLDS } from './alerts';
import { forecastLine } from './series';

/** As kube/prometheus.ts has them. */
interface Point {
  at: number;
  value: number;
}
interface Series {
  labels: Record<string, string>;
  points: Point[];
}
interface Sample {
  labels: Record<string, string>;
  value: number;
}

const DAY = 86_400;
/** The periods to choose from, in seconds. */
export const PERIODS = [DAY, 7 * DAY, 14 * DAY] as const;
export type Period = (typeof PERIODS)[number];

/** A chart has at most so many lines: those that are fullest now. */
export const MOST_LINES = 6;

/** How far ahead the forecast is drawn, in seconds: no further than the alerts look, and not over more than a third of the chart. */
export const horizonOf = (period: Period): number => Math.min(PREDICTION.days * DAY, period / 2);

/** The used part of thin pools and of thick volume groups. */
const SPACES = ['lvms:thinpool_data:ratio', 'lvms:volumegroup_used:ratio'];

/** One line for each device class, of its fullest node; for one device class, a line for each node. */
const labelOf = (deviceClass: string | undefined): 'node' | 'device_class' => (deviceClass ? 'node' : 'device_class');
const grouped = (deviceClass: string | undefined, of: (series: string) => string): string => {
  const only = deviceClass ? `{device_class="${deviceClass}"}` : '';
  return `max by (namespace, ${labelOf(deviceClass)}) (${SPACES.map((s) => of(`${s}${only}`)).join(' or ')})`;
};

/** The fullest lines over time. Which ones these are is decided once, for the end of the period: else there would be gaps. */
export const historyQuery = (deviceClass?: string): string =>
  `${grouped(deviceClass, (s) => s)} and on (${labelOf(deviceClass)}) topk(${MOST_LINES}, ${grouped(deviceClass, (s) => `last_over_time(${s}[1h] @ end())`)})`;

/** The usage that the alerts predict, so many seconds ahead: they need the growth of all windows, so the lowest prediction counts. Nothing if less than a day is known. */
export function predictionQuery(seconds: number, deviceClass?: string): string {
  const of = (s: string): string => {
    const within = (window: string) => `label_replace(predict_linear(${s}[${window}], ${seconds}), "lvms_window", "${window}", "", "")`;
    return `(min without (lvms_window) (${PREDICTION.windows.map(within).join(' or ')}) and ${s} offset 1d)`;
  };
  return grouped(deviceClass, of);
}

export interface UsageLine {
  label: string;
  points: Point[];
  forecast?: Point[];
}

/** The lines of both answers, the fullest first. A ratio is between 0 and 1. */
export function usageLines(history: Series[], predictions: Sample[], period: Period, deviceClass?: string): UsageLine[] {
  const name = labelOf(deviceClass);
  const predicted = new Map(predictions.map((s) => [s.labels[name], s.value]));
  return history
    .map(({ labels, points }) => ({ label: labels[name] ?? '?', points, forecast: forecastLine(points, predicted.get(labels[name]), horizonOf(period) * 1000, 1) }))
    .sort((a, b) => (b.points.at(-1)?.value ?? 0) - (a.points.at(-1)?.value ?? 0) || a.label.localeCompare(b.label));
}

/** The thresholds of the alerts, in ascending order. */
export const thresholds = Object.entries(THRESHOLDS).map(([name, value]) => ({ name: name as keyof typeof THRESHOLDS, value }));
