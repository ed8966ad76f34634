// What the plugin adds to the console. Typed here, since the builder's own check lets a known type with wrong properties pass.
import type { CodeRef, Extension } from '@openshift/dynamic-plugin-sdk';
import type {
  AlertAction, CreateResource, DashboardsOverviewHealthResourceSubsystem, DashboardsOverviewInventoryItem, HorizontalNavTab, HrefNavItem, ModelFeatureFlag, RoutePage, StorageClassProvisioner, YAMLTemplate,
} from '@openshift-console/dynamic-plugin-sdk';
import { clusterModel, DRIVER, GROUP, VERSION } from './src/api/types';
import { summaries } from './src/model/alerts';
import { classRoute, editPath, moveRoute, overviewPath, recoveryRoute, runbookRoute } from './src/paths';

/** Set where the API server has the kind, that is, where the operator is installed. */
const FLAG = 'LVMS_MODEL';
const model = { group: GROUP, version: VERSION, kind: clusterModel.kind };
const flags = { required: [FLAG] };

type Ours = ModelFeatureFlag | HrefNavItem | RoutePage | CreateResource | HorizontalNavTab | DashboardsOverviewHealthResourceSubsystem | DashboardsOverviewInventoryItem | StorageClassProvisioner | YAMLTemplate | AlertAction;

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
  { type: 'console.page/route', flags, properties: { exact: true, path: recoveryRoute, component: { $codeRef: 'ObjectPages.RecoveryPage' } } },
  { type: 'console.page/route', flags, properties: { exact: true, path: moveRoute, component: { $codeRef: 'ObjectPages.MovePage' } } },
  { type: 'console.page/route', flags, properties: { exact: true, path: runbookRoute, component: { $codeRef: 'RunbookPage' } } },
  { type: 'console.resource/create', flags, properties: { model, component: { $codeRef: 'WizardPages.CreatePage' } } },
  { type: 'console.yaml-template', flags, properties: { model, name: 'default', template: { $codeRef: 'Template.template' } } },
  {
    type: 'console.tab/horizontalNav',
    flags,
    properties: { model: { version: 'v1', kind: 'Node' }, page: { name: '%plugin__lvms-console~Local disks%', href: 'local-disks' }, component: { $codeRef: 'NodeTab' } },
  },
  {
    type: 'console.tab/horizontalNav',
    flags,
    properties: { model: { version: 'v1', kind: 'PersistentVolumeClaim' }, page: { name: '%plugin__lvms-console~Logical volume%', href: 'logical-volume' }, component: { $codeRef: 'ClaimTab' } },
  },
  {
    type: 'console.dashboards/overview/health/resource',
    flags,
    properties: {
      title: '%plugin__lvms-console~Local volumes%', resources: { $codeRef: 'Health.resources' }, healthHandler: { $codeRef: 'Health.handler' },
      popupTitle: '%plugin__lvms-console~Local volumes%', popupComponent: { $codeRef: 'HealthPopup' },
    },
  },
  { type: 'console.dashboards/overview/inventory/item', flags, properties: { model: { $codeRef: 'Inventory.model' }, mapper: { $codeRef: 'Inventory.mapper' } } },
  {
    type: 'console.storage-class/provisioner',
    flags,
    properties: {
      CSI: {
        title: 'LVM Storage', provisioner: DRIVER, allowVolumeExpansion: true, volumeBindingMode: 'WaitForFirstConsumer',
        parameters: {
          'topolvm.io/device-class': { name: '%plugin__lvms-console~Device class%', hintText: '%plugin__lvms-console~The name of a device class of the LVMCluster, which already has its own StorageClass.%', required: true },
          'csi.storage.k8s.io/fstype': { name: '%plugin__lvms-console~File system%', hintText: '%plugin__lvms-console~The file system that a volume is formatted with on its first use.%', values: { xfs: 'xfs', ext4: 'ext4' } },
        },
      },
    },
  },
  ...Object.keys(summaries).map((alert) => ({
    type: 'console.alert-action' as const, flags, properties: { alert, text: '%plugin__lvms-console~View local volumes%', action: { $codeRef: 'AlertAction.action' } },
  })),
] satisfies Written<Ours>[];
