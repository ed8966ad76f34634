// What the plugin adds to the console. Typed here, since the builder's own check lets a known type with wrong properties pass.
import type { CodeRef, Extension } from '@openshift/dynamic-plugin-sdk';
import type { CreateResource, HrefNavItem, ModelFeatureFlag, RoutePage } from '@openshift-console/dynamic-plugin-sdk';
import { clusterModel, GROUP, VERSION } from './src/api/types';
import { classRoute, editPath, overviewPath } from './src/paths';

/** Set where the API server has the kind, that is, where the operator is installed. */
const FLAG = 'LVMS_MODEL';
const model = { group: GROUP, version: VERSION, kind: clusterModel.kind };
const flags = { required: [FLAG] };

type Ours = ModelFeatureFlag | HrefNavItem | RoutePage | CreateResource;

/** An extension as the manifest has it: a module's export by its name in place of the thing itself. */
type Encoded<T> = T extends CodeRef ? { $codeRef: string } : T extends (infer U)[] ? Encoded<U>[] : T extends object ? { [K in keyof T]: Encoded<T[K]> } : T;
type Written<E> = E extends Extension<infer Type, infer Properties> ? { type: Type; properties: Encoded<Properties>; flags?: { required?: string[]; disallowed?: string[] } } : never;

export const extensions = [
  { type: 'console.flag/model', properties: { flag: FLAG, model } },
  {
    type: 'console.navigation/href',
    flags,
    properties: { id: 'local-volumes', name: '%plugin__lvms-console~Local volumes%', href: overviewPath, perspective: 'admin', section: 'storage', insertAfter: 'storageclasses' },
  },
  { type: 'console.page/route', flags, properties: { exact: true, path: overviewPath, component: { $codeRef: 'OverviewPage' } } },
  { type: 'console.page/route', flags, properties: { exact: true, path: editPath, component: { $codeRef: 'WizardPages.EditPage' } } },
  { type: 'console.page/route', flags, properties: { exact: true, path: classRoute, component: { $codeRef: 'ClassPage' } } },
  { type: 'console.resource/create', flags, properties: { model, component: { $codeRef: 'WizardPages.CreatePage' } } },
] satisfies Written<Ours>[];
