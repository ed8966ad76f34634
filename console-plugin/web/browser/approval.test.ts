import assert from 'node:assert/strict';
import { after, before, beforeEach, describe, it } from 'node:test';
import type { Browser } from 'playwright-core';
import type { Device, DeviceApproval, DeviceClass, VGStatus } from '../src/api/types';
import { blank, carrying, clean, judge, makeNode, member, namespace, paths, physicalVolume, request, tell } from './kube';
import { accessible, close, fits, launch, open, picture, seen, test } from './page';

const GiB = 2 ** 30;
const print = (n: string): string => `v1-${n.padStart(2, '0')}23456789abcdef0123456789abcdef`;
const waits = (n: string, reason = 'AwaitingApproval'): Partial<Device> => ({ fingerprint: print(n), firstSeen: '2026-11-20T08:00:00Z', eligibility: [{ deviceClass: 'vg1', eligible: false, reasons: [reason] }] });
const group: VGStatus = { name: 'vg1', status: 'Ready', size: String(100 * GiB), free: String(80 * GiB), physicalVolumes: [physicalVolume('sdb', 'a1')], devices: ['/dev/sdb'] };
const has = 'has changed since ann approved it (LVMDeviceApproval node-a-vg1-old): find out what changed it, and approve it again with kubectl lvms approve';

const disks = (): Device[] => [member('sdb', 'a1'), blank('sdc', 'a2', 300 * GiB, waits('a2')), { ...carrying('sdd', 'a3'), ...waits('a3') }, { ...carrying('sde', 'a4', 'ext4', 'photos'), ...waits('a4', 'ChangedSinceReview') }];

async function storage(c: Partial<DeviceClass> = { approval: 'Required' }): Promise<void> {
  await makeNode('node-a');
  await makeNode('node-b');
  await tell('node-a', disks(), [{ ...group, excluded: [{ name: '/dev/sde', reasons: [`ChangedSinceReview: ${has}`] }] }]);
  await tell('node-b', [blank('sdb', 'b1', 100 * GiB, waits('b1'))], [{ name: 'vg1', status: 'Progressing', reason: 'volume group vg1 is not created on node node-b before its devices are approved: /dev/sdb' }]);
  const deviceSelector = { optionalPaths: ['a1', 'a2', 'a3', 'a4', 'b1'].map((n) => `/dev/disk/by-id/wwn-0x5000c500${n}`), forceWipeDevicesAndDestroyAllData: true };
  const spec = { storage: { deviceClasses: [{ name: 'vg1', default: true, deviceSelector, ...c }] } };
  await request('POST', paths.clusters, { apiVersion: 'lvm.topolvm.io/v1alpha1', kind: 'LVMCluster', metadata: { name: 'my-lvmcluster', namespace }, spec });
  await judge('my-lvmcluster', 'Progressing', '1/2');
}

const approvals = async () => (await request<{ items: DeviceApproval[] }>('GET', paths.approvals)).items;
const admin = 'system:serviceaccount:console-users:admin';

