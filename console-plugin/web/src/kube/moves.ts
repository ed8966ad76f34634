// Creates moves of volumes, and deletes them.
import { consoleFetch } from '@openshift-console/dynamic-plugin-sdk';
import { GROUP, moveModel, VERSION, type VolumeMove } from '../api/types';
import { undoOf, type Undo } from '../model/moves';
import { refusal, type Outcome } from './submit';

type Failure = Exclude<Outcome, { kind: 'accepted' }>;
export type CreateOutcome = { kind: 'accepted'; move: VolumeMove } | Failure;
/** stale: the deletion would do something else by now, so nothing was deleted. */
export type DeleteOutcome = { kind: 'accepted' } | { kind: 'stale'; undo: Undo } | Failure;

const folder = (namespace: string): string => `/api/kubernetes/apis/${GROUP}/${VERSION}/namespaces/${namespace}/${moveModel.plural}`;
const address = ({ metadata: { namespace = '', name = '' } }: VolumeMove): string => `${folder(namespace)}/${encodeURIComponent(name)}`;
const strict = new URLSearchParams({ fieldValidation: 'Strict', fieldManager: 'lvms-console' });

/** How often a move is deleted that was changed meanwhile, and milliseconds before the second time; each further pause is twice as long. */
const TRIES = 5;
const PAUSE = 200;

const ask = async (url: string, method: string, body: unknown): Promise<unknown> =>
  (await consoleFetch(url, { method, headers: { 'Content-Type': 'application/json', Accept: 'application/json' }, body: JSON.stringify(body) })).json();

export async function createMove(move: VolumeMove): Promise<CreateOutcome> {
  try {
    return { kind: 'accepted', move: (await ask(`${folder(move.metadata.namespace ?? '')}?${strict}`, 'POST', move)) as VolumeMove };
  } catch (error) {
    return refusal(error);
  }
}

/** Reads a move now; undefined if it does not exist. */
async function read(move: VolumeMove): Promise<VolumeMove | undefined> {
  try {
    return (await (await consoleFetch(address(move))).json()) as VolumeMove;
  } catch (error) {
    const failure = refusal(error);
    if (failure.kind === 'refused' && failure.code === 404) return undefined;
    throw error;
  }
}

/**
 * Deletes the move that is shown, if this still does what was shown. The version in the preconditions makes the API server refuse it if the move was
 * changed after it was read: then it is read again, because the operator changes it often. What is already gone needs no second deletion.
 */
export async function deleteMove(shown: VolumeMove, undo: Undo): Promise<DeleteOutcome> {
  for (let pause = PAUSE; ; pause *= 2) {
    try {
      const now = await read(shown);
      if (!now || now.metadata.uid !== shown.metadata.uid || now.metadata.deletionTimestamp) return { kind: 'accepted' };
      if (undoOf(now) !== undo) return { kind: 'stale', undo: undoOf(now) };
      const { uid, resourceVersion } = now.metadata;
      await ask(address(now), 'DELETE', { apiVersion: 'v1', kind: 'DeleteOptions', preconditions: { uid, resourceVersion } });
      return { kind: 'accepted' };
    } catch (error) {
      const failure = refusal(error);
      if (failure.kind === 'refused' && failure.code === 404) return { kind: 'accepted' };
      const again = failure.kind === 'refused' && failure.code === 409 && pause < PAUSE * 2 ** (TRIES - 1);
      if (!again) return failure;
    }
    await new Promise((done) => setTimeout(done, pause));
  }
}
