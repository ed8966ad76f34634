// The line "Local volumes" in the status card of the console's Overview.
import { GROUP, VERSION, clusterModel, type LVMCluster } from '../api/types';
import { NAMESPACE } from '../namespace';
import { healthOf } from '../model/health';
import { msg, type Message } from '../model/message';

/** What the console reads for it. There is one LVMCluster. */
export const resources = { clusters: { groupVersionKind: { group: GROUP, version: VERSION, kind: clusterModel.kind }, isList: true } };

interface Results {
  clusters?: { data?: LVMCluster[]; loaded?: boolean; loadError?: unknown };
}

/** The words of the console's HealthState. */
export type Standing = 'OK' | 'ERROR' | 'WARNING' | 'LOADING' | 'UNKNOWN' | 'PROGRESS' | 'NOT_AVAILABLE';

export function standingOf(results: Results | undefined): { state: Standing; message?: Message } {
  const { data = [], loaded, loadError } = results?.clusters ?? {};
  const [cluster] = data;
  if (loadError) return { state: 'UNKNOWN', message: msg('Could not be read') };
  if (!loaded) return { state: 'LOADING' };
  if (!cluster) return { state: 'NOT_AVAILABLE', message: msg('Not set up') };
  const { level, sentence } = healthOf(cluster);
  if (level === 'success') return { state: 'OK' };
  if (level === 'info') return { state: cluster.status?.state === 'Ready' ? 'OK' : 'PROGRESS', message: sentence };
  return { state: level === 'danger' ? 'ERROR' : 'WARNING', message: sentence };
}

export function handler(results: Results, t?: (key: string, values?: Message['values']) => string): { state: Standing; message?: string } {
  const { state, message } = standingOf(results);
  return { state, ...(message ? { message: t ? t(`${NAMESPACE}~${message.key}`, message.values) : message.key } : {}) };
}
