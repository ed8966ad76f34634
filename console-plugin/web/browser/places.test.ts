import assert from 'node:assert/strict';
import { after, before, beforeEach, describe, it } from 'node:test';
import type { Browser } from 'playwright-core';
import { template } from '../src/dashboard/template';
import { blank, clean, judge, makeClaim, makeNode, makeVolume, member, mounted, namespace, paths, physicalVolume, request, system, tell } from './kube';
import { accessible, close, fits, launch, onPhone, open, picture, says, seen, test } from './page';

const GiB = 2 ** 30;

async function storage(): Promise<void> {
  await makeNode('node-a');
  const pool = { name: 'thin-pool-1', size: String(100 * GiB), metadataSize: String(GiB), dataPercent: 42, metadataPercent: 3, virtualSize: String(300 * GiB) };
  await tell('node-a', [system('sda', 'a0'), member('sdb', 'a1'), blank('sdc', 'a2'), mounted('sdd', 'a3')], [
    { name: 'vg1', status: 'Ready', size: String(200 * GiB), free: String(80 * GiB), physicalVolumes: [physicalVolume('sdb', 'a1', { state: 'Drained', message: 'empty, and no new extents are allocated on it (deviceRequests)' })], thinPool: pool },
  ]);
  const spec = { storage: { deviceClasses: [{ name: 'vg1', default: true, thinPoolConfig: { name: 'thin-pool-1', overprovisionRatio: 10 } }] } };
  await request('POST', paths.clusters, { apiVersion: 'lvm.topolvm.io/v1alpha1', kind: 'LVMCluster', metadata: { name: 'my-lvmcluster', namespace }, spec });
  await judge('my-lvmcluster', 'Ready', '1/1');
}

