import { useCallback, useEffect, useRef, useState } from 'react';
import type { LVMCluster } from '../api/types';
import { writable } from '../model/cluster';
import { sendNewest, type Outcome } from './submit';

/** Milliseconds without a change before the API server is asked. */
const PAUSE = 400;

/** Asks the API server what it would say to an LVMCluster, again after each change of it. The last question counts. */
export function useDryRun(outgoing: LVMCluster | undefined, settle: (outcome: Outcome) => void): { asking: boolean; again: () => void } {
  const [settled, setSettled] = useState<string>();
  const [round, setRound] = useState(0);
  const again = useCallback(() => setRound((n) => n + 1), []);
  const latest = useRef(outgoing);
  latest.current = outgoing;
  // The version changes with every status that the operator writes, and says nothing about what is wanted.
  const question = outgoing && `${round} ${outgoing.metadata.resourceVersion === undefined} ${JSON.stringify(writable(outgoing))}`;
  useEffect(() => {
    if (!outgoing || !question) return undefined;
    const controller = new AbortController();
    const timer = setTimeout(() => {
      void sendNewest(() => latest.current, { dryRun: true, signal: controller.signal }).then((outcome) => {
        if (controller.signal.aborted) return;
        settle(outcome);
        setSettled(question);
      });
    }, PAUSE);
    return () => {
      clearTimeout(timer);
      controller.abort();
    };
    // eslint-disable-next-line react-hooks/exhaustive-deps
  }, [question]);
  return { asking: question !== undefined && settled !== question, again };
}
