import { DynamicRemotePlugin } from '@openshift/dynamic-plugin-sdk-webpack';
import { ConsoleRemotePlugin } from '@openshift-console/dynamic-plugin-sdk-webpack';
import { cpSync, readdirSync, readFileSync, renameSync, writeFileSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { gzipSync } from 'node:zlib';
import type { Compiler, Configuration, WebpackPluginInstance } from 'webpack';
import { extensions } from './extensions.ts';
import { legacyPlugin, legacyShared } from './legacy.ts';
import { plugin } from './plugin.ts';
import { withoutStyles } from './scripts/styles.ts';
import { NAMED, sumOf, type Manifest } from './scripts/sum.ts';

/** --env legacy: for the consoles of OpenShift 4.19 to 4.21. It goes into a folder of the first build, which removes it: so it comes second. */
const config = (env: { legacy?: boolean }): Configuration => (env.legacy ? legacyBuild() : build('../dist/plugin'));
export default config;

/** Compressed once, here, and not by the server: it has little memory. The time in the header is 0, so that two builds are the same. */
const compressed = (out: string) => ({
  apply: (compiler: Compiler) =>
    compiler.hooks.done.tap('compressed', () => {
      for (const name of readdirSync(out, { recursive: true, encoding: 'utf8' }))
        if (/\.(js|json)$/.test(name)) writeFileSync(join(out, `${name}.gz`), gzipSync(readFileSync(join(out, name)), { level: 9 }));
    }),
});

/** The sum of what was built stands in the name of the entry and in the manifest, in place of webpack's own. */
const reproducible = (out: string) => ({
  apply: (compiler: Compiler) =>
    compiler.hooks.afterEmit.tap('reproducible', () => {
      const file = join(out, 'plugin-manifest.json');
      const before = JSON.parse(readFileSync(file, 'utf8')) as Manifest;
      const buildHash = sumOf(out, before);
      const loadScripts = before.loadScripts.map((name) => name.replace(before.buildHash.slice(0, NAMED), buildHash.slice(0, NAMED)));
      before.loadScripts.forEach((name, i) => renameSync(join(out, name), join(out, loadScripts[i] ?? name)));
      writeFileSync(file, JSON.stringify({ ...before, loadScripts, buildHash }));
    }),
});

/** The translations go beside the bundle: the console asks the server of the plugin for them. */
const translations = (out: string) => ({
  apply: (compiler: Compiler) => compiler.hooks.afterEmit.tap('translations', () => cpSync(resolve('locales'), resolve(out, 'locales'), { recursive: true })),
});

function build(folder: string, remote?: WebpackPluginInstance): Configuration {
  const out = resolve(folder);
  return {
    mode: 'production',
    entry: {},
    context: resolve('.'),
    devtool: false,
    output: { path: out, filename: '[name]-bundle.[contenthash].js', chunkFilename: '[name]-chunk.[contenthash].js', clean: true },
    resolve: { extensions: ['.ts', '.tsx', '.js'] },
    module: {
      rules: [
        { test: /\.tsx?$/, exclude: /node_modules/, loader: 'esbuild-loader', options: { target: 'es2022', jsx: 'automatic', tsconfig: resolve('tsconfig.json') } },
        { test: /\.md$/, type: 'asset/source' },
      ],
    },
    plugins: [remote ?? new ConsoleRemotePlugin({ pluginMetadata: plugin, extensions: extensions as never }), reproducible(out), translations(out), compressed(out)],
    optimization: { chunkIds: 'named', minimize: true },
    performance: { hints: false },
  };
}

/** With the React of these consoles, their modules, and their callback, which knows a plugin by its name and version. */
function legacyBuild(): Configuration {
  const { displayName, description, ...metadata } = legacyPlugin;
  const remote = new DynamicRemotePlugin({
    pluginMetadata: { ...metadata, customProperties: { console: { displayName, description } } },
    extensions: extensions as never,
    sharedModules: Object.fromEntries(Object.entries(legacyShared).map(([name, requiredVersion]) => [name, { singleton: true, import: false, requiredVersion }])),
    entryCallbackSettings: { name: 'loadPluginEntry', pluginID: `${plugin.name}@${plugin.version}` },
    entryScriptFilename: 'plugin-entry.[fullhash].min.js',
  });
  const config = build('../dist/plugin/legacy', remote);
  config.output = { ...config.output, publicPath: `/api/plugins/${plugin.name}/` };
  config.resolve = {
    extensions: ['.legacy.ts', '.ts', '.tsx', '.js'],
    alias: { ...withoutStyles(), 'react/jsx-runtime': resolve('node_modules/react-17/jsx-runtime.js'), 'react-dom': resolve('node_modules/react-dom-17') },
  };
  return config;
}
