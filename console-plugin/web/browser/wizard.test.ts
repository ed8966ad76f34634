import assert from 'node:assert/strict';
import { after, before, beforeEach, describe, it } from 'node:test';
import type { Browser, Page } from 'playwright-core';
import { parseAllDocuments } from 'yaml';
import type { LVMCluster } from '../src/api/types';
import { exampleOf } from '../src/model/example';
import { administered, blank, carrying, clean, grouped, judge, makeNode, mounted, namespace, paths, request, system, tell } from './kube';
import { accessible, close, fits, launch, onPhone, open, picture, says, seen, test } from './page';

const create = `/k8s/ns/${namespace}/lvm.topolvm.io~v1alpha1~LVMCluster/~new`;
const GiB = 2 ** 30;

const next = (page: Page) => test(page, 'next').click();
const at = (page: Page, step: string) => test(page, `step-${step}`).waitFor();
const clusters = async () => (await request<{ items: LVMCluster[] }>('GET', paths.clusters)).items;

/** Two nodes that have listed their devices for an LVMCluster without device classes. */
async function discovered(): Promise<void> {
  for (const [i, node] of ['node-a', 'node-b'].entries()) {
    await makeNode(node, { 'node-role.kubernetes.io/worker': '', disks: i === 0 ? 'fast' : 'slow' });
    await tell(node, [system('sda', `${i}0`), blank('sdb', `${i}1`), blank('sdc', `${i}2`), carrying('sdd', `${i}3`), mounted('sde', `${i}4`)]);
  }
  await request('POST', paths.clusters, { apiVersion: 'lvm.topolvm.io/v1alpha1', kind: 'LVMCluster', metadata: { name: 'my-lvmcluster', namespace }, spec: {} });
  await judge('my-lvmcluster', 'Ready', '0/0');
}

async function toReview(page: Page): Promise<void> {
  for (const step of ['nodes', 'devices', 'class', 'protection', 'review']) {
    await next(page);
    await at(page, step);
  }
}

/** Asks the API server whether it accepts the objects of an example, in a namespace that enforces the Pod Security level restricted. */
async function restricted(text: string): Promise<void> {
  const namespaces = '/api/kubernetes/api/v1/namespaces';
  await request('PATCH', `${namespaces}/default`, { metadata: { labels: { 'pod-security.kubernetes.io/enforce': 'restricted' } } }, 'application/merge-patch+json');
  const objects = parseAllDocuments(text).map((d) => d.toJS() as { kind: string; spec: { securityContext?: object } });
  const kinds: Record<string, string> = { PersistentVolumeClaim: 'persistentvolumeclaims', Pod: 'pods' };
  const ask = (o: { kind: string }) => request('POST', `${namespaces}/default/${kinds[o.kind]}?dryRun=All&fieldValidation=Strict`, o);
  for (const o of objects) await ask(o);
  // The namespace does enforce it.
  const pod = objects.find((o) => o.kind === 'Pod');
  await assert.rejects(ask({ ...pod, kind: 'Pod', spec: { ...pod?.spec, securityContext: {} } } as never), /violates PodSecurity/);
  await request('PATCH', `${namespaces}/default`, { metadata: { labels: { 'pod-security.kubernetes.io/enforce': null } } }, 'application/merge-patch+json');
}

