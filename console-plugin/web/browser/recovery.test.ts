import assert from 'node:assert/strict';
import { after, before, beforeEach, describe, it } from 'node:test';
import type { Browser, Page } from 'playwright-core';
import type { LVMRecovery, RecoveryPlan, VGStatus } from '../src/api/types';
import { blank, clean, importPlan, judge, makeNode, makeRecovery, member, namespace, paths, physicalVolume, plan as agent, request, tell } from './kube';
import { accessible, close, fits, launch, open, picture, says, test } from './page';

const GiB = 2 ** 30;
const now = () => new Date().toISOString();
const condition = (type: string, reason: string, message: string) => ({ type, status: 'False' as const, reason, message, lastTransitionTime: now() });
const missing = 'volume group vg1 on node node-a is missing the physical volume a2-uuid, last seen as /dev/sdc: attach the disk again; until then no volume of the group is deleted or formatted; if the disk is lost, so is data of volumes: create an LVMRecovery {nodeName: node-a, deviceClassName: vg1, action: RemoveLostDevices}, which lists what is lost and changes nothing until it is approved';

function group(more: Partial<VGStatus> = {}): VGStatus {
  const thinPool = { name: 'thin-pool-1', size: String(100 * GiB), metadataSize: String(GiB), dataPercent: 42, metadataPercent: 3, virtualSize: String(300 * GiB) };
  return { name: 'vg1', status: 'Ready', size: String(200 * GiB), free: String(80 * GiB), devices: ['/dev/sdb'], physicalVolumes: [physicalVolume('sdb', 'a1')], thinPool, ...more };
}
const orphans = [1, 2].map((n) => ({ kind: 'LogicalVolume' as const, name: `vg1/2f0c8f6e-7d5f-4b0e-a8d3-3a4c7e0c7c1${n}`, size: `${n * GiB}`, ...(n === 1 ? { claim: 'shop/data' } : {}) }));

async function storage(a: Partial<VGStatus> = {}, b: Partial<VGStatus> = {}): Promise<void> {
  await makeNode('node-a');
  await makeNode('node-b');
  await tell('node-a', [member('sdb', 'a1')], [group({ orphans: [], ...a })]);
  await tell('node-b', [member('sdb', 'b1')], [group({ physicalVolumes: [physicalVolume('sdb', 'b1')], ...b })]);
  const spec = { storage: { deviceClasses: [{ name: 'vg1', default: true, thinPoolConfig: { name: 'thin-pool-1', overprovisionRatio: 10 } }] } };
  await request('POST', paths.clusters, { apiVersion: 'lvm.topolvm.io/v1alpha1', kind: 'LVMCluster', metadata: { name: 'my-lvmcluster', namespace }, spec });
  await judge('my-lvmcluster', 'Ready', '2/2');
}

const lost = (n: number) => Array.from({ length: n }, (_, i) => ({ name: `5d0b7c1e-90c4-4b5e-8d0e-${String(i).padStart(12, '0')}`, uuid: `lv-${i}`, size: (i + 1) * GiB, claim: `shop/database-${i}` }));
const planOf = (id: string, more: Partial<RecoveryPlan> = {}): RecoveryPlan => ({
  id, creationTime: now(), volumeGroupUUID: 'Vdl8oE-YsdP-2TBl-vHo9-kgkP-0y6F-8Kf2wA', devices: [{ uuid: 'a2-uuid', name: '/dev/sdc', deviceID: 'wwn:0x5000c500a2' }], lostVolumeCount: 0, keptVolumeCount: 3, ...more,
});
const losing = (id: string, n = 2) => planOf(id, { lostVolumeCount: n, lostVolumes: lost(Math.min(n, 1000)), thinPools: [{ name: 'thin-pool-1', size: 100 * GiB }] });
const awaiting = (plan: RecoveryPlan): LVMRecovery['status'] => ({ phase: 'AwaitingApproval', message: `${plan.lostVolumeCount} volumes are lost: check the plan, and set spec.approvedPlan to its ID`, plan });

const list = async () => (await request<{ items: LVMRecovery[] }>('GET', paths.recoveries)).items;
const one = (name: string) => request<LVMRecovery>('GET', `${paths.recoveries}/${name}`);

