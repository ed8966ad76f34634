import assert from 'node:assert/strict';
import { after, before, beforeEach, describe, it } from 'node:test';
import type { Browser } from 'playwright-core';
import type { LVMCluster, PhysicalVolumeStatus, VGStatus } from '../src/api/types';
import { blank, clean, judge, makeNode, makeVolume, member, namespace, paths, physicalVolume, request, tell } from './kube';
import { accessible, close, fits, launch, open, picture, seen, test } from './page';

const GiB = 2 ** 30;
const deviceClass = async () => (await request<{ items: LVMCluster[] }>('GET', paths.clusters)).items[0]?.spec?.storage?.deviceClasses?.[0];

function group(...physicalVolumes: PhysicalVolumeStatus[]): VGStatus {
  const pool = { name: 'thin-pool-1', size: String(100 * GiB), metadataSize: String(GiB), dataPercent: 42, metadataPercent: 3, virtualSize: String(300 * GiB) };
  return { name: 'vg1', status: 'Ready', size: String(200 * GiB), free: String(80 * GiB), devices: physicalVolumes.map((p) => p.name ?? ''), physicalVolumes, thinPool: pool };
}
const disks = [member('sdb', 'a1'), member('sdc', 'a2'), blank('sdd', 'a3', 300 * GiB)];

async function storage(...physicalVolumes: PhysicalVolumeStatus[]): Promise<void> {
  await makeNode('node-a');
  await makeNode('node-b');
  await tell('node-a', disks, [group(...(physicalVolumes.length ? physicalVolumes : [physicalVolume('sdb', 'a1'), physicalVolume('sdc', 'a2', { free: `${70 * GiB}` })]))]);
  await tell('node-b', [member('sdb', 'b1')], [group(physicalVolume('sdb', 'b1'))]);
  const paths1 = ['a1', 'a2', 'b1'].map((n) => `/dev/disk/by-id/wwn-0x5000c500${n}`);
  const spec = { storage: { deviceClasses: [{ name: 'vg1', default: true, deviceSelector: { optionalPaths: paths1 }, thinPoolConfig: { name: 'thin-pool-1', overprovisionRatio: 10 } }] } };
  await request('POST', paths.clusters, { apiVersion: 'lvm.topolvm.io/v1alpha1', kind: 'LVMCluster', metadata: { name: 'my-lvmcluster', namespace }, spec });
  await judge('my-lvmcluster', 'Ready', '2/2');
}

