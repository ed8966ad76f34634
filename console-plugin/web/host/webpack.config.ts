// The page that loads the plugin as the console does. For tests and for `make console`; it is not shipped.
import { cpSync, readFileSync, writeFileSync } from 'node:fs';
import { resolve } from 'node:path';
import webpack, { type Compiler, type Configuration } from 'webpack';
import { withoutStyles } from '../scripts/styles.ts';

const once = { singleton: true, eager: true, requiredVersion: false } as const;
const sdk = (version: string) => ({ ...once, import: resolve('host/sdk.tsx'), version });

/** What differs between the consoles: the folder, the styles, and the modules that they share. */
interface Kind {
  folder: string;
  patternfly: string;
  resolve: Configuration['resolve'];
  shared: Record<string, object>;
}

const current: Kind = {
  folder: 'host/dist',
  patternfly: 'node_modules/@patternfly/patternfly',
  resolve: { extensions: ['.ts', '.tsx', '.js'] },
  shared: {
    react: once, 'react-i18next': once, 'react-router': once, 'react-redux': once, redux: once, 'redux-thunk': once, '@openshift/dynamic-plugin-sdk': once,
    '@openshift-console/dynamic-plugin-sdk': sdk('4.22.0'),
  },
};

const modules = (name: string): string => resolve('node_modules', name);

/** --env legacy: as the consoles of OpenShift 4.19 to 4.21 are, in the versions of the oldest one. It goes into a folder of the first page. */
const legacy: Kind = {
  folder: 'host/dist/legacy',
  patternfly: 'node_modules/patternfly-6.2',
  resolve: {
    extensions: ['.legacy.ts', '.legacy.tsx', '.ts', '.tsx', '.js'],
    alias: { ...withoutStyles(), 'react/jsx-runtime': modules('react-17/jsx-runtime.js'), 'react-dom': modules('react-dom-17'), i18next: modules('i18next-21') },
  },
  shared: {
    react: { ...once, import: modules('react-17'), version: '17.0.2' },
    'react-i18next': { ...once, import: modules('react-i18next-11'), version: '11.18.6' },
    'react-router-dom': once, 'react-router-dom-v5-compat': once, '@openshift/dynamic-plugin-sdk': once,
    '@openshift-console/dynamic-plugin-sdk': sdk('4.19.0'),
  },
};

const files = (out: string, patternfly: string, publicPath: string) => ({
  apply: (compiler: Compiler) =>
    compiler.hooks.afterEmit.tap('files', () => {
      writeFileSync(resolve(out, 'index.html'), readFileSync('host/index.html', 'utf8').replaceAll('/static/', publicPath));
      for (const name of ['patternfly.css', 'patternfly-addons.css', 'patternfly-charts.css']) cpSync(resolve(patternfly, name), resolve(out, name));
      cpSync(resolve(patternfly, 'assets'), resolve(out, 'assets'), { recursive: true });
    }),
});

const config = (env: { legacy?: boolean }): Configuration => {
  const kind = env.legacy ? legacy : current;
  const out = resolve(kind.folder);
  const publicPath = kind.folder.replace('host/dist', '/static') + '/';
  return {
    mode: 'production',
    devtool: false,
    context: resolve('.'),
    entry: { host: './host/main.ts' },
    output: { path: out, publicPath, filename: '[name].js', clean: true },
    resolve: kind.resolve,
    module: { rules: [{ test: /\.tsx?$/, exclude: /node_modules/, loader: 'esbuild-loader', options: { target: 'es2022', jsx: 'automatic', tsconfig: resolve('tsconfig.json') } }] },
    plugins: [new webpack.sharing.SharePlugin({ shared: kind.shared }), files(out, kind.patternfly, publicPath)],
    performance: { hints: false },
  };
};
export default config;
