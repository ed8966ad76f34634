import { readdirSync, readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { expect, it } from 'vitest';
import { plugin } from '../plugin';

const require = createRequire(import.meta.url);
const read = (file: string) => JSON.parse(readFileSync(file, 'utf8')) as { version: string; peerDependencies?: Record<string, string>; devDependencies?: Record<string, string> };
const sdk = read('node_modules/@openshift-console/dynamic-plugin-sdk/package.json');
const { sharedPluginModules } = require('../node_modules/@openshift-console/dynamic-plugin-sdk-webpack/lib/shared-modules/shared-modules-meta.js') as { sharedPluginModules: string[] };

/** Modules that the sources import, without their paths. The console shares these; anything else is in the bundle. */
const imported = new Set(
  readdirSync('src', { recursive: true, encoding: 'utf8' })
    .filter((f) => /\.tsx?$/.test(f) && !/\.test\./.test(f))
    .flatMap((f) => [...readFileSync(`src/${f}`, 'utf8').matchAll(/ from '((?:@[^/']+\/)?[^./'][^/']*)/gm)].map((m) => m[1] ?? '')),
);
/** What a plugin must not have a copy of, since the console has its state in it. */
const stateful = ['react', 'react-i18next', 'react-redux', 'react-router', '@openshift-console/dynamic-plugin-sdk'];

it('the oldest console that the plugin declares is that of the SDK which it is built with', () => {
  const [, minor] = /^(\d+\.\d+)\./.exec(sdk.version) ?? [];
  expect(plugin.dependencies?.['@console/pluginAPI']).toBe(`>=${minor}.0-0`);
});

it('that console shares each module with state that the sources import', () => {
  const used = stateful.filter((name) => imported.has(name));
  expect(used).toEqual(expect.arrayContaining(['react', 'react-router', '@openshift-console/dynamic-plugin-sdk']));
  expect(used.filter((name) => !sharedPluginModules.includes(name))).toEqual([]);
});

it('types and tests have the versions of that console', () => {
  const ours = read('package.json').devDependencies ?? {};
  const numbers = (range = '') => range.replace(/^[~^]/, '').split('.').slice(0, 2).join('.');
  const wanted = Object.entries(sdk.peerDependencies ?? {}).filter(([name]) => name in ours);
  expect(wanted.length).toBeGreaterThan(4);
  expect(wanted.map(([name]) => [name, numbers(ours[name])])).toEqual(wanted.map(([name, range]) => [name, numbers(range)]));
});
