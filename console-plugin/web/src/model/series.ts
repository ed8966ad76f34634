// Lines over time: what a chart draws, and what is said of it in words.

/** As kube/prometheus.ts has it. */
interface Point {
  at: number;
  value: number;
}

/** What a table says of a line. */
export interface Summary {
  lowest?: number;
  highest?: number;
  /** The value at the end of the forecast. */
  ahead?: number;
}

/** The current value: none if the last point is older than two steps, in milliseconds. Without a step, it is the last point. */
export function currentOf(points: Point[], step: number | undefined, now: number): number | undefined {
  const last = points.at(-1);
  return last && (!step || now - last.at <= 2 * step) ? last.value : undefined;
}

export function summaryOf(points: Point[], forecast?: Point[]): Summary {
  const values = points.map((p) => p.value);
  if (values.length === 0) return {};
  return {
    lowest: values.reduce((a, b) => Math.min(a, b)), highest: values.reduce((a, b) => Math.max(a, b)),
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

/** The highest value of an axis for lines that have no natural limit: the highest point and a tenth above it. Without any value above 0, it is least. */
export const mostOf = (lines: Point[][], least = 1): number => lines.flat().reduce((most, p) => Math.max(most, p.value), 0) * 1.1 || least;

/**
 * The points of a line with a null in each gap, which the drawing leaves out: a time is missing if two points are further apart than a step, in milliseconds.
 * A point without neighbors becomes a short line, since it would not be seen otherwise.
 */
export function withGaps(points: Point[], step: number): { at: number; value: number | null }[] {
  const parts: Point[][] = [];
  for (const p of points) {
    const part = parts.at(-1);
    const last = part?.at(-1);
    if (part && last && p.at - last.at <= step * 1.5) part.push(p);
    else parts.push([p]);
  }
  return parts.flatMap((part, i) => {
    const [p] = part;
    const drawn = part.length === 1 && p ? [{ ...p, at: p.at - step / 4 }, { ...p, at: p.at + step / 4 }] : part;
    return i ? [{ at: (drawn[0]?.at ?? 0) - step / 8, value: null }, ...drawn] : drawn;
  });
}
