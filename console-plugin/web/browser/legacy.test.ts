// The build for the consoles of OpenShift 4.19 to 4.21, on a page that shares React 17, React Router 5 with its layer, and the styles of
// PatternFly 6.2, as these consoles do. It opens each place of the plugin once: what the pages do is tested with the other build.
import assert from 'node:assert/strict';
import { after, before, beforeEach, describe, it } from 'node:test';
import type { Browser, Page } from 'playwright-core';
import type { LVMCluster } from '../src/api/types';
import { blank, clean, judge, makeClaim, makeNode, makeVolume, member, namespace, paths, physicalVolume, request, system, tell } from './kube';
import { accessible, close, drawn, launch, open, picture, says, test } from './page';

const GiB = 2 ** 30;

async function storage(): Promise<void> {
  await makeNode('node-a');
  const pool = { name: 'thin-pool-1', size: String(100 * GiB), metadataSize: String(GiB), dataPercent: 42, metadataPercent: 3, virtualSize: String(300 * GiB) };
  await tell('node-a', [system('sda', 'a0'), member('sdb', 'a1'), blank('sdc', 'a2')], [{ name: 'vg1', status: 'Ready', size: String(200 * GiB), free: String(80 * GiB), physicalVolumes: [physicalVolume('sdb', 'a1')], thinPool: pool }]);
  const spec = { storage: { deviceClasses: [{ name: 'vg1', default: true, deviceSelector: { paths: ['/dev/disk/by-id/wwn-0x5000c500a1'] }, thinPoolConfig: { name: 'thin-pool-1', overprovisionRatio: 10 } }] } };
  await request('POST', paths.clusters, { apiVersion: 'lvm.topolvm.io/v1alpha1', kind: 'LVMCluster', metadata: { name: 'my-lvmcluster', namespace }, spec });
  await judge('my-lvmcluster', 'Ready', '1/1');
}

describe('consoles 4.19 to 4.21', () => {
  let browser: Browser;
  before(async () => void (browser = await launch()));
  after(() => browser.close());
  beforeEach(clean);

  const visit = (path: string, language?: string): Promise<Page> => open(browser, path, { legacy: true, ...(language ? { language } : {}) });

  it('the overview leads to a device class, and a button of it to the form', async () => {
    await storage();
    await makeVolume('pvc-1', { size: '20Gi' }, 'shop/database');
    const page = await visit('/local-volumes');
    await page.getByText('Healthy: 1/1 volume groups are ready.').waitFor();
    await drawn(page);
    await accessible(page);
    await picture(page, 'legacy-overview');
    await page.getByRole('link', { name: 'Device class vg1' }).click();
    await page.waitForURL(/\/local-volumes\/class\/vg1$/);
    await test(page, 'nodes').getByText('42 GiB of 100 GiB').first().waitFor();
    await test(page, 'volumes').getByRole('link', { name: 'database' }).waitFor();
    await drawn(page);
    await accessible(page);
    await picture(page, 'legacy-class');
    // A dialog, which is a portal of React's, with a dry run.
    await page.getByRole('button', { name: 'Manage /dev/sdb on node node-a' }).click();
    await page.getByRole('radio', { name: 'Cordon' }).check();
    await page.locator('[data-test=dry-run][data-state=accepted]').waitFor();
    await picture(page, 'legacy-dialog');
    await page.keyboard.press('Escape');
    await test(page, 'dialog').waitFor({ state: 'detached' });
    await close(page);
    const form = await visit('/local-volumes/edit?class=vg1&step=class');
    await test(form, 'step-class').waitFor();
    await close(form);
  });

  it('the form creates a device class', async () => {
    await makeNode('node-a', { 'node-role.kubernetes.io/worker': '' });
    await tell('node-a', [system('sda', 'a0'), blank('sdb', 'a1')]);
    await request('POST', paths.clusters, { apiVersion: 'lvm.topolvm.io/v1alpha1', kind: 'LVMCluster', metadata: { name: 'my-lvmcluster', namespace }, spec: {} });
    await judge('my-lvmcluster', 'Ready', '0/0');
    const page = await visit(`/k8s/ns/${namespace}/lvm.topolvm.io~v1alpha1~LVMCluster/~new`);
    const step = async (name: string) => {
      await test(page, 'next').click();
      await test(page, `step-${name}`).waitFor();
    };
    await test(page, 'step-start').waitFor();
    await step('nodes');
    await step('devices');
    await page.getByLabel('Select /dev/disk/by-id/wwn-0x5000c500a1 on node node-a').check();
    await says(test(page, 'stage-disks'), /^100 GiB, 1 disk$/);
    await accessible(page);
    await picture(page, 'legacy-form');
    for (const name of ['class', 'protection', 'review']) await step(name);
    await page.locator('[data-test=dry-run][data-state=accepted]').waitFor();
    await picture(page, 'legacy-review');
    await test(page, 'next').click();
    await test(page, 'progress').waitFor();
    const [made] = (await request<{ items: LVMCluster[] }>('GET', paths.clusters)).items;
    assert.deepEqual(made?.spec?.storage?.deviceClasses?.[0]?.deviceSelector?.paths, ['/dev/disk/by-id/wwn-0x5000c500a1']);
    await close(page);
  });

  it('a Node, a claim, an alert and the cards of the Overview have their parts', async () => {
    await storage();
    await makeVolume('pvc-1', { size: '20Gi' }, 'default/data');
    await makeClaim('data', 'pvc-1');
    const node = await visit('/k8s/cluster/nodes/node-a/local-disks');
    await test(node, 'class-vg1').getByText('42 GiB of 100 GiB').waitFor();
    await picture(node, 'legacy-node');
    await close(node);
    const claim = await visit('/k8s/ns/default/persistentvolumeclaims/data/logical-volume');
    await test(claim, 'logical-volume').getByText('20 GiB').waitFor();
    await picture(claim, 'legacy-claim');
    await close(claim);
    const overview = await visit('/dashboards');
    await overview.locator('[data-test=status][data-state=OK]').waitFor();
    await overview.locator('[data-test=inventory][data-groups=""]').getByText(/Local volume group/).waitFor();
    await close(overview);
    const alerts = await visit('/monitoring/alerts');
    await alerts.locator('[data-test^=action-]').first().click();
    await alerts.waitForURL(/\/local-volumes\/class\/vg1$/);
    await close(alerts);
  });

  it('a runbook and the languages are there', async () => {
    const page = await visit('/local-volumes/runbook/LVMSAgentDown');
    await page.getByRole('heading', { level: 1 }).first().waitFor();
    await close(page);
    await storage();
    const spanish = await visit('/local-volumes', 'es-ES');
    await spanish.getByRole('heading', { level: 1, name: 'Volúmenes locales', exact: true }).waitFor();
    await close(spanish);
  });
});
