// As the consoles 4.19 to 4.21 have it: React 17, and a callback that gets the name and the version of a plugin.
import { version, type ReactElement } from 'react';
import { render } from 'react-dom';

export const consoleVersion = '4.19.0';

export const CALLBACK = '__load_plugin_entry__';

/** The loader of this page is that of a newer console. */
export function prepare(): void {
  if (!version.startsWith('17.')) throw new Error(`the page has React ${version}`);
  const callbacks = globalThis as unknown as Record<string, (id: string, entry: unknown) => void>;
  callbacks['loadPluginEntry'] = (id, entry) => {
    const [name = '', of] = id.split('@');
    if (!of) throw new Error(`the plugin ${id} has no version in its call of loadPluginEntry`);
    callbacks[CALLBACK]?.(name, entry);
  };
}

export const show = (page: ReactElement, box: HTMLElement): void => void render(page, box);