describe('parts in places of the console', () => {
  let browser: Browser;
  before(async () => void (browser = await launch()));
  after(() => browser.close());
  beforeEach(clean);

  it('a Node has its disks and what the device classes have there', async () => {
    await storage();
    await makeVolume('pvc-1', {}, 'default/data');
    await makeNode('node-b');
    const page = await open(browser, '/k8s/cluster/nodes/node-a/local-disks');
    await test(page, 'class-vg1').getByText('42 GiB of 100 GiB').waitFor();
    await test(page, 'devices').getByText('Drained', { exact: true }).waitFor();
    await test(page, 'devices').getByText(/is mounted on/).waitFor();
    // In the order of the slots, with what lies on each.
    assert.deepEqual(await page.locator('[data-test^=slot-] h3').allTextContents(), ['ata-a0', 'ata-a1', 'ata-a2', 'ata-a3']);
    const slot = (name: string) => test(page, `slot-/dev/${name}`);
    await says(slot('sda'), /operating system/);
    await says(slot('sdb'), /Device class vg1.*60 GiB of 100 GiB.*Volumes with data on the device \(1\): default\/data/);
    await says(slot('sdc'), /Available.*Blank/);
    await says(slot('sdd'), /is mounted on \/var\/data.*carries ext4/);
    await accessible(page);
    await picture(page, 'node-tab');
    await onPhone(page, 'node-tab', 'slots');
    await close(page);
    const other = await open(browser, '/k8s/cluster/nodes/node-b/local-disks');
    await test(other, 'no-status').waitFor();
    await close(other);
  });

  for (const language of ['en', 'es', 'fr', 'ja', 'ko', 'zh'])
    it(`the tables of a Node fit, from 1280 px on (${language})`, async () => {
      await storage();
      const page = await open(browser, '/k8s/cluster/nodes/node-a/local-disks', { language });
      await test(page, 'devices').getByText(/^\/dev\/sdd/).first().waitFor();
      await fits(page, `node-tab-${language}`);
      if (language === 'en') await seen(page, 'node-tab');
      await close(page);
    });

  it('a claim has its logical volume, or why it has none', async () => {
    await storage();
    await makeVolume('pvc-1', { size: '20Gi' }, 'default/data', { 'lvm.topolvm.io/condition': 'a device below it gives errors', 'lvm.topolvm.io/io-limits': 'readIOPS=500', 'lvm.topolvm.io/io-limits-in-force': 'readIOPS=500' });
    await makeVolume('snapshot-1', { source: 'pvc-1', accessType: 'ro' }, 'default/nightly');
    await makeVolume('pvc-3', { source: 'pvc-1', accessType: 'rw' }, 'default/copy');
    await makeClaim('data', 'pvc-1');
    await makeClaim('waiting');
    await request('POST', paths.persistentVolumes, { apiVersion: 'v1', kind: 'PersistentVolume', metadata: { name: 'foreign' }, spec: { capacity: { storage: '1Gi' }, accessModes: ['ReadWriteOnce'], csi: { driver: 'other.example.com', volumeHandle: 'x' } } });
    await makeClaim('elsewhere', 'foreign');
    // Made by hand for a volume that exists: the PersistentVolume has another name.
    await makeVolume('pvc-2', {}, undefined);
    await request('POST', paths.persistentVolumes, { apiVersion: 'v1', kind: 'PersistentVolume', metadata: { name: 'by-hand' }, spec: { capacity: { storage: '10Gi' }, accessModes: ['ReadWriteOnce'], csi: { driver: 'topolvm.io', volumeHandle: 'id-pvc-2' } } });
    await makeClaim('restored', 'by-hand');
    await request('POST', paths.persistentVolumes, { apiVersion: 'v1', kind: 'PersistentVolume', metadata: { name: 'lost' }, spec: { capacity: { storage: '10Gi' }, accessModes: ['ReadWriteOnce'], csi: { driver: 'topolvm.io', volumeHandle: 'id-none' } } });
    await makeClaim('lost', 'lost');

    const tab = (name: string, as?: string) => open(browser, `/k8s/ns/default/persistentvolumeclaims/${name}/logical-volume`, as ? { as, expect: /403/ } : {});
    const page = await tab('data');
    await test(page, 'logical-volume').getByText('20 GiB').waitFor();
    await test(page, 'problem').getByText('a device below it gives errors').waitFor();
    await test(page, 'group').getByText('42 GiB of 100 GiB').waitFor();
    await says(test(page, 'where'), /The volume is on this disk:.*\/dev\/sdb.*by-id\/wwn-0x5000c500a1/);
    await says(test(page, 'logical-volume'), /I\/O limitsreadIOPS=500/);
    await says(test(page, 'snapshots'), /default\/copyClone.*default\/nightlySnapshot/);
    await says(test(page, 'use'), /No metrics in this period yet/);
    await accessible(page);
    await picture(page, 'claim-tab');
    await seen(page, 'claim-tab');
    await onPhone(page, 'claim-tab', 'claim-tab');
    await close(page);
    for (const [claim, shown] of [['waiting', 'unbound'], ['elsewhere', 'not-ours'], ['restored', 'logical-volume'], ['lost', 'no-lv']] as const) {
      const other = await tab(claim);
      await test(other, shown).waitFor();
      await close(other);
    }
  });

  it('the status card says how local storage is, and follows', async () => {
    const page = await open(browser, '/dashboards');
    await page.locator('[data-test=status][data-state=NOT_AVAILABLE]').waitFor();
    await storage();
    await page.locator('[data-test=status][data-state=OK]').waitFor();
    await judge('my-lvmcluster', 'Degraded', '0/1', 'device class vg1 on node node-a: device /dev/sdb gives errors: replace it');
    await page.locator('[data-test=status][data-state=WARNING]').waitFor();
    await test(page, 'health-popup').getByText(/gives errors: replace it/).waitFor();
    await accessible(page);
    await picture(page, 'status-card');
    await close(page);
    const nobody = await open(browser, '/dashboards', { as: 'nobody', expect: /403/ });
    await nobody.locator('[data-test=status][data-state=UNKNOWN]').waitFor();
    await close(nobody);
  });

  it('the inventory counts the volume groups, and those that are not well', async () => {
    const page = await open(browser, '/dashboards');
    const line = test(page, 'inventory');
    await line.getByText('0 Local volume groups').waitFor();
    await storage();
    await judge('my-lvmcluster', 'Ready', '1/1', '', { 'node-a': 'Ready' });
    await page.locator('[data-test=inventory][data-groups=""]').getByText('1 Local volume group', { exact: true }).waitFor();
    await judge('my-lvmcluster', 'Failed', '1/4', 'device class vg1 on node node-b: no device', { 'node-a': 'Ready', 'node-b': 'Failed', 'node-c': 'Degraded', 'node-d': 'Degraded' });
    await page.locator('[data-test=inventory][data-groups="ERROR=1 WARN=2"]').getByText('4 Local volume groups').waitFor();
    await accessible(page);
    await close(page);
    const spanish = await open(browser, '/dashboards', { language: 'es-MX' });
    await test(spanish, 'inventory').getByText('4 Grupos de volúmenes locales').waitFor();
    await close(spanish);
    const nobody = await open(browser, '/dashboards', { as: 'nobody', expect: /403/ });
    await test(nobody, 'inventory').getByText('Not available').waitFor();
    await close(nobody);
  });

  it('what the editor begins with is an LVMCluster that the cluster accepts', async () => {
    await request('POST', `${paths.clusters}?dryRun=All&fieldValidation=Strict`, template, 'application/yaml');
  });
});
