// Numbers of the cluster's Prometheus, through the console, as the user who looks.
import { consoleFetch } from '@openshift-console/dynamic-plugin-sdk';
import { useCallback, useEffect, useMemo, useState } from 'react';
import { textOf } from './watch';

export interface Sample {
  labels: Record<string, string>;
  value: number;
}

export interface Metrics {
  samples: Sample[];
  loaded: boolean;
  /** Why there are none, or why those there are may be old. */
  error?: string;
  /** The user may not ask. */
  forbidden?: boolean;
}

/** Seconds between two questions, and at most after failures; seconds that an answer may take. */
const INTERVAL = 60;
const LONGEST = 480;
const TIMEOUT = 15;

interface Answer {
  status?: string;
  data?: { resultType?: string; result?: { metric: Record<string, string>; value: [number, string] }[] };
}

/** Asks once. With a namespace the answer is about that one only, and the user needs no more than to see metrics there. */
export async function ask(query: string, namespace?: string): Promise<Sample[]> {
  const parameters = new URLSearchParams({ query, ...(namespace ? { namespace } : {}) });
  const response = await consoleFetch(`/api/prometheus${namespace ? '-tenancy' : ''}/api/v1/query?${parameters}`, {}, TIMEOUT * 1000);
  const answer = (await response.json()) as Answer;
  if (answer.status !== 'success' || answer.data?.resultType !== 'vector' || !Array.isArray(answer.data.result)) throw new Error('the answer is no list of values');
  return answer.data.result.map(({ metric, value }) => ({ labels: metric, value: Number(value[1]) }));
}

/** A value at a time, in milliseconds since 1970. */
export interface Point {
  at: number;
  value: number;
}

export interface Series {
  labels: Record<string, string>;
  /** In the order of their times. A time without a value is left out. */
  points: Point[];
}

export interface History {
  series: Series[];
  loaded: boolean;
  /** Why there are none, or why those there are may be old. */
  error?: string;
  /** The user may not ask. */
  forbidden?: boolean;
}

/** A chart has at most so many points of one series, and so many series. */
export const POINTS = 240;
export const MOST_SERIES = 32;

interface Matrix {
  status?: string;
  data?: { resultType?: string; result?: { metric: Record<string, string>; values: [number, string][] }[] };
}

/** Seconds between two points of a chart of so many seconds. */
export const stepOf = (seconds: number): number => Math.max(INTERVAL, Math.ceil(seconds / POINTS / INTERVAL) * INTERVAL);

/** Asks for the values of the last seconds. The times are multiples of the step, so that the next answer has the same ones. */
export async function askRange(query: string, seconds: number, namespace?: string): Promise<Series[]> {
  const step = stepOf(seconds);
  const end = Math.floor(Date.now() / 1000 / step) * step;
  const parameters = new URLSearchParams({ query, start: String(end - Math.ceil(seconds / step) * step), end: String(end), step: String(step), ...(namespace ? { namespace } : {}) });
  const response = await consoleFetch(`/api/prometheus${namespace ? '-tenancy' : ''}/api/v1/query_range?${parameters}`, {}, TIMEOUT * 1000);
  const answer = (await response.json()) as Matrix;
  if (answer.status !== 'success' || answer.data?.resultType !== 'matrix' || !Array.isArray(answer.data.result)) throw new Error('the answer is no list of series');
  return answer.data.result.slice(0, MOST_SERIES).map(({ metric, values }) => ({
    labels: metric, points: values.map(([at, value]) => ({ at: at * 1000, value: Number(value) })).filter((p) => Number.isFinite(p.value)),
  }));
}

/** The values of a query, now and after each interval, in seconds. Without a query nothing is asked. */
export function useMetrics(query: string | undefined, namespace?: string, interval = INTERVAL): Metrics {
  const { data, ...state } = useAsked(query, useCallback((q: string) => ask(q, namespace), [namespace]), none, interval);
  return useMemo(() => ({ ...state, samples: data }), [data, state.loaded, state.error, state.forbidden]);
}

/** The values of a query in the last seconds, now and once a minute. Without a query nothing is asked. */
export function useHistory(query: string | undefined, seconds: number, namespace?: string): History {
  const { data, ...state } = useAsked(query, useCallback((q: string) => askRange(q, seconds, namespace), [seconds, namespace]), nothing);
  return useMemo(() => ({ ...state, series: data }), [data, state.loaded, state.error, state.forbidden]);
}

const none: Sample[] = [];
const nothing: Series[] = [];

interface Asked<T> {
  data: T;
  loaded: boolean;
  error?: string;
  forbidden?: boolean;
}

/** Asks now and after each interval, less often after failures. What was answered last stays until there is a new answer, or another question. */
function useAsked<T>(query: string | undefined, question: (query: string) => Promise<T>, empty: T, interval = INTERVAL): Asked<T> {
  const [asked, set] = useState<Asked<T>>({ data: empty, loaded: false });
  useEffect(() => {
    if (!query) return undefined;
    let [ended, failures] = [false, 0];
    let timer: ReturnType<typeof setTimeout> | undefined;
    set({ data: empty, loaded: false });
    const next = async () => {
      try {
        const data = await question(query);
        failures = 0;
        if (!ended) set({ data, loaded: true });
      } catch (error) {
        failures++;
        const code = (error as { code?: number }).code;
        if (!ended) set((last) => ({ ...last, loaded: true, error: textOf(error), forbidden: code === 401 || code === 403 }));
      }
      if (!ended) timer = setTimeout(() => void next(), (failures ? Math.min(LONGEST, INTERVAL * 2 ** failures) : interval) * 1000);
    };
    void next();
    return () => {
      ended = true;
      clearTimeout(timer);
    };
  }, [query, question, empty, interval]);
  return asked;
}
