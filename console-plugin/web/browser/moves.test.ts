import assert from 'node:assert/strict';
import { after, before, beforeEach, describe, it } from 'node:test';
import type { Browser } from 'playwright-core';
import type { Node, NodeStatus, VGStatus, VolumeMove } from '../src/api/types';
import { clean, judge, makeClaim, makeMove, makeNode, makeVolume, member, moved, namespace, paths, physicalVolume, request, tell } from './kube';
import { accessible, close, fits, launch, onPhone, open, seen, test, until } from './page';

const GiB = 2 ** 30;
const moves = async () => (await request<{ items: VolumeMove[] }>('GET', paths.moves)).items;

const thickGroup = (free: number): VGStatus => ({ name: 'thick', status: 'Ready', size: String(100 * GiB), free: String(free * GiB), devices: ['/dev/sdc'], physicalVolumes: [physicalVolume('sdc', 'a2')] });

function group(free: number): VGStatus {
  const pool = { name: 'thin-pool-1', size: String(100 * GiB), metadataSize: String(GiB), dataPercent: 10, metadataPercent: 3, virtualSize: String(300 * GiB), free: String(free * GiB) };
  return { name: 'vg1', status: 'Ready', size: String(200 * GiB), free: String(80 * GiB), devices: ['/dev/sdb'], physicalVolumes: [physicalVolume('sdb', 'a1')], thinPool: pool };
}

async function storage(): Promise<void> {
  for (const [node, free] of [['node-a', 20], ['node-b', 50], ['node-c', 15]] as const) {
    await makeNode(node);
    await tell(node, [member('sdb', 'a1'), member('sdc', 'a2', { volumeGroup: 'thick' })], [group(free), thickGroup(free)]);
  }
  const classes = [{ name: 'vg1', default: true, thinPoolConfig: { name: 'thin-pool-1', overprovisionRatio: 10 }, deviceSelector: { paths: ['/dev/sdb'] } }, { name: 'thick', deviceSelector: { paths: ['/dev/sdc'] } }];
  await request('POST', paths.clusters, { apiVersion: 'lvm.topolvm.io/v1alpha1', kind: 'LVMCluster', metadata: { name: 'my-lvmcluster', namespace }, spec: { storage: { deviceClasses: classes } } });
  await judge('my-lvmcluster', 'Ready', '3/3');
}

const copying = { phase: 'Copying', message: 'round 1: node node-b copies from node node-a', sourceNode: 'node-a', targetNode: 'node-b', deviceClass: 'vg1', persistentVolume: 'pvc-1', round: 1, copiedBytes: 5 * GiB, totalBytes: 20 * GiB } as const;
const waiting = { ...copying, phase: 'WaitingForPods' as const, message: 'ends when no Pod uses the volume: default/web-0, default/web-1, default/batch', round: 3, copiedBytes: 20 * GiB, lastDeltaBytes: 2 ** 20, lastDeltaSeconds: 2, pods: ['default/web-0', 'default/web-1', 'default/batch'], podCount: 3 } satisfies VolumeMove['status'];
const kept = { phase: 'KeepingSource', message: 'the volume is on node node-b; the old logical volume on node node-a is kept until 2026-11-28T08:00:00Z', sourceNode: 'node-a', targetNode: 'node-b', switchTime: '2026-11-27T08:00:00Z', sourceRemovalTime: '2026-11-28T08:00:00Z' } as const;

async function several(): Promise<void> {
  await makeMove('default-data-x7k2p', 'default/data', copying, 'node-b');
  await makeMove('default-web-4mwzq', 'default/web', waiting);
  await makeMove('default-logs-9zzzz', 'default/logs', { phase: 'Pending', message: 'other moves of nodes node-a and node-c are copied first', sourceNode: 'node-a', queuePosition: 2 });
  await makeMove('default-photos-k4k4k', 'default/photos', kept);
  await makeMove('default-old-abcde', 'default/old', { phase: 'Failed', message: 'snapshot move-7e1f2a3b-1, which the next round needs, was deleted: create the VolumeMove again', sourceNode: 'node-a' });
}

