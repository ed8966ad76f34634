// The Pods that use a claim.
import { consoleFetch } from '@openshift-console/dynamic-plugin-sdk';
import { useEffect, useState } from 'react';
import type { Meta } from '../api/types';
import { textOf } from './watch';

interface Pod {
  metadata: Meta;
  spec?: { volumes?: { name: string; persistentVolumeClaim?: { claimName: string }; ephemeral?: object }[] };
  status?: { phase?: string };
}

/** Pods in an answer of the API server. */
const PAGE = 500;

/** Whether a Pod uses a claim. One that has ended does not. */
function uses({ metadata, spec, status }: Pod, claim: string): boolean {
  if (status?.phase === 'Succeeded' || status?.phase === 'Failed') return false;
  return (spec?.volumes ?? []).some((v) => v.persistentVolumeClaim?.claimName === claim || (v.ephemeral && `${metadata.name}-${v.name}` === claim));
}

/** The names of the Pods that use a claim, and have not ended. */
export async function podsOf(namespace: string, claim: string, signal?: AbortSignal): Promise<string[]> {
  const names: string[] = [];
  for (let next = ''; ; ) {
    const query = new URLSearchParams({ limit: String(PAGE), ...(next ? { continue: next } : {}) });
    const response = await consoleFetch(`/api/kubernetes/api/v1/namespaces/${encodeURIComponent(namespace)}/pods?${query}`, { signal });
    const { items, metadata } = (await response.json()) as { items: Pod[]; metadata: { continue?: string } };
    names.push(...items.filter((pod) => uses(pod, claim)).map((pod) => pod.metadata.name ?? ''));
    if (!metadata.continue) return names.sort();
    next = metadata.continue;
  }
}

/** The Pods of a claim, once they are known, or why they are not. */
export function usePods(namespace: string | undefined, claim: string | undefined): { names?: string[]; error?: string } {
  const [pods, set] = useState<{ names?: string[]; error?: string }>({});
  useEffect(() => {
    if (!namespace || !claim) return undefined;
    const controller = new AbortController();
    podsOf(namespace, claim, controller.signal).then(
      (names) => !controller.signal.aborted && set({ names }),
      (error: unknown) => !controller.signal.aborted && set({ error: textOf(error) }),
    );
    return () => controller.abort();
  }, [namespace, claim]);
  return pods;
}
