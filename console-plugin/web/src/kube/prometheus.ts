// Numbers of the cluster's Prometheus, through the console, as the user who looks.
import { consoleFetch } from '@openshift-console/dynamic-plugin-sdk';
import { useEffect, useState } from 'react';
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

/** The values of a query, now and once a minute. Without a query nothing is asked. */
export function useMetrics(query: string | undefined, namespace?: string): Metrics {
  const [metrics, set] = useState<Metrics>({ samples: [], loaded: false });
  useEffect(() => {
    if (!query) return undefined;
    let [ended, failures] = [false, 0];
    let timer: ReturnType<typeof setTimeout> | undefined;
    set({ samples: [], loaded: false });
    const next = async () => {
      try {
        const samples = await ask(query, namespace);
        failures = 0;
        if (!ended) set({ samples, loaded: true });
      } catch (error) {
        failures++;
        const code = (error as { code?: number }).code;
        if (!ended) set((last) => ({ ...last, loaded: true, error: textOf(error), forbidden: code === 401 || code === 403 }));
      }
      if (!ended) timer = setTimeout(() => void next(), Math.min(LONGEST, INTERVAL * 2 ** failures) * 1000);
    };
    void next();
    return () => {
      ended = true;
      clearTimeout(timer);
    };
  }, [query, namespace]);
  return metrics;
}
