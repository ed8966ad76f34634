// Creates, approves and deletes recoveries.
import { consoleFetch } from '@openshift-console/dynamic-plugin-sdk';
import { GROUP, recoveryModel, VERSION, type LVMRecovery, type RecoveryPlan } from '../api/types';
import { approvalPatch } from '../model/recovery';
import { refusal, type Outcome } from './submit';

export type RecoveryOutcome = { kind: 'accepted'; recovery: LVMRecovery } | Exclude<Outcome, { kind: 'accepted' }>;

const folder = (namespace: string): string => `/api/kubernetes/apis/${GROUP}/${VERSION}/namespaces/${namespace}/${recoveryModel.plural}`;
const address = ({ metadata: { namespace = '', name = '' } }: LVMRecovery): string => `${folder(namespace)}/${encodeURIComponent(name)}`;
const strict = new URLSearchParams({ fieldValidation: 'Strict', fieldManager: 'lvms-console' });

async function ask(url: string, method: string, body: unknown, type = 'application/json'): Promise<RecoveryOutcome> {
  try {
    const response = await consoleFetch(url, { method, headers: { 'Content-Type': type, Accept: 'application/json' }, body: JSON.stringify(body) });
    return { kind: 'accepted', recovery: (await response.json()) as LVMRecovery };
  } catch (error) {
    return refusal(error);
  }
}

export const createRecovery = (recovery: LVMRecovery): Promise<RecoveryOutcome> => ask(`${folder(recovery.metadata.namespace ?? '')}?${strict}`, 'POST', recovery);

/** Approves this plan and no other: if any part of it has changed by then, the API server refuses the patch. */
export const approveRecovery = (recovery: LVMRecovery, plan: RecoveryPlan): Promise<RecoveryOutcome> =>
  ask(`${address(recovery)}?${strict}`, 'PATCH', approvalPatch(recovery, plan), 'application/json-patch+json');

/** Deletes this recovery, and not another one of the same name. */
export const deleteRecovery = (recovery: LVMRecovery): Promise<RecoveryOutcome> =>
  ask(address(recovery), 'DELETE', { apiVersion: 'v1', kind: 'DeleteOptions', preconditions: { uid: recovery.metadata.uid } });