describe('approvals of devices', () => {
  let browser: Browser;
  before(async () => void (browser = await launch()));
  after(() => browser.close());
  beforeEach(clean);

  it('are asked for in the overview, and given one by one or several at once, with the name of the user', async () => {
    await storage();
    const page = await open(browser, '/local-volumes');
    const alert = test(page, 'await-alert');
    await alert.getByText('4 devices await approval for device class vg1').waitFor();
    await test(page, 'devices').getByText(/Awaits approval for device class vg1/).first().waitFor();
    await accessible(page);
    await seen(page, 'approval-overview');
    await alert.getByRole('link', { name: 'Review devices' }).click();
    const card = test(page, 'approvals');
    await card.getByText('4 devices await approval').waitFor();
    await card.getByText(/1 of them has changed since it was approved/).waitFor();
    await card.getByText('No device of this device class has been approved.').waitFor();
    await test(page, 'settings-card').getByText('Required for each new device').waitFor();
    await accessible(page);
    await fits(page, 'approval-class', '[data-test=waiting]');
    await seen(page, 'approval-class');
    // A blank device.
    await card.getByRole('button', { name: 'Approve /dev/sdc on node node-a' }).click();
    await test(page, 'dialog').getByText(`You approve as ${admin}.`).waitFor();
    assert.equal(await test(page, 'accept-loss').count(), 0);
    await seen(page, 'approval-dialog-blank');
    await test(page, 'apply').click();
    await test(page, 'dialog').waitFor({ state: 'detached' });
    assert.deepEqual((await approvals()).map((a) => [a.metadata.name, a.spec]), [
      [`node-a-vg1-${print('a2').slice(3, 15)}`, { nodeName: 'node-a', deviceClassName: 'vg1', device: '/dev/disk/by-id/wwn-0x5000c500a2', fingerprint: print('a2'), approvedBy: admin }],
    ]);
    await card.getByRole('button', { name: 'Revoke the approval of /dev/disk/by-id/wwn-0x5000c500a2 on node node-a' }).waitFor();
    // Those with content: what is on them is destroyed.
    await test(page, 'select-all').click();
    await card.getByRole('checkbox', { name: /a2 on node node-a/ }).uncheck();
    await test(page, 'approve-selected').click();
    await test(page, 'consequences').getByText(/The content of 2 devices is destroyed, because the device class allows these devices to be wiped: .*sde.*sdd/).waitFor();
    await test(page, 'dialog').getByText(/LVMDeviceApproval node-a-vg1-old/).first().waitFor();
    await accessible(page);
    await seen(page, 'approval-dialog-wipe');
    await test(page, 'apply').click();
    await test(page, 'unconfirmed').waitFor();
    assert.equal((await approvals()).length, 1, 'an approval was written before the destruction was confirmed');
    await test(page, 'accept-loss').check();
    await test(page, 'apply').click();
    await test(page, 'dialog').waitFor({ state: 'detached' });
    assert.deepEqual((await approvals()).map((a) => a.spec.fingerprint).sort(), ['a2', 'a3', 'a4', 'b1'].map(print));
    await close(page);
  });

  it('are not given for a device that has changed: the page shows it, and asks again', async () => {
    await storage();
    const page = await open(browser, '/local-volumes/class/vg1');
    await page.getByRole('button', { name: 'Approve /dev/sdb on node node-b' }).click();
    await test(page, 'dialog').getByText(print('b1')).waitFor();
    await tell('node-b', [blank('sdb', 'b1', 100 * GiB, waits('b2'))], [{ name: 'vg1', status: 'Progressing' }]);
    await test(page, 'obstacle').getByText(/has changed in the meantime \(ChangedSinceReview\). It was not approved/).waitFor();
    assert.ok(await test(page, 'apply').isDisabled());
    await seen(page, 'approval-dialog-changed');
    await test(page, 'show-new').click();
    await test(page, 'dialog').getByText(print('b2')).waitFor();
    await test(page, 'apply').click();
    await test(page, 'dialog').waitFor({ state: 'detached' });
    assert.deepEqual((await approvals()).map((a) => a.spec.fingerprint), [print('b2')]);
    await close(page);
  });

  it('show what the API server refuses', async () => {
    await storage();
    const name = `node-b-vg1-${print('b1').slice(3, 15)}`;
    const spec = { nodeName: 'node-b', deviceClassName: 'vg1', device: '/dev/sdx', fingerprint: print('b1').replace(/.$/, '0'), approvedBy: admin };
    await request('POST', paths.approvals, { apiVersion: 'lvm.topolvm.io/v1alpha1', kind: 'LVMDeviceApproval', metadata: { name, namespace }, spec });
    const page = await open(browser, '/local-volumes/class/vg1', { expect: /409/ });
    await page.getByRole('button', { name: 'Approve /dev/sdb on node node-b' }).click();
    await test(page, 'apply').click();
    await test(page, 'why-not').getByText(new RegExp(`LVMDeviceApproval ${name} already exists, and is for another device`)).waitFor();
    await close(page);
  });

  it('are listed with who gave them, and can be revoked', async () => {
    await storage();
    const approve = (n: string, device: string) =>
      request('POST', paths.approvals, { apiVersion: 'lvm.topolvm.io/v1alpha1', kind: 'LVMDeviceApproval', metadata: { name: `node-a-${n}`, namespace }, spec: { nodeName: 'node-a', deviceClassName: 'vg1', device, fingerprint: print(n), approvedBy: admin } });
    await approve('a1', '/dev/disk/by-id/wwn-0x5000c500a1');
    await approve('a9', '/dev/disk/by-id/wwn-0x5000c500a4');
    await tell('node-a', [...disks(), blank('sdf', 'a5')], [group]);
    const page = await open(browser, '/local-volumes/class/vg1');
    const card = test(page, 'approvals');
    await card.getByText('In the volume group').waitFor();
    await card.getByText('Changed since its approval').waitFor();
    await card.getByText(admin).first().waitFor();
    await card.getByRole('button', { name: /^Revoke the approval of .*a1 on node node-a/ }).click();
    await test(page, 'effect').getByText(/stays in the volume group, with its data/).waitFor();
    await accessible(page);
    await seen(page, 'approval-revoke');
    await test(page, 'apply').click();
    await test(page, 'dialog').waitFor({ state: 'detached' });
    assert.deepEqual((await approvals()).map((a) => a.metadata.name), ['node-a-a9']);
    await picture(page, 'approval-list');
    await close(page);
  });

  it('can be given on the page of the node', async () => {
    await storage();
    const page = await open(browser, '/k8s/cluster/nodes/node-a/local-disks');
    const card = test(page, 'approvals');
    await card.getByText('3 devices await approval').waitFor();
    await card.getByRole('button', { name: 'Approve /dev/sde on node node-a' }).click();
    await test(page, 'consequences').getByText(/The content of 1 device is destroyed/).waitFor();
    await test(page, 'dialog').getByRole('button', { name: 'Close', exact: true }).last().click();
    await accessible(page);
    await seen(page, 'approval-node');
    await close(page);
  });

  it('can be seen by a user who lacks the permission, and not given or revoked', async () => {
    await storage();
    const page = await open(browser, '/local-volumes/class/vg1', { as: 'viewer', expect: /403/ });
    const card = test(page, 'approvals');
    await card.getByText(/You lack permission to create lvmdeviceapprovals.lvm.topolvm.io/).waitFor();
    await card.getByText(/You lack permission to delete lvmdeviceapprovals.lvm.topolvm.io/).waitFor();
    await card.getByRole('button', { name: 'Approve /dev/sdc on node node-a' }).click({ force: true });
    assert.equal(await test(page, 'dialog').count(), 0);
    await accessible(page);
    await seen(page, 'approval-viewer');
    await close(page);
    const nobody = await open(browser, '/local-volumes/class/vg1', { as: 'nobody', expect: /403/ });
    await test(nobody, 'read-error').getByText('Approvals could not be read').waitFor();
    await close(nobody);
  });

  it('fit in all languages', async () => {
    await storage();
    for (const language of ['es', 'fr', 'ja', 'ko', 'zh']) {
      const page = await open(browser, '/local-volumes/class/vg1', { language });
      await test(page, 'await').waitFor();
      await fits(page, `approval-class-${language}`, '[data-test=waiting]');
      await close(page);
    }
  });
});