/** The page, or the dialog in it, as an administrator sees it at 1280 pixels. */
async function seen(page: Page, name: string): Promise<void> {
  await page.setViewportSize({ width: 1280, height: 1000 });
  await page.screenshot({ path: `screenshots/${name}-1280.png`, fullPage: true, animations: 'disabled' });
  await page.setViewportSize({ width: 1500, height: 1000 });
}

describe('recoveries', () => {
  let browser: Browser;
  before(async () => void (browser = await launch()));
  after(() => browser.close());
  beforeEach(clean);

  it('are listed with those that need approval first, and an empty list says what a recovery is', async () => {
    await storage();
    const page = await open(browser, '/local-volumes');
    const card = test(page, 'recoveries');
    await card.getByText(/There are no recoveries. A recovery makes a device class of a node usable again/).waitFor();
    await seen(page, 'recoveries-empty');
    await makeRecovery('node-b-vg1-done', { nodeName: 'node-b', action: 'FreePoolSpace' }, { phase: 'Succeeded', plan: planOf('p0', { devices: [] }) });
    await makeRecovery('node-a-vg1', {}, awaiting(losing('3f9c0a51b7d2')));
    await makeRecovery('not-read', { nodeName: 'node-b' });
    await card.getByText('Awaiting approval').waitFor();
    await card.getByText('Not read yet').waitFor();
    await says(card.locator('tbody tr').first(), /node-a-vg1.*node-a.*vg1.*RemoveLostDevices.*Awaiting approval.*2/);
    await accessible(page);
    await fits(page, 'recoveries');
    await card.getByRole('link', { name: 'vg1', exact: true }).first().click();
    await test(page, 'recoveries').getByRole('link', { name: 'node-a-vg1', exact: true }).click();
    await page.getByRole('heading', { name: 'Recovery node-a-vg1' }).waitFor();
    await test(page, 'plan').getByRole('link', { name: 'shop/database-0' }).waitFor();
    await close(page);
  });

  it('is started from what the status suggests: the page has the action, and the object what was chosen', async () => {
    await storage({ conditions: [condition('DevicesHealthy', 'DeviceMissing', missing)] }, { orphans, orphanCount: 2 });
    const page = await open(browser, '/local-volumes/class/vg1');
    await test(page, 'suggestion').first().getByText(/last seen as \/dev\/sdc/).waitFor();
    await accessible(page);
    await seen(page, 'class-suggestions');
    await page.getByRole('button', { name: 'Recover with RemoveLostDevices on node node-a' }).click();
    assert.ok(await page.getByRole('radio', { name: /^RemoveLostDevices/ }).isChecked());
    await accessible(page);
    await seen(page, 'recover-dialog');
    await picture(page, 'recover-dialog');
    await test(page, 'apply').click();
    await page.getByRole('heading', { name: /^Recovery node-a-vg1-/ }).waitFor();
    await page.getByText(/The node agent has not read the recovery yet/).waitFor();
    const [made] = await list();
    assert.deepEqual(made?.spec, { nodeName: 'node-a', deviceClassName: 'vg1', action: 'RemoveLostDevices' });
    await page.goBack();
    // It is not suggested again.
    await page.getByRole('button', { name: 'Recover with ImportVolumes on node node-b' }).waitFor();
    assert.equal(await page.getByRole('button', { name: 'Recover with RemoveLostDevices on node node-a' }).count(), 0);
    await close(page);
  });

  it('imports orphans with claims, and deletes none that is not selected', async () => {
    await storage({}, { orphans, orphanCount: 2 });
    const page = await open(browser, '/local-volumes/class/vg1');
    await page.getByRole('button', { name: 'Recover with ImportVolumes on node node-b' }).click();
    await page.getByRole('checkbox', { name: /^Select volume .*c12$/ }).check();
    await page.getByRole('textbox', { name: /^Claim for volume .*c12$/ }).fill('shop/logs');
    await page.getByLabel('Other volumes').fill('9d0b shop/old');
    await accessible(page);
    await seen(page, 'recover-import');
    await test(page, 'apply').click();
    await page.getByRole('heading', { name: /^Recovery node-b-vg1-/ }).waitFor();
    const name = '2f0c8f6e-7d5f-4b0e-a8d3-3a4c7e0c7c12';
    assert.deepEqual((await list())[0]?.spec, {
      nodeName: 'node-b', deviceClassName: 'vg1', action: 'ImportVolumes', volumes: [name, '9d0b'], claims: [{ volume: name, namespace: 'shop', name: 'logs' }, { volume: '9d0b', namespace: 'shop', name: 'old' }],
    });
    await page.goBack();
    await page.getByRole('button', { name: 'Recover with DeleteOrphans on node node-b' }).click();
    await test(page, 'unfinished').waitFor();
    await test(page, 'apply').click();
    await test(page, 'why-not').getByText('Select at least one volume, or enter its name.').waitFor();
    await page.getByRole('checkbox', { name: /^Select volume .*c11$/ }).check();
    await seen(page, 'recover-delete');
    await test(page, 'apply').click();
    await page.getByRole('heading', { name: /^Recovery node-b-vg1-/ }).waitFor();
    assert.deepEqual((await list()).find((r) => r.spec.action === 'DeleteOrphans')?.spec.volumes, ['2f0c8f6e-7d5f-4b0e-a8d3-3a4c7e0c7c11']);
    await close(page);
  });

  it('keeps data that the cluster has lost sight of: a volume on another node than its object says, and metadata of an earlier time', async () => {
    const replaced = 'the metadata of volume group vg1 on node node-a was replaced with that of an earlier time: it is change 41 of the volume group, and change 52 was seen before; space that it calls free can have data, and a volume can have the data of another one: to use the present metadata, create an LVMRecovery {nodeName: node-a, deviceClassName: vg1, action: AcceptMetadata}';
    const moved = { kind: 'OtherNode' as const, name: 'vg1/0d7a4a1c-1d8e-4d0d-9f11-5f0a3c1b2e77', size: `${5 * GiB}`, claim: 'shop/data', object: 'pvc-7', objectNode: 'node-a' };
    await storage({ conditions: [condition('VolumesHealthy', 'MetadataReplaced', replaced)] }, { orphans: [moved], orphanCount: 1 });
    const shared = blank('sdd', 'a9', 300 * GiB, { state: 'Excluded', reasons: [{ code: 'SharedWithNode', message: 'is also attached to other nodes, which list a disk with the same WWN wwn:0x5000c500a9: node-b (/dev/sdc). Two nodes that use one disk destroy its data, so none takes it: present the disk to one node only (zoning, LUN masking); if these are different disks with the same WWN, give each its own' }] });
    await tell('node-b', [member('sdb', 'b1'), shared], [group({ physicalVolumes: [physicalVolume('sdb', 'b1')], orphans: [moved], orphanCount: 1 })]);
    const page = await open(browser, '/local-volumes');
    await test(page, 'devices').getByText(/is also attached to other nodes, which list a disk/).waitFor();
    await picture(page, 'overview-shared');
    await page.getByRole('link', { name: 'Device class vg1' }).click();
    await page.getByRole('button', { name: 'Recover with ImportVolumes on node node-b' }).waitFor();
    assert.equal(await page.getByRole('button', { name: 'Recover with DeleteOrphans on node node-b' }).count(), 0, 'it suggests to delete the only copy of a volume');
    await accessible(page);
    await seen(page, 'class-doubtful');
    await page.getByRole('button', { name: 'Recover with AcceptMetadata on node node-a' }).click();
    await test(page, 'dialog').getByText(/has seen a later change/).waitFor();
    await seen(page, 'recover-accept');
    await test(page, 'apply').click();
    await page.getByRole('heading', { name: /^Recovery node-a-vg1-/ }).waitFor();
    assert.equal((await list())[0]?.spec.action, 'AcceptMetadata');
    await close(page);
  });

  it('says what the API server refuses', async () => {
    await storage();
    const page = await open(browser, '/local-volumes/class/vg1', { expect: /422/ });
    await test(page, 'recover').click();
    await page.locator('#recover-node').selectOption('node-a');
    await page.getByRole('radio', { name: /^ImportVolumes/ }).check();
    // The form takes the name of a claim as the API server has it: this one is for the API server to refuse.
    await page.getByLabel('Other volumes').fill('9d0b Shop/old');
    await test(page, 'apply').click();
    await test(page, 'why-not').getByText(/The recovery could not be created/).waitFor();
    await test(page, 'why-not').getByText(/spec.claims\[0\].namespace/).waitFor();
    assert.deepEqual(await list(), []);
    await close(page);
  });

  it('is approved after the loss was confirmed, with exactly the plan that was shown, and followed to its end', async () => {
    await storage();
    await makeRecovery('node-a-vg1', {}, awaiting(losing('3f9c0a51b7d2', 1003)));
    const page = await open(browser, '/local-volumes/recovery/node-a-vg1');
    await test(page, 'lost-count').getByText('1,003').waitFor();
    await test(page, 'plan-lost').getByText('3 of the lost volumes are not listed', { exact: false }).waitFor();
    assert.ok((await test(page, 'plan-lost').locator('tbody tr').count()) < 60, 'all rows of a long plan are in the page');
    await test(page, 'plan-lost').getByRole('link', { name: 'shop/database-0' }).waitFor();
    await accessible(page);
    await fits(page, 'recovery');
    await picture(page, 'recovery');
    await test(page, 'approve').click();
    await test(page, 'loss').getByText('1003 volumes are lost.').waitFor();
    await test(page, 'dialog').getByRole('link', { name: 'shop/database-0' }).waitFor();
    await test(page, 'apply').click();
    await test(page, 'unconfirmed').waitFor();
    assert.equal((await one('node-a-vg1')).spec.approvedPlan, undefined, 'it was approved without a confirmation');
    await page.getByRole('checkbox', { name: /I understand that the listed data is lost/ }).check();
    await accessible(page);
    await seen(page, 'approve');
    await picture(page, 'approve');
    await test(page, 'apply').click();
    await test(page, 'dialog').waitFor({ state: 'detached' });
    assert.equal((await one('node-a-vg1')).spec.approvedPlan, '3f9c0a51b7d2');
    await page.getByText('The plan is approved. The node agent has not started yet.').waitFor();
    assert.equal(await test(page, 'approve').count(), 0);
    await agent('node-a-vg1', { phase: 'Running', message: 'waits for Pod shop/database-0-x, which uses a lost volume', startTime: now() });
    await test(page, 'message').getByText(/waits for Pod/).waitFor();
    await agent('node-a-vg1', { phase: 'Succeeded', message: 'delete the claims of the lost volumes', completionTime: now() });
    await test(page, 'message').getByText('The recovery has ended').waitFor();
    await seen(page, 'recovery-succeeded');
    await close(page);
  });

  it('approves no plan that was not shown: the page says that it changed, and so does the API server', async () => {
    await storage();
    await makeRecovery('node-a-vg1', {}, awaiting(losing('aaaaaaaaaaaa')));
    const page = await open(browser, '/local-volumes/recovery/node-a-vg1', { expect: /422/ });
    await test(page, 'approve').click();
    await page.getByRole('checkbox', { name: /I understand/ }).check();
    await agent('node-a-vg1', awaiting(losing('bbbbbbbbbbbb', 5)));
    await test(page, 'obstacle').getByText('The plan has changed in the meantime. Nothing was approved.').waitFor();
    await page.getByText('Approve plan aaaaaaaaaaaa').waitFor();
    assert.ok(await test(page, 'apply').isDisabled());
    await accessible(page);
    await seen(page, 'approve-changed');
    await test(page, 'show-new').click();
    await page.getByText('Approve plan bbbbbbbbbbbb').waitFor();
    assert.equal(await page.getByRole('checkbox', { name: /I understand/ }).isChecked(), false, 'the confirmation is for another plan');
    await test(page, 'loss').getByText('5 volumes are lost.').waitFor();
    await page.getByRole('checkbox', { name: /I understand/ }).check();
    // The agent writes a plan that the page has not got when the button is pressed: the patch is held up until then.
    await page.route(/lvmrecoveries\/node-a-vg1\?/, async (route) => {
      if (route.request().method() === 'PATCH') await agent('node-a-vg1', awaiting(losing('cccccccccccc', 6)));
      await route.continue();
    });
    await test(page, 'apply').click();
    await test(page, 'obstacle').waitFor();
    await test(page, 'why-not').getByText('The recovery no longer has plan bbbbbbbbbbbb.').waitFor();
    await seen(page, 'approve-refused');
    assert.equal((await one('node-a-vg1')).spec.approvedPlan, undefined, 'a plan was approved that was not shown');
    await close(page);
  });

  it('says that a plan changed after its approval', async () => {
    await storage();
    await makeRecovery('node-a-vg1', { approvedPlan: 'aaaaaaaaaaaa' }, awaiting(losing('bbbbbbbbbbbb')));
    const page = await open(browser, '/local-volumes/recovery/node-a-vg1');
    await test(page, 'outdated').getByText(/Plan aaaaaaaaaaaa was approved, but is no longer valid/).waitFor();
    await test(page, 'approve').waitFor();
    await close(page);
  });

  it('is cancelled after a confirmation', async () => {
    await storage();
    await makeRecovery('node-a-vg1', {}, awaiting(losing('3f9c0a51b7d2')));
    const page = await open(browser, '/local-volumes/recovery/node-a-vg1');
    await test(page, 'delete').click();
    await test(page, 'dialog').getByText('No volume has been changed, and nothing is lost.', { exact: false }).waitFor();
    await accessible(page);
    await seen(page, 'cancel');
    assert.equal((await list()).length, 1);
    await test(page, 'apply').click();
    await page.getByRole('heading', { name: 'Device class vg1', exact: true }).waitFor();
    assert.deepEqual(await list(), []);
    const gone = await open(browser, '/local-volumes/recovery/node-a-vg1');
    await test(gone, 'no-recovery').getByText('Recovery node-a-vg1 does not exist').waitFor();
    await close(gone);
    await close(page);
  });

  it('shows the plan of each action', async () => {
    await storage();
    const volumes = lost(3);
    await makeRecovery('repair', { action: 'RepairThinPool' }, {
      phase: 'AwaitingApproval', message: 'the metadata is damaged', plan: planOf('r', { devices: [], repair: 'RebuildMetadata', thinPools: [{ name: 'thin-pool-1', size: 100 * GiB }], lostVolumeCount: 1, lostVolumes: volumes.slice(0, 1), damagedVolumes: [{ ...volumes[1]!, lostBytes: 3 * 2 ** 20 }] }),
    });
    await makeRecovery('labels', { action: 'RestoreLabels' }, { phase: 'NotApplicable', message: 'device /dev/sdc has a file system now (xfs)', plan: planOf('l', { metadataSource: 'other devices of the volume group' }) });
    await makeRecovery('space', { action: 'FreePoolSpace' }, {
      phase: 'Succeeded', message: 'freed 2 GiB', startTime: now(), completionTime: now(), freedBytes: 2 * GiB,
      plan: planOf('s', { devices: [], extensibleBytes: 8 * GiB, mountedVolumeCount: 2, mountedVolumes: volumes.slice(0, 2).map((v) => ({ ...v, allocatedBytes: 2 * GiB, usedBytes: GiB })), thinPools: [{ name: 'thin-pool-1', size: 100 * GiB, allocatedBytes: 97 * GiB }] }),
    });
    await makeRecovery('import', { action: 'ImportVolumes', nodeName: 'node-b' }, {
      phase: 'Running', message: 'waits for the operator', plan: importPlan('node-b', planOf('', { devices: [], importedVolumes: [{ ...volumes[0]!, persistentVolume: 'pvc-0c8f6e7d-5f4b-4e8a-9d33-a4c7e0c7c110', fsType: 'xfs' }, { ...volumes[1]!, persistentVolume: 'pvc-1', fromNode: 'node-old' }] })),
      conditions: [{ type: 'ObjectsCreated', status: 'False', reason: 'ObjectsBlocked', message: 'claim shop/database-1 is bound to PersistentVolume pvc-9', lastTransitionTime: now() }],
    });
    await makeRecovery('import-new', { action: 'ImportVolumes', nodeName: 'node-b' }, {
      phase: 'AwaitingApproval', message: 'two volumes', plan: importPlan('node-b', planOf('', { devices: [], importedVolumes: [{ ...volumes[0]!, persistentVolume: 'pvc-0c8f6e7d-5f4b-4e8a-9d33-a4c7e0c7c110', fsType: 'ext4', created: '2026-01-02T03:04:05Z', lastMountTime: '2026-03-04T05:06:07Z' }, { ...volumes[1]!, persistentVolume: 'pvc-1', created: '2026-01-02T03:04:05Z' }] })),
    });
    await makeRecovery('check', { action: 'CheckFileSystems', volumes: ['a'] }, { phase: 'AwaitingApproval', message: '1 of 1 file systems has errors', plan: planOf('c', { devices: [], checkedVolumes: [{ ...volumes[0]!, fsType: 'ext4', finding: 'e2fsck: inode 131 has an invalid size; the bitmap of group 3 differs' }] }) });
    const parts: Record<string, RegExp[]> = {
      repair: [/RebuildMetadata.*what can be read is written again/, /Damaged volumes \(1\)/, /3 MiB/],
      labels: [/other devices of the volume group/, /\/dev\/sdc/, /wwn:0x5000c500a2/],
      space: [/Freed space.*2 GiB/, /Possible extension of the thin pool.*8 GiB/, /Volumes to trim \(2\)/],
      import: [/ObjectsBlocked|claim shop\/database-1 is bound to PersistentVolume pvc-9/, /node-old/, /Block/],
      'import-new': [/Last mounted/, /Age/],
      check: [/inode 131 has an invalid size/, /ext4/],
    };
    for (const [name, texts] of Object.entries(parts)) {
      const page = await open(browser, `/local-volumes/recovery/${name}`);
      await test(page, 'plan').locator('[data-test=lost-count]').waitFor();
      const text = (await page.locator('main').textContent()) ?? '';
      for (const wanted of texts) assert.match(text, wanted, name);
      await accessible(page);
      await fits(page, `recovery-${name}`);
      if (name === 'check') {
        await test(page, 'approve').click();
        await test(page, 'no-loss').waitFor();
        await seen(page, 'approve-check');
      }
      await close(page);
    }
  });

  it('lets a user who may only look see everything, and disables the buttons with the reason', async () => {
    await storage({ conditions: [condition('DevicesHealthy', 'DeviceMissing', missing)] });
    await makeRecovery('other', { action: 'RepairThinPool' }, awaiting(losing('3f9c0a51b7d2')));
    const page = await open(browser, '/local-volumes/recovery/other', { as: 'viewer', expect: /403/ });
    await test(page, 'forbidden').getByText(`You lack permission for lvmrecoveries.lvm.topolvm.io in ${namespace}: patch, delete.`).waitFor();
    await test(page, 'plan-lost').getByRole('link', { name: 'shop/database-0' }).waitFor();
    for (const button of ['approve', 'delete']) {
      assert.equal(await test(page, button).getAttribute('aria-disabled'), 'true', button);
      await test(page, button).click({ force: true });
      assert.equal(await test(page, 'dialog').count(), 0, `${button} opened a dialog`);
    }
    await accessible(page);
    await seen(page, 'recovery-forbidden');
    await page.getByRole('link', { name: 'vg1' }).first().click();
    await test(page, 'recoveries').getByText(/You lack permission to create lvmrecoveries/).waitFor();
    assert.equal(await test(page, 'recover').getAttribute('aria-disabled'), 'true');
    await seen(page, 'class-forbidden');
    await close(page);
    const nobody = await open(browser, '/local-volumes/recovery/other', { as: 'nobody', expect: /403/ });
    await test(nobody, 'read-error').first().waitFor();
    assert.equal(await test(nobody, 'no-recovery').count(), 0, 'what could not be read was shown as empty');
    await close(nobody);
  });

  it('can be read with high contrast, in the dark, and in other languages', async () => {
    await storage({ conditions: [condition('DevicesHealthy', 'DeviceMissing', missing)] }, { orphans, orphanCount: 2 });
    await makeRecovery('other', { action: 'RepairThinPool' }, awaiting(losing('3f9c0a51b7d2')));
    for (const phase of ['NotApplicable', 'Preparing', 'Running', 'Succeeded'] as const) await makeRecovery(phase.toLowerCase(), { action: 'CheckFileSystems', volumes: ['a'] }, { phase });
    for (const language of ['es-ES', 'fr-FR', 'ja-JP', 'ko-KR', 'zh-CN']) {
      const page = await open(browser, `/local-volumes/recovery/other?theme=${language === 'fr-FR' ? 'contrast' : 'dark'}`, { language });
      await test(page, 'plan').locator('[data-test=lost-count]').waitFor();
      await fits(page, `recovery-${language}`);
      await test(page, 'approve').click();
      await test(page, 'loss').waitFor();
      await accessible(page);
      await seen(page, `approve-${language}`);
      await close(page);
      const details = await open(browser, '/local-volumes/class/vg1', { language });
      await test(details, 'suggestion').first().waitFor();
      await test(details, 'recover').click();
      await seen(details, `recover-${language}`);
      await close(details);
      const overview = await open(browser, '/local-volumes', { language });
      await test(overview, 'recoveries').getByRole('link', { name: 'notapplicable' }).waitFor();
      await fits(overview, `recoveries-${language}`);
      await close(overview);
    }
  });
});
