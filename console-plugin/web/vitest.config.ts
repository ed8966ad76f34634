import { resolve } from 'node:path';
import { defineConfig } from 'vitest/config';

export default defineConfig({
  resolve: { alias: { '@openshift-console/dynamic-plugin-sdk': resolve('host/sdk.tsx') } },
  test: {
    // A document takes a second to make, for each file: only components and requests of the console need one.
    projects: [
      { extends: true, test: { name: 'functions', environment: 'node', include: ['src/**/*.test.ts'], exclude: ['src/kube/**'] } },
      { extends: true, test: { name: 'components', environment: 'jsdom', include: ['src/**/*.test.tsx', 'src/kube/*.test.ts'], setupFiles: ['vitest.setup.ts'] } },
    ],
    testTimeout: 120_000,
    // Several workers would only get in each other's way on two cores.
    maxWorkers: 2,
    minWorkers: 1,
    coverage: {
      provider: 'v8',
      // What decides something. The pages themselves are for the browser tests.
      include: ['src/model/**', 'src/kube/{submit,recover,approve,suspend,pods,moves}.ts', 'src/wizard/**', 'src/components/**', 'src/charts/**', 'src/details/**', 'src/recovery/**', 'src/approval/**', 'src/suspension/**', 'src/moves/**', 'src/runbook/**', 'src/kube/{prometheus,dryrun,gather}.ts'],
      exclude: ['**/*.test.*', 'src/runbook/texts.ts', 'src/details/{ClassPage,VolumesCard}.tsx', 'src/components/UsageTable.tsx', 'src/recovery/{RecoveryPage,RecoveriesCard,RecoveriesTable}.tsx', 'src/moves/MovePage.tsx', 'src/moves/{all,lazy}.ts', 'src/details/objectPages.ts', 'src/wizard/pages.tsx', 'src/charts/{DonutChart,SeriesChart}.tsx', 'src/wizard/Progress.tsx'],
      reporter: ['text-summary'],
      thresholds: { lines: 85 },
    },
  },
});
