// The user of the page.
import { useEffect, useState } from 'react';
import { whoAmI } from './approve';
import { textOf } from './watch';

/** The user as the API server knows them, or why that is not known. Without enabled, nobody is asked. */
export function useUser(enabled = true): { name?: string; error?: string } {
  const [user, set] = useState<{ name?: string; error?: string }>({});
  useEffect(() => {
    if (!enabled) return undefined;
    let ended = false;
    whoAmI().then((name) => !ended && set({ name }), (error: unknown) => !ended && set({ error: textOf(error) }));
    return () => {
      ended = true;
    };
  }, [enabled]);
  return user;
}
