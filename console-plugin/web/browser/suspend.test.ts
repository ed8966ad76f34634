import assert from 'node:assert/strict';
import { after, before, beforeEach, describe, it } from 'node:test';
import type { Browser } from 'playwright-core';
import type { LogicalVolume, LVMCluster, PhysicalVolumeStatus, VGStatus } from '../src/api/types';
import { clean, judge, makeClaim, makeNode, makeVolume, member, namespace, paths, physicalVolume, request, tell } from './kube';
import { accessible, close, launch, open, seen, test, until } from './page';

const GiB = 2 ** 30;
const admin = 'system:serviceaccount:console-users:admin';
const annotation = 'lvm.topolvm.io/suspended';
const suspension = async (name: string) => (await request<LogicalVolume>('GET', `${paths.volumes}/${name}`)).metadata.annotations?.[annotation];
const requests = async () => (await request<{ items: LVMCluster[] }>('GET', paths.clusters)).items[0]?.spec?.storage?.deviceClasses?.[0]?.deviceRequests;

function group(...physicalVolumes: PhysicalVolumeStatus[]): VGStatus {
  const pool = { name: 'thin-pool-1', size: String(100 * GiB), metadataSize: String(GiB), dataPercent: 42, metadataPercent: 3, virtualSize: String(300 * GiB) };
  return { name: 'vg1', status: 'Ready', size: String(200 * GiB), free: String(80 * GiB), devices: physicalVolumes.map((p) => p.name ?? ''), physicalVolumes, thinPool: pool };
}
const disks = [member('sdb', 'a1'), member('sdc', 'a2')];

async function storage(): Promise<void> {
  await makeNode('node-a');
  await tell('node-a', disks, [group(physicalVolume('sdb', 'a1'), physicalVolume('sdc', 'a2'))]);
  const deviceSelector = { optionalPaths: ['a1', 'a2'].map((n) => `/dev/disk/by-id/wwn-0x5000c500${n}`) };
  const spec = { storage: { deviceClasses: [{ name: 'vg1', default: true, deviceSelector, thinPoolConfig: { name: 'thin-pool-1', overprovisionRatio: 10 } }] } };
  await request('POST', paths.clusters, { apiVersion: 'lvm.topolvm.io/v1alpha1', kind: 'LVMCluster', metadata: { name: 'my-lvmcluster', namespace }, spec });
  await judge('my-lvmcluster', 'Ready', '1/1');
  await makeVolume('pvc-1', { size: '20Gi' }, 'default/data');
  await makeVolume('pvc-2', {}, 'default/logs', { [annotation]: 'by ann at 2026-11-26T08:00:00Z: the disk is slow' });
  await makeVolume('pvc-3', {}, 'default/photos', { 'lvm.topolvm.io/suspended-devices': '/dev/sdc' });
}

