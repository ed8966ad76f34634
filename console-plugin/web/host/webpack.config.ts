// The page that loads the plugin as the console does. For tests and for `make console`; it is not shipped.
import { cpSync } from 'node:fs';
import { resolve } from 'node:path';
import webpack, { type Compiler, type Configuration } from 'webpack';

const out = resolve('host/dist');
const once = { singleton: true, eager: true, requiredVersion: false } as const;

const files = {
  apply: (compiler: Compiler) =>
    compiler.hooks.afterEmit.tap('files', () => {
      cpSync(resolve('host/index.html'), resolve(out, 'index.html'));
      const patternfly = resolve('node_modules/@patternfly/patternfly');
      for (const name of ['patternfly.css', 'patternfly-addons.css', 'patternfly-charts.css']) cpSync(resolve(patternfly, name), resolve(out, name));
      cpSync(resolve(patternfly, 'assets'), resolve(out, 'assets'), { recursive: true });
    }),
};

const config: Configuration = {
  mode: 'production',
  devtool: false,
  context: resolve('.'),
  entry: { host: './host/main.ts' },
  output: { path: out, publicPath: '/static/', filename: '[name].js', clean: true },
  resolve: { extensions: ['.ts', '.tsx', '.js'] },
  module: { rules: [{ test: /\.tsx?$/, exclude: /node_modules/, loader: 'esbuild-loader', options: { target: 'es2022', jsx: 'automatic', tsconfig: resolve('tsconfig.json') } }] },
  plugins: [
    new webpack.sharing.SharePlugin({
      shared: {
        react: once, 'react-i18next': once, 'react-router': once, 'react-redux': once, redux: once, 'redux-thunk': once, '@openshift/dynamic-plugin-sdk': once,
        '@openshift-console/dynamic-plugin-sdk': { ...once, import: resolve('host/sdk.tsx'), version: '4.22.0' },
      },
    }),
    files,
  ],
  performance: { hints: false },
};
export default config;
