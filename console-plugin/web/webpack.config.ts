import { ConsoleRemotePlugin } from '@openshift-console/dynamic-plugin-sdk-webpack';
import { cpSync, readdirSync, readFileSync, renameSync, writeFileSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { gzipSync } from 'node:zlib';
import type { Compiler, Configuration } from 'webpack';
import { extensions } from './extensions.ts';
import { plugin } from './plugin.ts';
import { NAMED, sumOf, type Manifest } from './scripts/sum.ts';

const out = resolve('../dist/plugin');

/** Compressed once, here, and not by the server: it has little memory. The time in the header is 0, so that two builds are the same. */
const compressed = {
  apply: (compiler: Compiler) =>
    compiler.hooks.done.tap('compressed', () => {
      for (const name of readdirSync(out, { recursive: true, encoding: 'utf8' }))
        if (/\.(js|json)$/.test(name)) writeFileSync(join(out, `${name}.gz`), gzipSync(readFileSync(join(out, name)), { level: 9 }));
    }),
};

/** The sum of what was built stands in the name of the entry and in the manifest, in place of webpack's own. */
const reproducible = {
  apply: (compiler: Compiler) =>
    compiler.hooks.afterEmit.tap('reproducible', () => {
      const file = join(out, 'plugin-manifest.json');
      const before = JSON.parse(readFileSync(file, 'utf8')) as Manifest;
      const buildHash = sumOf(out, before);
      const loadScripts = before.loadScripts.map((name) => name.replace(before.buildHash.slice(0, NAMED), buildHash.slice(0, NAMED)));
      before.loadScripts.forEach((name, i) => renameSync(join(out, name), join(out, loadScripts[i] ?? name)));
      writeFileSync(file, JSON.stringify({ ...before, loadScripts, buildHash }));
    }),
};

/** The translations go beside the bundle: the console asks the server of the plugin for them. */
const translations = {
  apply: (compiler: Compiler) => compiler.hooks.afterEmit.tap('translations', () => cpSync(resolve('locales'), resolve(out, 'locales'), { recursive: true })),
};

const config: Configuration = {
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
  plugins: [new ConsoleRemotePlugin({ pluginMetadata: plugin, extensions: extensions as never }), reproducible, translations, compressed],
  optimization: { chunkIds: 'named', minimize: true },
  performance: { hints: false },
};
export default config;