describe('suspended volumes and devices', () => {
  let browser: Browser;
  before(async () => void (browser = await launch()));
  after(() => browser.close());
  beforeEach(clean);

  it('a volume is suspended after what that leads to was shown, with user, time and reason, and resumed', async () => {
    await storage();
    const page = await open(browser, '/local-volumes/class/vg1');
    const card = test(page, 'volumes');
    await card.getByRole('button', { name: 'Suspend volume data' }).click();
    await test(page, 'consequences').getByText(/New Pods do not get the volume: they stay pending, with the event FailedMount/).waitFor();
    await test(page, 'consequences').getByText(/Pods that run keep the volume/).waitFor();
    await test(page, 'pods').getByText('No Pod uses the claim.').waitFor();
    await test(page, 'dialog').getByText(`Recorded with your user name ${admin} and the time.`, { exact: false }).waitFor();
    await page.getByLabel('Reason').fill('backup of  the shop');
    await accessible(page);
    await seen(page, 'suspend-volume');
    assert.equal(await suspension('pvc-1'), undefined, 'it was suspended before the button was pressed');
    await test(page, 'apply').click();
    await test(page, 'dialog').waitFor({ state: 'detached' });
    assert.match((await suspension('pvc-1')) ?? '', new RegExp(`^by ${admin} at 20\\d\\d-\\d\\d-\\d\\dT\\d\\d:\\d\\d:\\d\\dZ: backup of the shop$`));
    await until('labels', () => card.locator('[data-test=suspended]').count(), 3);
    await card.locator('[data-test=suspended]').first().hover();
    await page.getByText(`Suspended by ${admin} on`, { exact: false }).waitFor();
    await page.getByText('Reason: backup of the shop').waitFor();
    await seen(page, 'suspended-volumes');
    await card.getByRole('button', { name: 'Resume volume data' }).click();
    await test(page, 'suspension').getByText('Reason: backup of the shop').waitFor();
    await accessible(page);
    await test(page, 'apply').click();
    await test(page, 'dialog').waitFor({ state: 'detached' });
    assert.equal(await suspension('pvc-1'), undefined);
    assert.equal(await suspension('pvc-2'), 'by ann at 2026-11-26T08:00:00Z: the disk is slow', 'another volume was resumed');
    await close(page);
  });

  it('a volume that somebody else suspends meanwhile keeps their name and reason', async () => {
    await storage();
    const page = await open(browser, '/local-volumes/class/vg1');
    await test(page, 'volumes').getByRole('button', { name: 'Suspend volume data' }).click();
    await test(page, 'dialog').waitFor();
    await request('PATCH', `${paths.volumes}/pvc-1`, { metadata: { annotations: { [annotation]: 'by bob at 2026-11-26T09:00:00Z' } } }, 'application/merge-patch+json');
    await test(page, 'obstacle').getByText(/Suspended by bob/).waitFor();
    assert.ok(await test(page, 'apply').isDisabled());
    await close(page);
  });

  it('a device is suspended with what may be on it, and shown as suspended, also on its node', async () => {
    await storage();
    const page = await open(browser, '/local-volumes/class/vg1');
    await page.getByRole('button', { name: 'Manage /dev/sdb on node node-a' }).click();
    await page.getByRole('radio', { name: 'Suspend' }).check();
    await test(page, 'consequences').getByText(/Volumes that may have data on this device \(3\): default\/data, default\/logs, default\/photos/).waitFor();
    await page.getByLabel('Reason').fill('SMART warnings');
    await test(page, 'written').getByText(/\+ deviceRequests: \{node: node-a, device: a1-uuid, action: Cordon, suspend: true, suspendReason: by .*: SMART warnings\}/).waitFor();
    await page.locator('[data-test=dry-run][data-state=accepted]').waitFor();
    await accessible(page);
    await seen(page, 'suspend-device');
    await test(page, 'apply').click();
    await test(page, 'dialog').waitFor({ state: 'detached' });
    const [suspended] = (await requests()) ?? [];
    assert.match(suspended?.suspendReason ?? '', new RegExp(`^by ${admin} at 20\\d\\d-\\d\\d-\\d\\dT\\d\\d:\\d\\d:\\d\\dZ: SMART warnings$`));
    assert.deepEqual({ ...suspended, suspendReason: '' }, { node: 'node-a', device: 'a1-uuid', action: 'Cordon', suspend: true, suspendReason: '' });
    await test(page, 'members').getByText('Requested: Cordon, suspend: true').waitFor();
    await tell('node-a', disks, [group(physicalVolume('sdb', 'a1', { state: 'Cordoned', suspended: true, message: 'suspended (deviceRequests): new Pods do not get the volumes default/data' }), physicalVolume('sdc', 'a2'))]);
    await test(page, 'members').locator('[data-test=suspended]').hover();
    await page.getByText('New Pods do not get the volumes that have data on this device.').waitFor();
    await accessible(page);
    await seen(page, 'suspended-device');
    for (const place of ['/local-volumes', '/k8s/cluster/nodes/node-a/local-disks']) {
      const other = await open(browser, place);
      await test(other, 'devices').locator('[data-test=suspended]').waitFor();
      await accessible(other);
      await seen(other, `suspended-${place.split('/').pop()}`);
      await close(other);
    }
    await page.getByRole('button', { name: 'Manage /dev/sdb on node node-a' }).click();
    await page.getByRole('radio', { name: 'Resume' }).check();
    await test(page, 'consequences').getByText(/New Pods get the volumes on the device again/).waitFor();
    await page.locator('[data-test=dry-run][data-state=accepted]').waitFor();
    await test(page, 'apply').click();
    await test(page, 'dialog').waitFor({ state: 'detached' });
    assert.equal(await requests(), undefined);
    await close(page);
  });

  it('a claim shows that its volume is suspended, and by whom, and resumes it', async () => {
    await storage();
    await makeClaim('logs', 'pvc-2');
    const page = await open(browser, '/k8s/ns/default/persistentvolumeclaims/logs/logical-volume');
    const card = test(page, 'logical-volume');
    await card.getByText(/Suspended by ann on/).waitFor();
    await card.getByText('Reason: the disk is slow').waitFor();
    await accessible(page);
    await seen(page, 'suspended-claim');
    await card.getByRole('button', { name: 'Resume volume logs' }).click();
    await test(page, 'apply').click();
    await test(page, 'dialog').waitFor({ state: 'detached' });
    await card.locator('[data-test=suspended]').waitFor({ state: 'detached' });
    assert.equal(await suspension('pvc-2'), undefined);
    await close(page);
  });

  it('a user who lacks the permission sees what is suspended, and why nothing can be done', async () => {
    await storage();
    const page = await open(browser, '/local-volumes/class/vg1', { as: 'viewer', expect: /403/ });
    const card = test(page, 'volumes');
    await card.getByText('You lack permission to patch logicalvolumes.topolvm.io.').waitFor();
    await card.getByRole('button', { name: 'Suspend volume data' }).click({ force: true });
    assert.equal(await test(page, 'dialog').count(), 0);
    assert.equal(await card.locator('[data-test=suspended]').count(), 2);
    await page.getByRole('button', { name: 'Manage /dev/sdb on node node-a' }).click();
    await page.getByRole('radio', { name: 'Suspend' }).check();
    await page.locator('[data-test=dry-run][data-state=refused]').waitFor();
    await test(page, 'apply').click();
    await test(page, 'why-not').getByText(/You lack permission to update/).waitFor();
    await accessible(page);
    await close(page);
    assert.equal(await requests(), undefined);
  });
});