describe('details of a device class', () => {
  let browser: Browser;
  before(async () => void (browser = await launch()));
  after(() => browser.close());
  beforeEach(clean);

  it('has nodes, devices, and volumes with what they are for', async () => {
    await storage();
    await makeVolume('pvc-1', { size: '20Gi' }, 'shop/database');
    await makeVolume('snapshot-1', { size: '20Gi', source: 'pvc-1', accessType: 'ro' }, 'shop/before-upgrade');
    await makeVolume('pvc-2', { nodeName: 'node-b' }, undefined, { 'lvm.topolvm.io/unclaimed': 'true' });
    await makeVolume('snapshot-2', { size: '20Gi', source: 'gone', accessType: 'ro' }, 'shop/old');
    await makeVolume('pvc-3', { deviceClass: 'other' }, 'shop/elsewhere');
    const page = await open(browser, '/local-volumes');
    await page.getByRole('link', { name: 'Device class vg1' }).click();
    await test(page, 'nodes').getByText('42 GiB of 100 GiB').first().waitFor();
    await test(page, 'members').getByText('60 GiB of 100 GiB').first().waitFor();
    const volumes = test(page, 'volumes');
    await volumes.getByRole('link', { name: 'database' }).waitFor();
    // A snapshot is below its volume: the keyboard expands it.
    assert.equal(await volumes.getByText('Snapshot of shop/database').count(), 0, 'a snapshot is shown before its volume was expanded');
    const branch = volumes.getByRole('button', { name: 'Snapshots and clones of database' });
    await branch.press('ArrowRight');
    await volumes.locator('tr[aria-level="2"]').getByText('Snapshot of shop/database').waitFor();
    await branch.press('ArrowLeft');
    await volumes.locator('tr[aria-level="2"]').waitFor({ state: 'detached' });
    await branch.press('Enter');
    await volumes.locator('tr[aria-level="1"][aria-expanded=true]').waitFor();
    await volumes.getByText('The source gone no longer exists').waitFor();
    await volumes.getByText(/Orphaned: no PersistentVolume, snapshot or claim refers to this volume/).waitFor();
    assert.equal(await volumes.getByText('elsewhere').count(), 0, 'a volume of another device class is shown');
    await test(page, 'settings-card').getByText('Immutable: to extend existing thin pools').waitFor();
    await accessible(page);
    await picture(page, 'class');
    await page.locator('#kind-snapshot').click();
    assert.equal(await volumes.getByRole('link', { name: 'database' }).count(), 0);
    await close(page);
  });

  it('empties a device: says what it leads to, asks the cluster, writes one request, and follows the device until it is empty', async () => {
    await storage();
    const page = await open(browser, '/local-volumes/class/vg1');
    await page.getByRole('button', { name: 'Manage /dev/sdb on node node-a' }).click();
    await test(page, 'apply').click();
    await test(page, 'why-not').getByText('Select an action.').waitFor();
    await page.getByRole('radio', { name: 'Drain' }).check();
    await test(page, 'consequences').getByText(/60 GiB of data is moved to the other devices of the volume group on node node-a, which have 70 GiB free/).waitFor();
    await page.locator('[data-test=dry-run][data-state=accepted]').waitFor();
    assert.equal(await deviceClass().then((c) => c?.deviceRequests), undefined, 'the dry run wrote something');
    await accessible(page);
    await picture(page, 'class-drain');
    await test(page, 'apply').click();
    await test(page, 'dialog').waitFor({ state: 'detached' });
    assert.deepEqual((await deviceClass())?.deviceRequests, [{ node: 'node-a', device: 'a1-uuid', action: 'Drain' }]);
    await test(page, 'members').getByText('Requested: Drain').waitFor();
    // What the node agent tells while LVM moves, and then.
    await tell('node-a', disks, [group(physicalVolume('sdb', 'a1', { state: 'Draining', movedPercent: 40, message: 'its extents are being moved to the other devices' }), physicalVolume('sdc', 'a2'))]);
    await test(page, 'members').getByText('Draining 40%').waitFor();
    await tell('node-a', disks, [group(physicalVolume('sdb', 'a1', { state: 'Drained', free: `${100 * GiB}`, message: 'empty, and no new extents are allocated on it (deviceRequests)' }), physicalVolume('sdc', 'a2'))]);
    await test(page, 'members').getByText('Drained', { exact: true }).waitFor();
    await picture(page, 'class-drained');
    await page.getByRole('button', { name: 'Manage /dev/sdb on node node-a' }).click();
    await page.getByRole('radio', { name: 'Remove request' }).check();
    await page.locator('[data-test=dry-run][data-state=accepted]').waitFor();
    await test(page, 'apply').click();
    await test(page, 'dialog').waitFor({ state: 'detached' });
    assert.equal((await deviceClass())?.deviceRequests, undefined);
    await close(page);
  });

  it('replaces a device by a blank one, takes its path out, and tells when the request is done', async () => {
    await storage();
    const page = await open(browser, '/local-volumes/class/vg1');
    await page.getByRole('button', { name: 'Manage /dev/sdc on node node-a' }).click();
    await page.getByRole('radio', { name: 'Replace' }).check();
    await page.getByRole('radio', { name: '/dev/sdd, 300 GiB' }).check();
    await page.getByRole('checkbox', { name: /remove its path/ }).check();
    await test(page, 'consequences').getByText(/30 GiB of data is moved/).waitFor();
    await test(page, 'written').getByText('+ optionalPaths: /dev/disk/by-id/wwn-0x5000c500a3').waitFor();
    await page.locator('[data-test=dry-run][data-state=accepted]').waitFor();
    // The cluster says on which nodes a path was in force.
    await test(page, 'warnings').waitFor();
    await picture(page, 'class-replace');
    await test(page, 'apply').click();
    await test(page, 'dialog').waitFor({ state: 'detached' });
    const c = await deviceClass();
    assert.deepEqual(c?.deviceRequests, [{ node: 'node-a', device: 'a2-uuid', action: 'Remove' }]);
    assert.deepEqual(c?.deviceSelector?.optionalPaths?.map((p) => p.slice(-2)), ['a1', 'b1', 'a3']);
    await tell('node-a', [member('sdb', 'a1'), blank('sdc', 'a2'), member('sdd', 'a3')], [group(physicalVolume('sdb', 'a1'), physicalVolume('sdd', 'a3'))]);
    await test(page, 'done-request').getByRole('button', { name: 'Remove request' }).click();
    await page.locator('[data-test=dry-run][data-state=accepted]').waitFor();
    await picture(page, 'class-done');
    await test(page, 'apply').click();
    await test(page, 'done-request').waitFor({ state: 'detached' });
    assert.equal((await deviceClass())?.deviceRequests, undefined);
    await close(page);
  });

  it('says that a lost device throws nothing away, and that a drain without room would not begin', async () => {
    await storage(physicalVolume('sdb', 'a1', { state: 'Missing', message: 'is not there' }), physicalVolume('sdc', 'a2'));
    const page = await open(browser, '/local-volumes/class/vg1');
    await page.getByRole('button', { name: 'Manage /dev/sdb on node node-a' }).click();
    await page.getByRole('radio', { name: 'Remove', exact: true }).check();
    await test(page, 'consequences').getByText(/No other data is deleted/).waitFor();
    await picture(page, 'class-lost');
    await page.getByRole('button', { name: 'Cancel' }).click();
    await page.getByRole('button', { name: 'Manage /dev/sdc on node node-a' }).click();
    await page.getByRole('radio', { name: 'Drain' }).check();
    await test(page, 'consequences').getByText(/A device of the volume group is missing/).waitFor();
    await close(page);
  });

  for (const language of ['en', 'es', 'fr', 'ja', 'ko', 'zh'])
    it(`its tables fit, from 1280 px on (${language})`, async () => {
      await storage(
        physicalVolume('sdb', 'a1', { state: 'Draining', movedPercent: 100, suspended: true, message: 'its extents are being moved to the other devices of the volume group' }),
        physicalVolume('sdc', 'a2', { state: 'Missing', free: undefined, message: 'is missing' }),
      );
      await makeVolume('pvc-1f2e3d4c-5b6a-4798-8796-a5b4c3d2e1f0', { size: '20Gi' }, 'shop/database', { 'lvm.topolvm.io/suspended': 'by ann at 2026-11-26T08:00:00Z: backup' });
      await makeVolume('snapshot-1', { size: '20Gi', source: 'pvc-1f2e3d4c-5b6a-4798-8796-a5b4c3d2e1f0', accessType: 'ro' }, 'shop/before-upgrade');
      await makeVolume('pvc-2', { nodeName: 'node-b' }, undefined, { 'lvm.topolvm.io/unclaimed': 'true' });
      const page = await open(browser, '/local-volumes/class/vg1', { language });
      await test(page, 'members').getByText('/dev/sdc').waitFor();
      await test(page, 'volumes').getByRole('link', { name: 'database' }).waitFor();
      await fits(page, `class-${language}`);
      if (language === 'en') await seen(page, 'class');
      await close(page);
    });

  it('fits with thick volumes', async () => {
    await makeNode('node-a');
    await tell('node-a', disks, [{ ...group(physicalVolume('sdb', 'a1')), thinPool: undefined }]);
    const spec = { storage: { deviceClasses: [{ name: 'vg1', default: true, deviceSelector: { optionalPaths: ['/dev/disk/by-id/wwn-0x5000c500a1'] } }] } };
    await request('POST', paths.clusters, { apiVersion: 'lvm.topolvm.io/v1alpha1', kind: 'LVMCluster', metadata: { name: 'my-lvmcluster', namespace }, spec });
    await makeVolume('pvc-1', { size: '20Gi' }, 'shop/database');
    const page = await open(browser, '/local-volumes/class/vg1');
    await test(page, 'volumes').getByText('20 GiB', { exact: true }).waitFor();
    await fits(page, 'class-thick');
    await close(page);
  });

  it('can be read with high contrast, and in French', async () => {
    await storage(physicalVolume('sdb', 'a1', { state: 'Failing', message: 'gives errors' }), physicalVolume('sdc', 'a2', { state: 'Drained' }));
    for (const theme of ['contrast', 'dark']) {
      const page = await open(browser, `/local-volumes/class/vg1?theme=${theme}`, { language: 'fr-FR' });
      await page.getByRole('button', { name: 'Gérer /dev/sdb sur le nœud node-a' }).click();
      await page.getByRole('radio', { name: 'Vider' }).check();
      await page.locator('[data-test=dry-run][data-state=accepted]').waitFor();
      await accessible(page);
      await page.screenshot({ path: `screenshots/dialog-${theme}.png`, fullPage: true });
      await close(page);
    }
  });

  it('leads to the form for further devices, at that step and class', async () => {
    await storage();
    const page = await open(browser, '/local-volumes/class/vg1');
    await test(page, 'add-devices').click();
    await test(page, 'step-devices').waitFor();
    await page.getByLabel(/Select .*a3 on node node-a/).waitFor();
    await close(page);
  });

  it('lets a user who may only look see everything, and says what is missing when something is to be done', async () => {
    await storage();
    const page = await open(browser, '/local-volumes/class/vg1', { as: 'viewer', expect: /403/ });
    await page.getByRole('button', { name: 'Manage /dev/sdb on node node-a' }).click();
    await page.getByRole('radio', { name: 'Cordon' }).check();
    await page.locator('[data-test=dry-run][data-state=refused]').waitFor();
    await test(page, 'apply').click();
    await test(page, 'why-not').getByText(/You lack permission to update/).waitFor();
    await close(page);
    const nobody = await open(browser, '/local-volumes/class/vg1', { as: 'nobody', expect: /403/ });
    await test(nobody, 'read-error').first().waitFor();
    assert.equal(await test(nobody, 'no-class').count(), 0, 'what could not be read was shown as empty');
    await close(nobody);
  });
});
