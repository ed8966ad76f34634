import { readdirSync, readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { describe, expect, it } from 'vitest';
import { legacyPlugin, legacySDKs, legacyShared } from '../legacy';
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

/** What the sources import of a module by name, other than types. */
const namesOf = (module: string, files: string[]): string[] => [
  ...new Set(
    files
      .flatMap((f) => [...readFileSync(f, 'utf8').matchAll(new RegExp(`^(?:import|export) \\{([^}]*)\\} from '${module}'`, 'gm'))])
      .flatMap((m) => (m[1] ?? '').split(','))
      .map((name) => name.trim())
      .filter((name) => name && !name.startsWith('type ')),
  ),
];
const all = readdirSync('src', { recursive: true, encoding: 'utf8' }).filter((f) => /\.tsx?$/.test(f) && !/\.test\./.test(f)).map((f) => `src/${f}`);

describe('the build for older consoles', () => {
  it('is for the consoles of the SDKs that it is checked with, and the other build for all later ones', () => {
    const minors = legacySDKs.map((name) => /^(\d+\.\d+)\./.exec(read(`node_modules/${name}/package.json`).version)?.[1]);
    expect(minors.map((minor) => `console-sdk-${minor}`)).toEqual(legacySDKs);
    const [, current] = /^(\d+\.\d+)\./.exec(sdk.version) ?? [];
    expect(legacyPlugin.dependencies['@console/pluginAPI']).toBe(`>=${minors[0]}.0-0 <${current}.0-0`);
  });

  it('shares what these SDKs say that the console shares, in their versions', () => {
    for (const name of legacySDKs) {
      const { dependencies = {} } = JSON.parse(readFileSync(`node_modules/${name}/package.json`, 'utf8')) as { dependencies?: Record<string, string> };
      const ours = Object.entries(legacyShared).filter(([module]) => !module.startsWith('@openshift-console/'));
      expect(ours.length).toBe(3);
      expect(ours.map(([module]) => [module, dependencies[module]])).toEqual(ours);
    }
  });

  it('uses nothing that React 17 and that router lack', () => {
    for (const [module, installed, files] of [['react', 'react-17', all], ['react-router-dom-v5-compat', 'react-router-dom-v5-compat', ['src/router.legacy.ts']]] as const) {
      const names = namesOf(module, [...files]);
      expect(names.length).toBeGreaterThan(3);
      const offered = Object.keys(require(installed) as object);
      expect(names.filter((name) => !offered.includes(name))).toEqual([]);
    }
  });

  it('has the same names of the router as the other build, and nothing else imports a router', () => {
    expect(namesOf('react-router-dom-v5-compat', ['src/router.legacy.ts'])).toEqual(namesOf('react-router', ['src/router.ts']));
    expect(all.filter((f) => /from 'react-router/.test(readFileSync(f, 'utf8')))).toEqual(expect.arrayContaining(['src/router.ts', 'src/router.legacy.ts']));
    expect(all.filter((f) => /from 'react-router/.test(readFileSync(f, 'utf8'))).length).toBe(2);
  });
});