describe('moves of volumes', () => {
  let browser: Browser;
  before(async () => void (browser = await launch()));
  after(() => browser.close());
  beforeEach(clean);

  it('the overview lists them, with progress and the Pods that they wait for, and follows', async () => {
    await storage();
    await several();
    const page = await open(browser, '/local-volumes');
    const card = test(page, 'moves');
    await card.getByText('5 GiB of 20 GiB').waitFor();
    await card.getByText('25%').waitFor();
    await card.getByText('Position 2 in the queue').waitFor();
    assert.equal(await card.getByRole('link', { name: 'default/web-0' }).getAttribute('href'), '/k8s/ns/default/pods/web-0');
    assert.deepEqual(await card.locator('[data-test=move]').allTextContents(), ['default-web-4mwzq', ...['default-data-x7k2p', 'default-logs-9zzzz', 'default-photos-k4k4k'], 'default-old-abcde']);
    await moved('default-data-x7k2p', { ...copying, copiedBytes: 10 * GiB });
    await card.getByText('10 GiB of 20 GiB').waitFor();
    await accessible(page);
    await card.scrollIntoViewIfNeeded();
    await seen(page, 'moves');
    await card.getByRole('link', { name: 'default-web-4mwzq' }).click();
    await page.getByRole('heading', { name: 'Move default-web-4mwzq' }).waitFor();
    await close(page);
  });

  for (const language of ['en', 'es', 'fr', 'ja', 'ko', 'zh'])
    it(`the list fits, from 1280 px on (${language})`, async () => {
      await storage();
      await several();
      const page = await open(browser, '/local-volumes', { language });
      await test(page, 'moves').getByText('default-web-4mwzq').waitFor();
      await fits(page, `moves-${language}`, '[data-test=moves]');
      await close(page);
    });

  it('a move has a page with its details, on which it is undone until the switch', async () => {
    await storage();
    await makeMove('default-web-4mwzq', 'default/web', waiting);
    const page = await open(browser, '/local-volumes/move/default-web-4mwzq');
    await test(page, 'message').getByText(/End the Pods, so that they start on the target node/).waitFor();
    assert.equal(await test(page, 'pods').getByRole('link').count(), 3);
    await test(page, 'facts').getByText('1 MiB in 2 sec').waitFor();
    await accessible(page);
    await seen(page, 'move');
    await onPhone(page, 'move', 'facts');
    await test(page, 'undo').click();
    await test(page, 'effect').getByText('The copy is deleted, and the volume stays on node node-a.').waitFor();
    await accessible(page);
    await seen(page, 'undo-move');
    // The phase changes while the dialog is open: the old consequence is not confirmed.
    await moved('default-web-4mwzq', kept);
    await test(page, 'obstacle').getByText(/phase of the move has changed/).waitFor();
    assert.ok(await test(page, 'apply').isDisabled());
    await test(page, 'show-new').click();
    await test(page, 'effect').getByText('The volume stays on node node-b.').waitFor();
    await test(page, 'effect').getByText('The old logical volume on node node-a is removed as soon as the volume on node node-b is known to be good, and is erased like a deleted volume.').waitFor();
    assert.equal((await moves()).length, 1, 'it was deleted before the button was pressed');
    await test(page, 'apply').click();
    await page.getByRole('heading', { name: 'Local volumes' }).waitFor();
    assert.deepEqual(await moves(), []);
    await close(page);
    const gone = await open(browser, '/local-volumes/move/default-web-4mwzq');
    await test(gone, 'no-move').waitFor();
    await close(gone);
  });

  it('a claim moves its volume, shows the move, and undoes it', async () => {
    await storage();
    await makeVolume('pvc-1', { size: '20Gi' }, 'default/data');
    await makeVolume('pvc-2', { deviceClass: 'thick' }, 'default/thick');
    await makeClaim('data', 'pvc-1');
    await makeClaim('thick', 'pvc-2');
    const thick = await open(browser, '/k8s/ns/default/persistentvolumeclaims/thick/logical-volume');
    await test(thick, 'move-volume').click();
    await test(thick, 'effect').getByText(/^The volume is thick: it is copied to another node only while no Pod uses it, and its Pods cannot start for about .* at 100 MiB for each second\. Then it is switched\./).waitFor();
    await thick.getByLabel('To node').getByText('node-b (50 GiB free)').waitFor({ state: 'attached' });
    assert.equal(await thick.getByLabel('Maximum pause').count(), 0);
    await accessible(thick);
    await seen(thick, 'move-thick');
    await test(thick, 'apply').click();
    await test(thick, 'dialog').waitFor({ state: 'detached' });
    const [other] = await moves();
    const name = other?.metadata.name ?? '';
    assert.deepEqual([other?.spec.claim, other?.spec.nodeName], [{ namespace: 'default', name: 'thick' }, undefined]);
    await moved(name, { ...copying, deviceClass: 'thick', thick: true, message: 'node node-b copies the volume from node node-a' });
    await test(thick, 'claim-move').getByRole('link', { name: `Show move ${name}` }).click();
    await test(thick, 'message').getByText('The data is being copied, and no Pod can use the volume until it is switched').waitFor();
    await test(thick, 'facts').getByText('25%').waitFor();
    assert.deepEqual(await Promise.all(['Round', 'Maximum pause'].map((term) => test(thick, 'facts').getByText(term, { exact: true }).count())), [0, 0]);
    await accessible(thick);
    await seen(thick, 'thick-move');
    await test(thick, 'undo').click();
    await test(thick, 'effect').getByText('The volume is opened at once, and the copy is discarded.').waitFor();
    await test(thick, 'dialog').getByRole('button', { name: 'Close', exact: true }).last().click();
    await moved(name, { ...waiting, deviceClass: 'thick', thick: true, round: 0, copiedBytes: 0, totalBytes: 0 });
    await test(thick, 'message').getByText('A thick volume is copied and switched only while no Pod uses it. End the Pods').waitFor();
    assert.equal(await test(thick, 'pods').getByRole('link').count(), 3);
    await test(thick, 'undo').click();
    await test(thick, 'apply').click();
    await thick.getByRole('heading', { name: 'Local volumes' }).waitFor();
    assert.deepEqual(await moves(), []);
    await close(thick);

    const page = await open(browser, '/k8s/ns/default/persistentvolumeclaims/data/logical-volume');
    await test(page, 'move-volume').click();
    const select = page.getByLabel('To node');
    await select.getByText('node-b (50 GiB free)').waitFor({ state: 'attached' });
    assert.deepEqual(await select.locator('option').allTextContents(), ['Any node', 'node-b (50 GiB free)', 'node-c (15 GiB free)']);
    await select.selectOption('node-c');
    await test(page, 'small').getByText(/less free capacity than the volume needs/).waitFor();
    await accessible(page);
    await seen(page, 'move-volume');
    await select.selectOption('node-b');
    await page.getByLabel('Maximum pause').fill('soon');
    await test(page, 'apply').click();
    await test(page, 'why-not').getByText(/between 1s and 24h/).waitFor();
    await page.getByLabel('Maximum pause').fill('1m');
    assert.deepEqual(await moves(), []);
    await test(page, 'apply').click();
    await test(page, 'dialog').waitFor({ state: 'detached' });
    const [move] = await moves();
    assert.match(move?.metadata.name ?? '', /^default-data-/);
    assert.deepEqual(move?.spec, { claim: { namespace: 'default', name: 'data' }, nodeName: 'node-b', maxPause: '1m', keepSource: '24h' });
    await moved(move?.metadata.name ?? '', waiting);
    const shown = test(page, 'claim-move');
    await shown.getByText('The volume is being moved to node node-b').waitFor();
    await shown.getByRole('link', { name: 'default/web-1' }).waitFor();
    await page.locator('[data-test=move-volume][aria-disabled=true]').waitFor();
    await accessible(page);
    await seen(page, 'claim-move');
    await onPhone(page, 'claim-move', 'claim-tab');
    await test(page, 'undo').click();
    await test(page, 'apply').click();
    await test(page, 'claim-move').waitFor({ state: 'detached' });
    assert.deepEqual(await moves(), []);
    await close(page);
  });

  it('a node is evacuated after its plan was shown, and the next step is named', async () => {
    await storage();
    await makeVolume('pvc-1', { size: '8Gi' }, 'default/data');
    await makeVolume('pvc-2', { size: '12Gi' }, 'default/more');
    await makeVolume('pvc-3', { size: '60Gi' }, 'default/large');
    await makeVolume('pvc-4', { size: '40Gi', deviceClass: 'thick' }, 'default/thick');
    await makeVolume('pvc-7', { size: '20Gi', deviceClass: 'thick' }, 'default/waits');
    await makeVolume('pvc-6', { size: '60Gi', deviceClass: 'thick' }, 'default/vast');
    await makeVolume('pvc-5', { size: '1Gi' }, 'default/running');
    await makeVolume('snapshot-1', { size: '1Gi', source: 'pvc-1', accessType: 'ro' }, 'default/nightly');
    await makeVolume('pvc-9', { nodeName: 'node-b' }, 'default/elsewhere');
    await makeMove('default-running-x', 'default/running', copying);
    const page = await open(browser, '/k8s/cluster/nodes/node-a/local-disks');
    await test(page, 'moves').getByText('default-running-x').waitFor();
    await test(page, 'evacuate').click();
    const plan = test(page, 'plan');
    await plan.getByText('Node node-a: 3 volumes can be moved, 60 GiB.').waitFor();
    await plan.getByText('The other nodes have 65 GiB free in device class vg1.').waitFor();
    await plan.getByText('The other nodes have 65 GiB free in device class thick.').waitFor();
    await plan.getByText('Device class thick: 1 move stays Pending, because no other node has enough free capacity left.').waitFor();
    await test(page, 'dialog').getByText('it has 20 GiB, and the moves above leave at most 15 GiB free on a node').waitFor();
    await plan.getByText('The thin ones have at most 10 GiB of data. At 100 MiB for each second, their copies take at most about 1 min 42 sec.').waitFor();
    await plan.getByText('Thick volumes are copied while their Pods are stopped, two at once; the others wait.').waitFor();
    await test(page, 'dialog').getByText('thick, 40 GiB, its Pods cannot start for about 13 min 40 sec at 100 MiB for each second').waitFor();
    await page.getByLabel(/^Rate/).fill('200Mi');
    await plan.getByText(/at most about 51 sec/).waitFor();
    const dialog = test(page, 'dialog');
    await dialog.getByText('it has 60 GiB, and the other nodes have at most 50 GiB free in device class vg1').waitFor();
    await dialog.getByText('it has 60 GiB, and the other nodes have at most 50 GiB free in device class thick').waitFor();
    await dialog.getByText('it is a snapshot: snapshots stay on their node').waitFor();
    await dialog.getByText('Moves already').waitFor();
    assert.deepEqual([await dialog.getByRole('link', { name: 'default/large' }).count(), await dialog.getByRole('link', { name: 'default/nightly' }).count()], [1, 0], 'a snapshot is no claim');
    await test(page, 'stays').getByText('3 volumes of node node-a cannot be moved.').waitFor();
    await accessible(page);
    await seen(page, 'evacuate');
    assert.equal((await moves()).length, 1, 'moves were created before the button was pressed');
    await test(page, 'apply').click();
    await test(page, 'created').getByText('4 VolumeMoves were created.').waitFor();
    await test(page, 'next-step').getByText('kubectl drain node-a --ignore-daemonsets --delete-emptydir-data').waitFor();
    await accessible(page);
    await seen(page, 'evacuated');
    assert.deepEqual((await moves()).map((m) => m.spec.claim.name).sort(), ['data', 'more', 'running', 'thick', 'waits']);
    await dialog.getByRole('button', { name: 'Close', exact: true }).last().click();
    // A second time, nothing is left to do.
    await test(page, 'evacuate').click();
    await test(page, 'plan').getByText('Node node-a: no volumes can be moved.').waitFor();
    assert.ok(await test(page, 'apply').isDisabled());
    await close(page);
    const unchanged = await request<Node>('GET', `${paths.nodes}/node-a`);
    assert.equal(unchanged.spec?.unschedulable, undefined, 'the node was cordoned');
  });

  for (const language of ['es', 'ja'])
    it(`the plan of an evacuation fits (${language})`, async () => {
      await storage();
      await makeVolume('pvc-1', { size: '8Gi' }, 'default/data');
      await makeVolume('pvc-3', { size: '60Gi' }, 'default/large');
      await makeVolume('pvc-4', { size: '40Gi', deviceClass: 'thick' }, 'default/thick');
      await makeVolume('pvc-7', { size: '20Gi', deviceClass: 'thick' }, 'default/waits');
      const page = await open(browser, '/k8s/cluster/nodes/node-a/local-disks', { language });
      await test(page, 'evacuate').click();
      await test(page, 'plan').waitFor();
      await fits(page, `evacuate-${language}`, '[data-test=dialog]');
      await close(page);
    });

  it('what a move created is not shown as volumes or snapshots of the claim', async () => {
    await storage();
    await makeVolume('pvc-1', { size: '8Gi' }, 'default/data');
    await makeClaim('data', 'pvc-1');
    const made = { 'lvm.topolvm.io/move': 'u1' };
    await makeVolume('move-1-round-1', { size: '8Gi', source: 'pvc-1', accessType: 'ro' }, 'default/data', made);
    await makeVolume('move-1-old', { size: '8Gi', source: 'retired' }, undefined, { ...made, 'lvm.topolvm.io/claim': 'default/data' });
    const page = await open(browser, '/local-volumes/class/vg1');
    const volumes = test(page, 'volumes');
    await test(page, 'expand-all').click();
    await until('the notes', () => volumes.getByText('Part of the move of default/data').count(), 2);
    assert.equal(await test(page, 'suspend-volume').count(), 1, 'only the volume of the claim can be suspended');
    await accessible(page);
    await close(page);
    const claim = await open(browser, '/k8s/ns/default/persistentvolumeclaims/data/logical-volume');
    await test(claim, 'snapshots').getByText('This volume has no snapshots or clones.').waitFor();
    await close(claim);
  });

  it('a user who lacks the permission sees the moves, and why nothing can be done', async () => {
    await storage();
    await makeVolume('pvc-1', { size: '20Gi' }, 'default/data');
    await makeClaim('data', 'pvc-1');
    await makeMove('default-data-x7k2p', 'default/data', waiting);
    const options = { as: 'viewer', expect: /403/ };
    const node = await open(browser, '/k8s/cluster/nodes/node-a/local-disks', options);
    await test(node, 'moves').getByText('default-data-x7k2p').waitFor();
    await test(node, 'moves').getByText(/You lack permission to create volumemoves/).waitFor();
    await test(node, 'evacuate').click({ force: true });
    assert.equal(await test(node, 'dialog').count(), 0);
    await accessible(node);
    await close(node);
    const claim = await open(browser, '/k8s/ns/default/persistentvolumeclaims/data/logical-volume', options);
    await test(claim, 'claim-move').getByText(/You lack permission to delete volumemoves/).waitFor();
    await test(claim, 'no-move').getByText(/You lack permission to create volumemoves/).waitFor();
    await test(claim, 'undo').click({ force: true });
    await test(claim, 'move-volume').click({ force: true });
    assert.equal(await test(claim, 'dialog').count(), 0);
    await close(claim);
    const page = await open(browser, '/local-volumes/move/default-data-x7k2p', options);
    await page.getByText(/You lack permission to delete volumemoves/).waitFor();
    await test(page, 'undo').click({ force: true });
    assert.equal(await test(page, 'dialog').count(), 0);
    await close(page);
    assert.equal((await moves()).length, 1);
  });

  it('a list that cannot be read is not empty', async () => {
    await storage();
    await request<NodeStatus>('GET', `${paths.statuses}/node-a`);
    const page = await open(browser, '/k8s/cluster/nodes/node-a/local-disks', { expect: /403|Failed to load/ });
    await page.route(/volumemoves/, (route) => route.fulfill({ status: 403, contentType: 'application/json', body: JSON.stringify({ kind: 'Status', status: 'Failure', code: 403, message: 'volumemoves is forbidden' }) }));
    await page.reload();
    await test(page, 'moves').getByText(/volumemoves is forbidden/).waitFor();
    await until('the empty text', () => test(page, 'moves').getByText('There are no moves.').count(), 0);
    await test(page, 'evacuate').click();
    await test(page, 'dialog').getByText(/volumemoves is forbidden/).waitFor();
    assert.equal(await test(page, 'apply').count(), 0);
    await close(page);
  });
});
