// The second build: for the consoles of OpenShift 4.19 to 4.21, which share React 17 and React Router 5. webpack takes NAME.legacy.ts in
// place of NAME.ts, if there is one.
import { plugin } from './plugin.ts';

/** The SDKs of these consoles, by their names in package.json. A test compares them with the range. */
export const legacySDKs = ['console-sdk-4.19', 'console-sdk-4.20', 'console-sdk-4.21'];

/** The consoles compare their version with prerelease versions included, and know a plugin by its name and version. */
export const legacyPlugin = { ...plugin, dependencies: { '@console/pluginAPI': '>=4.19.0-0 <4.22.0-0' } };

/** Modules that these consoles share, with the versions that their SDKs name. A plugin has no copy of them. */
export const legacyShared: Record<string, string> = {
  '@openshift-console/dynamic-plugin-sdk': '*',
  react: '^17.0.1',
  'react-i18next': '^11.12.0',
  'react-router-dom-v5-compat': '^6.11.2',
};
