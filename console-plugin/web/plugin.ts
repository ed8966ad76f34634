import type { ConsolePluginBuildMetadata } from '@openshift-console/dynamic-plugin-sdk-webpack';

export const plugin: ConsolePluginBuildMetadata = {
  name: 'lvms-console',
  version: '0.2.0',
  displayName: 'LVM Storage',
  description: 'Local volumes on blank disks of the nodes, with a StorageClass for each device class.',
  exposedModules: {
    OverviewPage: './src/overview/OverviewPage.tsx',
    ClassPage: './src/details/ClassPage.tsx',
    ObjectPages: './src/details/objectPages.ts',
    RunbookPage: './src/runbook/RunbookPage.tsx',
    NodeTab: './src/tabs/NodeTab.tsx',
    ClaimTab: './src/tabs/ClaimTab.tsx',
    Health: './src/dashboard/health.ts',
    HealthPopup: './src/dashboard/HealthPopup.tsx',
    Inventory: './src/dashboard/inventory.ts',
    AlertAction: './src/dashboard/alertAction.tsx',
    Template: './src/dashboard/template.ts',
    WizardPages: './src/wizard/pages.tsx',
  },
  dependencies: { '@console/pluginAPI': '>=4.22.0-0' },
};