describe('wizard', () => {
  let browser: Browser;
  before(async () => void (browser = await launch()));
  after(() => browser.close());
  beforeEach(clean);

  it('begins with nothing, lists devices on an explicit click, and writes nothing else before the end', async () => {
    await makeNode('node-a');
    const page = await open(browser, '/local-volumes');
    await test(page, 'empty').waitFor();
    await accessible(page);
    await picture(page, 'empty');
    assert.equal((await clusters()).length, 0);
    // The tour is beside the page, which stays as it is.
    await test(page, 'tour').click();
    assert.equal(await page.locator('html').getAttribute('data-quick-start'), 'lvms-local-volumes');
    await onPhone(page, 'empty', 'empty');
    await test(page, 'discover').click();
    await test(page, 'health').waitFor();
    const [made] = await clusters();
    assert.deepEqual(made?.spec, {});
    await close(page);
  });

  it('makes a device class of ticked disks, and follows it until it is ready', async () => {
    await discovered();
    const page = await open(browser, create);
    await at(page, 'start');
    await accessible(page);
    await picture(page, 'wizard-1-start');
    await next(page);
    await at(page, 'nodes');
    await accessible(page);
    await picture(page, 'wizard-2-nodes');
    await next(page);
    await at(page, 'devices');

    // Next says why it does not lead on.
    await next(page);
    await test(page, 'why-not').waitFor();
    await says(test(page, 'why-not'), /No disk is selected/);
    assert.ok(await page.getByLabel('Select /dev/disk/by-id/wwn-0x5000c50000 on node node-a').isDisabled(), 'the disk of the operating system can be selected');
    assert.ok(await page.getByLabel('Select /dev/disk/by-id/wwn-0x5000c50004 on node node-a').isDisabled(), 'a mounted disk can be ticked');
    assert.equal(await test(page, 'stages').count(), 0, 'there are bars without a selected disk');
    await page.getByLabel('Select /dev/disk/by-id/wwn-0x5000c50001 on node node-a').check();
    await says(test(page, 'stage-disks'), /^100 GiB, 1 disk$/);
    await page.getByLabel('Select /dev/disk/by-id/wwn-0x5000c50012 on node node-b').check();
    await says(test(page, 'stage-disks'), /^200 GiB, 2 disks$/);
    // The bars follow the selection: disk, volume group, pool, volumes.
    assert.equal(await page.locator('[data-test=stage-disks] [data-tone=gray]').count(), 2);
    await says(test(page, 'stage-volumes'), /^1\.7 TiB.*Overcommitted: 1\.5 TiB$/);
    await page.getByLabel('Select /dev/disk/by-id/wwn-0x5000c50012 on node node-b').uncheck();
    await says(test(page, 'stage-disks'), /^100 GiB, 1 disk$/);
    await page.getByLabel('Select /dev/disk/by-id/wwn-0x5000c50012 on node node-b').check();
    await accessible(page);
    await picture(page, 'wizard-3-devices');
    await onPhone(page, 'wizard-3-devices', 'preview');
    await next(page);
    await at(page, 'class');
    // 200 GiB less a label each; 90 %, less twice the metadata.
    await says(test(page, 'preview-sum'), /200 GiB of disk space provides 179 GiB of thin pool space for up to 1\.7 TiB of volumes/);
    await says(test(page, 'stage-pool'), /^179 GiB.*Data: 179 GiB.*Metadata and its spare: .*Free for extension: 20 GiB$/);
    await accessible(page);
    await picture(page, 'wizard-4-class');
    await next(page);
    await at(page, 'protection');
    await test(page, 'nothing-destroyed').waitFor();
    await next(page);
    await at(page, 'review');
    await page.locator('[data-test=dry-run][data-state=accepted]').waitFor();
    await accessible(page);
    await picture(page, 'wizard-6-review');
    const before = await clusters();
    assert.equal(before[0]?.spec?.storage, undefined, 'something was written before the end');
    await next(page);
    await test(page, 'progress').waitFor();

    const [made] = await clusters();
    assert.deepEqual(made?.spec?.storage?.deviceClasses?.[0]?.deviceSelector, { optionalPaths: ['/dev/disk/by-id/wwn-0x5000c50001', '/dev/disk/by-id/wwn-0x5000c50012'] });
    await tell('node-a', [], [{ name: 'vg1', status: 'Failed', reason: 'lvcreate: no space' }]);
    await page.getByText('lvcreate: no space').waitFor();
    await picture(page, 'wizard-7-progress');
    const pool = { name: 'thin-pool-1', size: String(80 * GiB), metadataSize: String(GiB), dataPercent: 0, metadataPercent: 1 };
    for (const node of ['node-a', 'node-b']) await tell(node, [], [{ name: 'vg1', status: 'Ready', size: String(100 * GiB), free: String(10 * GiB), thinPool: pool }]);
    await judge('my-lvmcluster', 'Ready', '2/2');
    await page.locator('[data-test=progress][data-state=Ready]').waitFor();
    await page.getByText('Volumes can be created.').first().waitFor();
    // What to do next: a claim and a Pod to copy, which the cluster accepts in a namespace that enforces the level restricted.
    assert.equal(await test(page, 'example-vg1').count(), 0, 'there is an example before there is a StorageClass');
    await request('POST', paths.storageClasses, { apiVersion: 'storage.k8s.io/v1', kind: 'StorageClass', metadata: { name: 'lvms-vg1' }, provisioner: 'topolvm.io' });
    const shown = await test(page, 'example-vg1').locator('code').innerText();
    assert.equal(shown.trim(), exampleOf('vg1').trim());
    await restricted(shown);
    await accessible(page);
    await picture(page, 'wizard-8-example');
    await seen(page, 'wizard-8-example');
    await onPhone(page, 'wizard-8-example', 'example-vg1');
    await close(page);
    await request('DELETE', `${paths.storageClasses}/lvms-vg1`);
  });

  it('creates a device class with encryption, erasure, trims and a striped thin pool', async () => {
    await discovered();
    const page = await open(browser, create);
    for (const step of ['nodes', 'devices']) {
      await next(page);
      await at(page, step);
    }
    for (const [node, disks] of [['a', ['01', '02']], ['b', ['11', '12']]] as const)
      for (const disk of disks) await page.getByLabel(`Select /dev/disk/by-id/wwn-0x5000c500${disk} on node node-${node}`).check();
    await next(page);
    await at(page, 'class');
    await page.getByLabel('Encrypt volumes (LUKS2)').check();
    await page.getByLabel('Name of the Secret with the key').fill('lvms-key');
    await page.getByLabel('Namespace of the Secret').fill('volume-keys');
    await page.getByLabel('Discard: the disks are told that the blocks are unused').check();
    await page.getByLabel('Daily').check();
    await page.getByLabel('Pool usage threshold for trims (%)').fill('80');
    await page.getByRole('button', { name: 'Advanced thin pool settings' }).click();
    await page.getByLabel('Stripes', { exact: true }).fill('2');
    await says(test(page, 'preview-sum'), /400 GiB of disk space provides 359 GiB of thin pool space/);
    await accessible(page);
    await picture(page, 'wizard-4-class-data');
    for (const step of ['protection', 'review']) {
      await next(page);
      await at(page, step);
    }
    await page.locator('[data-test=dry-run][data-state=accepted]').waitFor();
    await says(test(page, 'summary'), /LUKS2, with the key in Secret volume-keys\/lvms-key/);
    await next(page);
    await test(page, 'progress').waitFor();
    const made = (await clusters())[0]?.spec?.storage?.deviceClasses?.[0];
    assert.equal(made?.storageClassOptions?.additionalParameters?.['lvm.topolvm.io/encryption'], 'luks2');
    assert.deepEqual([made?.eraseOnDelete, made?.trim, made?.thinPoolConfig?.stripes], ['Discard', { schedule: 'Daily', poolUsageThresholdPercent: 80 }, 2]);
    await close(page);
    // What is fixed is read-only, with the reason.
    const edit = await open(browser, '/local-volumes/edit?class=vg1&step=class');
    await at(edit, 'class');
    assert.ok(await edit.getByLabel('Encrypt volumes (LUKS2)').isDisabled(), 'encryption can be changed');
    await edit.getByText('Immutable, because StorageClasses are').first().waitFor();
    await close(edit);
  });

  it('creates a device class that requires an approval of each device, and changes that', async () => {
    await discovered();
    const page = await open(browser, create);
    await at(page, 'start');
    await next(page);
    await next(page);
    await at(page, 'devices');
    await page.getByLabel('Select /dev/disk/by-id/wwn-0x5000c50001 on node node-a').check();
    const approval = page.getByRole('checkbox', { name: 'Require an approval for each new device' });
    assert.equal(await approval.isChecked(), false, 'an approval is required by default');
    await approval.check();
    await approval.uncheck();
    await approval.check();
    for (const step of ['class', 'protection', 'review']) {
      await next(page);
      await at(page, step);
    }
    await page.locator('[data-test=dry-run][data-state=accepted]').waitFor();
    await next(page);
    await test(page, 'progress').waitFor();
    const [made] = await clusters();
    const { name, approval: written, deviceSelector } = made?.spec?.storage?.deviceClasses?.[0] ?? {};
    assert.deepEqual([name, written, deviceSelector], ['vg1', 'Required', { optionalPaths: ['/dev/disk/by-id/wwn-0x5000c50001'] }]);
    await close(page);

    // The same class, without the approvals: the field is gone, as in a class that never required any.
    const edit = await open(browser, '/local-volumes/edit?class=vg1&step=devices');
    await at(edit, 'devices');
    assert.ok(await edit.getByRole('checkbox', { name: 'Require an approval for each new device' }).isChecked(), 'the form does not show the approval that is required');
    await edit.getByRole('checkbox', { name: 'Require an approval for each new device' }).uncheck();
    for (const step of ['class', 'protection', 'review']) {
      await next(edit);
      await at(edit, step);
    }
    await edit.locator('[data-test=dry-run][data-state=accepted]').waitFor();
    await next(edit);
    await test(edit, 'progress').waitFor();
    const [changed] = await clusters();
    assert.equal('approval' in (changed?.spec?.storage?.deviceClasses?.[0] ?? {}), false);
    await close(edit);
  });

  it('brings errors of the API server to their fields', async () => {
    await discovered();
    const page = await open(browser, create, { expect: /422|400/ });
    await at(page, 'start');
    await next(page);
    await next(page);
    await test(page, 'tick-all').click();
    await next(page);
    await next(page);
    await next(page);
    await at(page, 'review');
    await page.locator('#view-yaml').click();
    const editor = page.getByLabel('YAML', { exact: true });
    const text = await editor.inputValue();
    assert.ok(((await editor.boundingBox())?.height ?? 0) >= 300, 'the editor is not high enough to work in it');
    // The form's own rules do not know this one, which the server has: a label of the operator.
    await editor.fill(text.replace('fstype: xfs', 'fstype: xfs\n        storageClassOptions:\n          additionalLabels: {app.kubernetes.io/name: x}'));
    await test(page, 'refused').waitFor();
    const cause = page.locator('[data-test=cause]');
    await says(cause.first(), /operator-reserved/);
    assert.match(await cause.first().getAttribute('data-field') ?? '', /deviceClasses\[0\]\.storageClassOptions\.additionalLabels\[app\.kubernetes\.io\/name\]/);

    // A field that the kind does not have is refused, and stays in the text.
    await editor.fill(text.replace('fstype: xfs', 'fstype: xfs\n        nonsense: 1'));
    await page.getByText(/unknown field .*nonsense/).first().waitFor();
    await page.locator('#view-form').click();
    await page.locator('#view-yaml').click();
    assert.match(await page.getByLabel('YAML', { exact: true }).inputValue(), /nonsense: 1/);

    // Not YAML: the form keeps what it had.
    await editor.fill('a: [');
    await test(page, 'yaml-fault').waitFor();
    await picture(page, 'wizard-6-yaml');
    await editor.fill(text.replace('name: vg1', 'name: Not_A_Name'));
    await test(page, 'own-problems').waitFor();
    await page.getByRole('button', { name: 'Go to deviceClasses[0].name' }).first().click();
    await at(page, 'class');
    assert.equal(await page.getByRole('textbox', { name: 'Name', exact: true }).inputValue(), 'Not_A_Name');
    assert.equal(await page.getByRole('textbox', { name: 'Name', exact: true }).getAttribute('aria-invalid'), 'true');
    await close(page);
  });

  it('destroys nothing that nobody confirmed, and forgets the consent when the disks change', async () => {
    await discovered();
    const page = await open(browser, create);
    await at(page, 'start');
    await next(page);
    await next(page);
    await at(page, 'devices');
    await page.getByLabel('Select /dev/disk/by-id/wwn-0x5000c50003 on node node-a').check();
    await page.getByLabel('Select /dev/disk/by-id/wwn-0x5000c50001 on node node-a').check();
    await next(page);
    await next(page);
    await at(page, 'protection');
    await page.getByText('xfs “old-data”').waitFor();
    await next(page);
    await says(test(page, 'why-not'), /confirm that it will be destroyed/);
    await page.locator('[id="protection.confirm"]').fill('vg');
    assert.equal(await test(page, 'confirmed').count(), 0);
    await page.locator('[id="protection.confirm"]').fill('vg1');
    await test(page, 'confirmed').waitFor();
    await accessible(page);
    await picture(page, 'wizard-5-protection');

    // Something else is on the disk now than what was consented to.
    await tell('node-a', [system('sda', '00'), blank('sdb', '01'), { ...carrying('sdd', '03', 'crypto_LUKS', 'secret'), fingerprint: 'other' }]);
    await page.getByText('crypto_LUKS “secret”').waitFor();
    await test(page, 'confirmed').waitFor({ state: 'detached' });
    await page.locator('[id="protection.confirm"]').fill('');
    await page.locator('[id="protection.confirm"]').fill('vg1');
    await test(page, 'confirmed').waitFor();
    await next(page);
    await at(page, 'review');
    await test(page, 'warnings').waitFor();
    await says(test(page, 'warnings'), /will be destroyed/);
    await next(page);
    await test(page, 'progress').waitFor();
    const [made] = await clusters();
    assert.deepEqual(made?.spec?.storage?.deviceClasses?.[0]?.deviceSelectors, [
      { optionalPaths: ['/dev/disk/by-id/wwn-0x5000c50001'] },
      { optionalPaths: ['/dev/disk/by-id/wwn-0x5000c50003'], forceWipeDevicesAndDestroyAllData: true },
    ]);
    await close(page);
  });

  it('destroys a volume group of an earlier installation, with all of its disks, after a confirmation', async () => {
    await discovered();
    const uuid = 'qJ2hQx-7XhG-8cRk-1Zl5-vC3p-Yt0N-w4uEbS';
    await tell('node-a', [system('sda', '00'), blank('sdb', '01'), grouped('sdf', '05', 'data', uuid), grouped('sdg', '06', 'data', uuid)]);
    const page = await open(browser, create);
    await at(page, 'start');
    await next(page);
    await next(page);
    await at(page, 'devices');
    await page.getByText('In volume group data, which no device class uses').first().waitFor();
    await page.getByLabel('Select /dev/disk/by-id/wwn-0x5000c50001 on node node-a').check();
    await page.getByLabel('Select /dev/disk/by-id/wwn-0x5000c50005 on node node-a').check();
    await says(test(page, 'ticked'), /^3 /);
    await accessible(page);
    await picture(page, 'wizard-3-devices-group');
    await next(page);
    await next(page);
    await at(page, 'protection');
    await says(test(page, 'groups'), /Volume groups to destroy: data/);
    await fits(page, 'wizard-protection-group');
    await page.locator('[id="protection.confirm"]').fill('vg1');
    await test(page, 'confirmed').waitFor();
    await accessible(page);
    await picture(page, 'wizard-5-protection-group');
    await next(page);
    await at(page, 'review');
    await test(page, 'warnings').waitFor();
    await says(test(page, 'warnings'), new RegExp(`${uuid}|data`));
    await next(page);
    await test(page, 'progress').waitFor();
    const [made] = await clusters();
    assert.deepEqual(made?.spec?.storage?.deviceClasses?.[0]?.deviceSelectors, [
      { optionalPaths: ['/dev/disk/by-id/wwn-0x5000c50001'] },
      { optionalPaths: ['/dev/disk/by-id/wwn-0x5000c50005', '/dev/disk/by-id/wwn-0x5000c50006'], wipeVolumeGroups: [uuid] },
    ]);
    await close(page);
  });

  it('adopts a volume group of an earlier installation with its data, and uses one of an administrator as it is', async () => {
    await discovered();
    const uuid = 'qJ2hQx-7XhG-8cRk-1Zl5-vC3p-Yt0N-w4uEbS';
    await tell('node-a', [system('sda', '00'), blank('sdb', '01'), grouped('sdf', '05', 'old', uuid), grouped('sdg', '06', 'old', uuid), administered('sdh', '07', 'data', 'W1xYzA-2bCd-3eFg-4hIj-5kLm-6nOp-7qRsTu')]);
    const page = await open(browser, create);
    await at(page, 'start');
    await next(page);
    await next(page);
    await at(page, 'devices');
    await says(test(page, 'adopt'), /Only volume groups that LVM Storage created can be adopted/);
    assert.equal(await page.getByLabel('Adopt volume group data of node node-a').count(), 0, 'a volume group of an administrator can be adopted');
    await page.getByLabel('Adopt volume group old of node node-a').check();
    await page.getByText('In volume group old, which is adopted with its data').first().waitFor();
    await says(test(page, 'ticked'), /^2 /);
    await accessible(page);
    await fits(page, 'wizard-devices-adopt');
    await picture(page, 'wizard-3-devices-adopt');
    await next(page);
    await at(page, 'class');
    await says(test(page, 'adopt-settings'), /renamed to vg1/);
    await next(page);
    await at(page, 'protection');
    await test(page, 'nothing-destroyed').waitFor();
    await next(page);
    await at(page, 'review');
    await page.locator('[data-test=dry-run][data-state=accepted]').waitFor();
    assert.deepEqual(await test(page, 'warnings').allTextContents(), [], 'the API server warns of disks that are adopted');
    await picture(page, 'wizard-6-review-adopt');

    // The same draft, with the other volume group instead.
    await page.getByRole('button', { name: 'Edit: Disks' }).click();
    await at(page, 'devices');
    await page.getByLabel('An existing volume group').check();
    await page.getByRole('button', { name: 'Select volume group data' }).click();
    await says(test(page, 'nodes-without-group'), /node-b: create the volume group there/);
    await accessible(page);
    await fits(page, 'wizard-devices-existing');
    await picture(page, 'wizard-3-devices-existing');
    await next(page);
    await at(page, 'class');
    await page.getByLabel('Thick', { exact: true }).check();
    await page.getByRole('button', { name: 'Increase: Space to keep free (GiB)' }).click();
    await page.getByLabel('Options of lvcreate for new volumes').fill('--type=raid1 --mirrors=1');
    await accessible(page);
    await picture(page, 'wizard-4-class-existing');
    await next(page);
    await at(page, 'protection');
    await next(page);
    await at(page, 'review');
    await page.locator('[data-test=dry-run][data-state=accepted]').waitFor();
    await next(page);
    await test(page, 'progress').waitFor();
    const [made] = await clusters();
    assert.deepEqual(made?.spec?.storage?.deviceClasses?.[0], {
      name: 'vg1', default: true, fstype: 'xfs', existingVolumeGroup: 'data', existingVolumeGroupConfig: { spareGiB: 1, lvcreateOptions: ['--type=raid1', '--mirrors=1'] },
    });
    await close(page);
  });

  it('saves a device class that adopts a volume group', async () => {
    await discovered();
    const uuid = 'qJ2hQx-7XhG-8cRk-1Zl5-vC3p-Yt0N-w4uEbS';
    await tell('node-a', [system('sda', '00'), grouped('sdf', '05', 'old', uuid)]);
    const page = await open(browser, create);
    await at(page, 'start');
    await next(page);
    await next(page);
    await at(page, 'devices');
    await page.getByLabel('Adopt volume group old of node node-a').check();
    for (const step of ['class', 'protection', 'review']) {
      await next(page);
      await at(page, step);
    }
    await page.locator('[data-test=dry-run][data-state=accepted]').waitFor();
    await next(page);
    await test(page, 'progress').waitFor();
    const [made] = await clusters();
    const [c] = made?.spec?.storage?.deviceClasses ?? [];
    assert.deepEqual(c?.adopt, [{ node: 'node-a', volumeGroupUUID: uuid }]);
    assert.deepEqual(c?.deviceSelector, { optionalPaths: ['/dev/disk/by-id/wwn-0x5000c50005'] });
    await close(page);
  });

  for (const language of ['en', 'es', 'fr', 'ja', 'ko', 'zh'])
    it(`its tables fit in each step, from 1280 px on (${language})`, async () => {
      await discovered();
      await tell('node-a', [system('sda', '00'), blank('sdb', '01'), carrying('sdd', '03'), mounted('sde', '04'), grouped('sdf', '05', 'old', 'qJ2hQx-7XhG-8cRk-1Zl5-vC3p-Yt0N-w4uEbS'), administered('sdh', '07', 'data', 'W1xYzA-2bCd-3eFg-4hIj-5kLm-6nOp-7qRsTu')]);
      const page = await open(browser, create, { language });
      await at(page, 'start');
      await fits(page, `wizard-start-${language}`);
      await next(page);
      await at(page, 'nodes');
      await fits(page, `wizard-nodes-${language}`);
      await next(page);
      await at(page, 'devices');
      for (const way of ['rules', 'all', 'group', 'paths']) {
        await page.locator(`[id$="deviceSelector-${way}"]`).check();
        await fits(page, `wizard-devices-${way}-${language}`);
      }
      await page.locator('[id="tick-node-a-/dev/sdb"]').check();
      await page.locator('[id="tick-node-a-/dev/sdd"]').check();
      await next(page);
      await at(page, 'class');
      await fits(page, `wizard-class-${language}`);
      await next(page);
      await at(page, 'protection');
      await fits(page, `wizard-protection-${language}`);
      await page.locator('[id="protection.confirm"]').fill('vg1');
      await next(page);
      await at(page, 'review');
      await page.locator('[data-test=dry-run][data-state=accepted]').waitFor();
      await fits(page, `wizard-review-${language}`);
      await next(page);
      await test(page, 'progress').waitFor();
      await tell('node-a', [], [{ name: 'vg1', status: 'Failed', reason: 'lvcreate: no space' }]);
      await page.getByText('lvcreate: no space').waitFor();
      await fits(page, `wizard-progress-${language}`);
      await close(page);
    });

  it('edits: what cannot be changed says why, and what can is saved', async () => {
    await discovered();
    const spec = { storage: { deviceClasses: [{ name: 'vg1', default: true, deviceSelector: { optionalPaths: ['/dev/disk/by-id/wwn-0x5000c50001'] }, thinPoolConfig: { name: 'pool', overprovisionRatio: 10 } }] } };
    await request('PATCH', `${paths.clusters}/my-lvmcluster`, { spec }, 'application/merge-patch+json');
    const page = await open(browser, '/local-volumes/edit');
    await at(page, 'start');
    await picture(page, 'edit-1-start');
    await next(page);
    await next(page);
    await next(page);
    await at(page, 'class');
    assert.equal(await page.getByRole('textbox', { name: 'Name', exact: true }).getAttribute('readonly'), '');
    await page.getByText('The name is immutable, because the volume groups and the StorageClass already use it').waitFor();
    assert.ok(await page.getByRole('radio', { name: 'Thick' }).isDisabled());
    await accessible(page);
    await picture(page, 'edit-4-class');
    await page.locator('[id="spec.storage.deviceClasses[0].thinPoolConfig.overprovisionRatio"]').fill('5');
    await next(page);
    await next(page);
    await at(page, 'review');
    await page.locator('[data-test=dry-run][data-state=accepted]').waitFor();
    // The operator writes its status all the time: that is no conflict.
    await judge('my-lvmcluster', 'Progressing', '0/2');
    await next(page);
    await test(page, 'progress').waitFor();
    const [saved] = await clusters();
    assert.equal(saved?.spec?.storage?.deviceClasses?.[0]?.thinPoolConfig?.overprovisionRatio, 5);
    assert.equal(saved?.spec?.storage?.deviceClasses?.[0]?.thinPoolConfig?.sizePercent, 90);
    await close(page);
  });

  it('does not overwrite what somebody else changed meanwhile', async () => {
    await discovered();
    const spec = { storage: { deviceClasses: [{ name: 'vg1', deviceSelector: { optionalPaths: ['/dev/disk/by-id/wwn-0x5000c50001'] } }] } };
    await request('PATCH', `${paths.clusters}/my-lvmcluster`, { spec }, 'application/merge-patch+json');
    const page = await open(browser, '/local-volumes/edit');
    await at(page, 'start');
    spec.storage.deviceClasses[0]?.deviceSelector.optionalPaths.push('/dev/disk/by-id/wwn-0x5000c50002');
    await request('PATCH', `${paths.clusters}/my-lvmcluster`, { spec }, 'application/merge-patch+json');
    await test(page, 'conflict').waitFor();
    await toReview(page);
    await next(page);
    await says(test(page, 'why-not'), /has been updated/);
    assert.equal((await clusters())[0]?.spec?.storage?.deviceClasses?.[0]?.deviceSelector?.optionalPaths?.length, 2);
    await close(page);
  });

  it('lets a user without permissions look, and says which right is missing', async () => {
    await discovered();
    const page = await open(browser, create, { as: 'viewer', expect: /403/ });
    await at(page, 'start');
    await page.getByText(/you lack permission to create/).waitFor();
    await next(page);
    await next(page);
    await test(page, 'tick-all').click();
    await next(page);
    await next(page);
    await next(page);
    await at(page, 'review');
    await test(page, 'refused').waitFor();
    await next(page);
    await says(test(page, 'why-not'), /You lack permission/);
    await picture(page, 'wizard-viewer');
    await close(page);
  });
});
