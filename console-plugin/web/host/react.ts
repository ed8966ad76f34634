// What the console has of React and of the loader of plugins. react.legacy.ts is that of older consoles.
import type { ReactElement } from 'react';
import { createRoot } from 'react-dom/client';

/** The version of the console, which plugins declare a dependency on. */
export const consoleVersion = '4.22.0';

/** The name of the function that the script of a plugin calls, for the PluginStore. */
export const CALLBACK = '__load_plugin_entry__';

export const prepare = (): void => undefined;

export const show = (page: ReactElement, box: HTMLElement): void => createRoot(box).render(page);
