// Writes an LVMCluster, or asks the API server what it would say. consoleFetch and not k8sCreate: the latter shows the warnings of a
// dry run to the user as if something had happened.
import { consoleFetch } from '@openshift-console/dynamic-plugin-sdk';
import { clusterModel, GROUP, VERSION, type LVMCluster } from '../api/types';
import { writable } from '../model/cluster';
import { textOf } from './watch';

export interface Cause {
  field: string;
  message: string;
}

export type Outcome =
  | { kind: 'accepted'; cluster: LVMCluster; warnings: string[] }
  | { kind: 'refused'; message: string; causes: Cause[]; warnings: string[]; code?: number }
  /** Nobody answered, so nothing is known. */
  | { kind: 'unknown'; message: string };

interface Status {
  message?: string;
  reason?: string;
  details?: { causes?: { field?: string; message?: string }[] };
}

const folder = (namespace: string): string => `/api/kubernetes/apis/${GROUP}/${VERSION}/namespaces/${namespace}/${clusterModel.plural}`;

/** Texts of Warning headers (RFC 9110 left them to RFC 7234, 5.5): 299 - "text", several with commas between. */
export function warningsOf(header: string | null): string[] {
  return [...(header ?? '').matchAll(/\d{3} \S+ "((?:[^"\\]|\\.)*)"/g)].map((m) => (m[1] ?? '').replace(/\\(.)/g, '$1'));
}

export async function send(cluster: LVMCluster, options: { dryRun: boolean; signal?: AbortSignal }): Promise<Outcome> {
  const { name = '', namespace = '', resourceVersion } = cluster.metadata;
  const query = new URLSearchParams({ fieldValidation: 'Strict', fieldManager: 'lvms-console', ...(options.dryRun ? { dryRun: 'All' } : {}) });
  const url = resourceVersion ? `${folder(namespace)}/${encodeURIComponent(name)}` : folder(namespace);
  const { status: _, ...body } = cluster;
  try {
    const response = await consoleFetch(`${url}?${query}`, {
      method: resourceVersion ? 'PUT' : 'POST',
      headers: { 'Content-Type': 'application/json', Accept: 'application/json' },
      body: JSON.stringify(body),
      signal: options.signal,
    });
    return { kind: 'accepted', cluster: (await response.json()) as LVMCluster, warnings: warningsOf(response.headers.get('Warning')) };
  } catch (error) {
    return refusal(error);
  }
}

/** How often an object is sent that was changed meanwhile, and milliseconds before the second time; each further pause is twice as long. */
const TRIES = 5;
const PAUSE = 200;

/**
 * Sends the newest of an object. The operator writes its status at any moment, and gives the object another version each time: that alone is no
 * answer. latest returns what is to be sent as it is by then; what is wanted has to stay the same.
 */
export async function sendNewest(latest: () => LVMCluster | undefined, options: { dryRun: boolean; signal?: AbortSignal }): Promise<Outcome> {
  let next = latest();
  if (!next) return { kind: 'unknown', message: 'there is no change to save' };
  const wanted = JSON.stringify(writable(next));
  for (let pause = PAUSE; ; pause *= 2) {
    const outcome = await send(next, options);
    const changed = outcome.kind === 'refused' && outcome.code === 409 && next.metadata.resourceVersion !== undefined;
    if (!changed || pause >= PAUSE * 2 ** (TRIES - 1) || options.signal?.aborted) return outcome;
    await new Promise((done) => setTimeout(done, pause));
    const newest = latest();
    if (!newest || JSON.stringify(writable(newest)) !== wanted) return outcome;
    next = newest;
  }
}

/** What became of a request that was not accepted. */
export function refusal(error: unknown): Exclude<Outcome, { kind: 'accepted' }> {
  const { json, response, code } = error as { json?: Status; response?: Response; code?: number };
  const status = code ?? response?.status;
  if (status === undefined || status >= 500 && !json?.details) return { kind: 'unknown', message: json?.message ?? textOf(error) };
  return {
    kind: 'refused',
    code: status,
    message: json?.message ?? textOf(error),
    causes: (json?.details?.causes ?? []).map((c) => ({ field: c.field ?? '', message: c.message ?? '' })),
    warnings: warningsOf(response?.headers?.get('Warning') ?? null),
  };
}
