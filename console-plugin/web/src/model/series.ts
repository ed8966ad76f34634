// Lines over time: what a chart draws, and what is said of it in words.

/** As kube/prometheus.ts has it. */
interface Point {
  at: number;
  value: number;
}

/** What a table says of a line. */
export interface Summary {
  now?: number;
  lowest?: number;
  highest?: number;
  /** The value at the end of the forecast. */
  ahead?: number;
}

export function summaryOf(points: Point[], forecast?: Point[]): Summary {
  const values = points.map((p) => p.value);
  if (values.length === 0) return {};
  return {
    now: values.at(-1), lowest: values.reduce((a, b) => Math.min(a, b)), highest: values.reduce((a, b) => Math.max(a, b)),
    ahead: forecast?.at(-1)?.value,
  };
}

/**
 * The forecast of a line, from its last point to a value after so many milliseconds: none without a point, and within the limits of the axis. A line
 * that leaves them ends there.
 */
export function forecastLine(points: Point[], predicted: number | undefined, after: number, most: number): Point[] | undefined {
  const last = points.at(-1);
  if (!last || predicted === undefined || !Number.isFinite(predicted)) return undefined;
  const end = Math.min(most, Math.max(0, predicted));
  const share = end === predicted || predicted === last.value ? 1 : (end - last.value) / (predicted - last.value);
  return [last, { at: Math.round(last.at + Math.max(0, share) * after), value: end }];
}

/** The highest value of an axis for lines that have no natural limit: the highest point and a tenth above it, at least one. */
export const mostOf = (lines: Point[][]): number => lines.flat().reduce((most, p) => Math.max(most, p.value), 0) * 1.1 || 1;
