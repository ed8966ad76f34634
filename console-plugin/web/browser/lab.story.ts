// One run over a lab's real cluster, with real node agents and disks: from nothing to a claim that is bound, without YAML.
// npm run story, through the bridge with --lab; the operator has to be installed there, and no LVMCluster.
import assert from 'node:assert/strict';
import { after, before, it } from 'node:test';
import type { Browser } from 'playwright-core';
import type { LVMCluster, NodeStatus } from '../src/api/types';
import { bytesOf } from '../src/model/quantity';
import { preview } from '../src/model/capacity';
import { paths, request } from './kube';
import { accessible, close, launch, open, picture, test } from './page';

let browser: Browser;
before(async () => void (browser = await launch()));
after(() => browser.close());

const claims = '/api/kubernetes/api/v1/namespaces/default/persistentvolumeclaims';

it('makes storage of blank disks, and a claim is bound', { timeout: 300_000 }, async () => {
  const page = await open(browser, '/local-volumes', { expect: /404|WebSocket/ });
  page.setDefaultTimeout(120_000);
  await test(page, 'discover').click();
  await test(page, 'devices').getByText('Available').first().waitFor();
  await picture(page, 'lab-1-discovered');
  await test(page, 'edit').click();
  await test(page, 'step-start').waitFor();
  await test(page, 'next').click();
  await test(page, 'next').click();
  await test(page, 'tick-all').click();
  await picture(page, 'lab-2-devices');
  await test(page, 'next').click();
  await page.getByRole('radio', { name: /At once/ }).check();
  await test(page, 'next').click();
  await test(page, 'nothing-destroyed').waitFor();
  await test(page, 'next').click();
  await page.locator('[data-test=dry-run][data-state=accepted]').waitFor();
  const begun = Date.now();
  await test(page, 'next').click();
  await page.locator('[data-test=progress][data-state=Ready]').waitFor();
  console.log(`Ready ${((Date.now() - begun) / 1000).toFixed(1)} s after the button was pressed`);
  await picture(page, 'lab-3-ready');

  // What was shown before is what LVM made.
  const [cluster] = (await request<{ items: LVMCluster[] }>('GET', paths.clusters)).items;
  const deviceClass = cluster?.spec?.storage?.deviceClasses?.[0];
  const { items } = await request<{ items: NodeStatus[] }>('GET', paths.statuses);
  for (const { status } of items) {
    const group = status?.nodeStatus?.find((g) => g.name === deviceClass?.name);
    const sizes = (status?.devices ?? []).filter((d) => group?.devices?.includes(d.name)).map((d) => bytesOf(d.size) ?? 0);
    assert.ok(deviceClass && sizes.length > 0);
    const told = preview(deviceClass, sizes);
    assert.deepEqual([told.group, told.pool?.data, told.pool?.metadata], [group?.size, group?.thinPool?.size, group?.thinPool?.metadataSize].map(bytesOf));
    console.log(`${sizes.length} disks: group ${told.group}, pool ${told.pool?.data}, metadata ${told.pool?.metadata}: as told`);
  }
  const spec = { storageClassName: `lvms-${deviceClass?.name}`, accessModes: ['ReadWriteOnce'], resources: { requests: { storage: '1Gi' } } };
  await request('POST', claims, { apiVersion: 'v1', kind: 'PersistentVolumeClaim', metadata: { name: 'from-the-wizard' }, spec });
  for (let i = 0; ; i++) {
    const { status } = await request<{ status: { phase: string } }>('GET', `${claims}/from-the-wizard`);
    if (status.phase === 'Bound') break;
    assert.ok(i < 60, `the claim is ${status.phase} after a minute`);
    await new Promise((done) => setTimeout(done, 1000));
  }
  await page.getByText('Go to the overview').click();
  await page.getByText('All is well').waitFor();
  await accessible(page);
  await picture(page, 'lab-4-overview');
  await close(page);
});
