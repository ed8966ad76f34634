// Suspends volumes and resumes them, after a look whether they are still as they were shown.
import { consoleFetch } from '@openshift-console/dynamic-plugin-sdk';
import { SUSPENDED_ANNOTATION, type LogicalVolume } from '../api/types';
import { suspensionOf } from '../model/suspension';
import { refusal, type Outcome } from './submit';

export type SuspensionOutcome =
  | { kind: 'accepted' }
  /** The volume was deleted, or somebody else suspended or resumed it: nothing was written. */
  | { kind: 'stale'; standing: 'deleted' | 'changed' }
  | Exclude<Outcome, { kind: 'accepted' }>;

const address = (name: string): string => `/api/kubernetes/apis/topolvm.io/v1/logicalvolumes/${encodeURIComponent(name)}`;
const strict = new URLSearchParams({ fieldValidation: 'Strict', fieldManager: 'lvms-console' });

/** How often a volume is patched that was changed meanwhile, and milliseconds before the second time; each further pause is twice as long. */
const TRIES = 5;
const PAUSE = 200;

/** Reads a volume now; undefined if it does not exist. */
async function read(name: string): Promise<LogicalVolume | undefined> {
  try {
    return (await (await consoleFetch(address(name))).json()) as LogicalVolume;
  } catch (error) {
    const failure = refusal(error);
    if (failure.kind === 'refused' && failure.code === 404) return undefined;
    throw error;
  }
}

async function patch({ metadata: { name = '', uid, resourceVersion } }: LogicalVolume, text: string | undefined): Promise<void> {
  const body = { metadata: { uid, resourceVersion, annotations: { [SUSPENDED_ANNOTATION]: text ?? null } } };
  await consoleFetch(`${address(name)}?${strict}`, { method: 'PATCH', headers: { 'Content-Type': 'application/merge-patch+json', Accept: 'application/json' }, body: JSON.stringify(body) });
}

/**
 * Suspends the volume that is shown, with a text that says who, when and why; without a text, resumes it. The version in the patch makes the API
 * server refuse it if the volume was changed after it was read: then it is read again, because node agents change it too.
 */
export async function writeSuspension(shown: LogicalVolume, text: string | undefined): Promise<SuspensionOutcome> {
  for (let pause = PAUSE; ; pause *= 2) {
    try {
      const now = await read(shown.metadata.name ?? '');
      if (!now || now.metadata.uid !== shown.metadata.uid) return { kind: 'stale', standing: 'deleted' };
      const own = suspensionOf(now)?.own;
      if (own === text) return { kind: 'accepted' };
      if (own !== suspensionOf(shown)?.own) return { kind: 'stale', standing: 'changed' };
      await patch(now, text);
      return { kind: 'accepted' };
    } catch (error) {
      const failure = refusal(error);
      const again = failure.kind === 'refused' && failure.code === 409 && pause < PAUSE * 2 ** (TRIES - 1);
      if (!again) return failure;
    }
    await new Promise((done) => setTimeout(done, pause));
  }
}
