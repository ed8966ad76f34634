// Writes approvals of devices, after a look whether the devices are still as they were shown, and deletes them.
import { consoleFetch } from '@openshift-console/dynamic-plugin-sdk';
import { approvalModel, GROUP, nodeStatusModel, VERSION, type DeviceApproval, type NodeStatus } from '../api/types';
import { isSameApproval, newApproval, standingOf, type Standing, type Waiting } from '../model/approval';
import { refusal, type Outcome } from './submit';

type Failure = Exclude<Outcome, { kind: 'accepted' }>;

export type ApprovalOutcome =
  | { kind: 'accepted' }
  /** The device is no longer as it was shown: nothing was written. */
  | { kind: 'stale'; standing: Exclude<Standing, 'waits'> }
  /** Another approval has the name. */
  | { kind: 'taken'; name: string }
  | Failure;

const folder = (namespace: string, plural: string): string => `/api/kubernetes/apis/${GROUP}/${VERSION}/namespaces/${namespace}/${plural}`;
const address = ({ metadata: { namespace = '', name = '' } }: DeviceApproval): string => `${folder(namespace, approvalModel.plural)}/${encodeURIComponent(name)}`;
const strict = new URLSearchParams({ fieldValidation: 'Strict', fieldManager: 'lvms-console' });

const ask = async (url: string, method: string, body: unknown): Promise<unknown> =>
  (await consoleFetch(url, { method, headers: { 'Content-Type': 'application/json', Accept: 'application/json' }, body: JSON.stringify(body) })).json();
const read = async (url: string): Promise<unknown> => (await consoleFetch(url)).json();

/** The name of the user, as the API server knows it. An approval must have this one. */
export async function whoAmI(): Promise<string> {
  const review = { apiVersion: 'authentication.k8s.io/v1', kind: 'SelfSubjectReview' };
  const { status } = (await ask('/api/kubernetes/apis/authentication.k8s.io/v1/selfsubjectreviews', 'POST', review)) as { status?: { userInfo?: { username?: string } } };
  if (!status?.userInfo?.username) throw new Error('the API server did not return a user name');
  return status.userInfo.username;
}

/** Reads what a node lists now. A node that has no status lists nothing. */
async function statusOf(namespace: string, node: string): Promise<NodeStatus[]> {
  try {
    return [(await read(`${folder(namespace, nodeStatusModel.plural)}/${encodeURIComponent(node)}`)) as NodeStatus];
  } catch (error) {
    const failure = refusal(error);
    if (failure.kind === 'refused' && failure.code === 404) return [];
    throw error;
  }
}

/** Approves a device as it is shown: if the node lists it with another fingerprint by now, nothing is written. */
export async function approveDevice(shown: Waiting, namespace: string, user: string): Promise<ApprovalOutcome> {
  const approval = newApproval(shown, namespace, user);
  try {
    const standing = standingOf(shown, await statusOf(namespace, shown.node));
    if (standing !== 'waits') return { kind: 'stale', standing };
    await ask(`${folder(namespace, approvalModel.plural)}?${strict}`, 'POST', approval);
    return { kind: 'accepted' };
  } catch (error) {
    const failure = refusal(error);
    const exists = failure.kind === 'refused' && (error as { json?: { reason?: string } }).json?.reason === 'AlreadyExists';
    return exists ? present(approval) : failure;
  }
}

/** What is written already needs no second approval, if it is the same. */
async function present(approval: DeviceApproval): Promise<ApprovalOutcome> {
  try {
    const other = (await read(address(approval))) as DeviceApproval;
    return isSameApproval(other, approval) ? { kind: 'accepted' } : { kind: 'taken', name: approval.metadata.name ?? '' };
  } catch (error) {
    return refusal(error);
  }
}

/** Deletes this approval, and not another one of the same name. What is already gone needs no second deletion. */
export async function revoke(approval: DeviceApproval): Promise<{ kind: 'accepted' } | Failure> {
  try {
    await ask(address(approval), 'DELETE', { apiVersion: 'v1', kind: 'DeleteOptions', preconditions: { uid: approval.metadata.uid } });
    return { kind: 'accepted' };
  } catch (error) {
    const failure = refusal(error);
    return failure.kind === 'refused' && failure.code === 404 ? { kind: 'accepted' } : failure;
  }
}
