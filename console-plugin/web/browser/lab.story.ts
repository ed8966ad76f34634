// One run over a lab's real cluster, with real node agents and disks, without YAML: from nothing to a claim that is bound; then its devices are
// managed while a Pod writes to it. npm run story, through the bridge with --lab; the operator has to be installed there, no LVMCluster, and
// one node needs three blank disks of one size.
import assert from 'node:assert/strict';
import { after, before, it } from 'node:test';
import type { Browser, Page } from 'playwright-core';
import type { Device, LVMCluster, NodeStatus, PhysicalVolumeStatus, VGStatus } from '../src/api/types';
import { bytesOf } from '../src/model/quantity';
import { preview } from '../src/model/capacity';
import { stablePath } from '../src/model/devices';
import { paths, read, request } from './kube';
import { accessible, close, launch, open, picture, test } from './page';

let browser: Browser;
before(async () => void (browser = await launch()));
after(() => browser.close());

const namespace = '/api/kubernetes/api/v1/namespaces/default';
const claim = 'from-the-wizard';
/** What the lab has for Pods. */
const image = 'registry.lab:5000/busybox:1';
/** A lab has no Prometheus, which the pages say; its watches end with it. */
const expected = /404|502|WebSocket/;

/** Asks once a second until there is an answer. */
async function until<T>(what: string, seconds: number, ask: () => Promise<T | undefined>): Promise<T> {
  const begun = Date.now();
  for (;;) {
    const answer = await ask();
    if (answer !== undefined) {
      console.log(`${what}: ${((Date.now() - begun) / 1000).toFixed(1)} s`);
      return answer;
    }
    assert.ok(Date.now() - begun < seconds * 1000, `not after ${seconds} s: ${what}`);
    await new Promise((done) => setTimeout(done, 1000));
  }
}

const statuses = async () => (await request<{ items: NodeStatus[] }>('GET', paths.statuses)).items;
const deviceClass = async () => (await request<{ items: LVMCluster[] }>('GET', paths.clusters)).items[0]?.spec?.storage?.deviceClasses?.[0];

/** The node of the story, and three blank disks of one size that it has. */
interface Home {
  node: string;
  disks: [Device, Device, Device];
}
let home: Home | undefined;

function homeOf(list: NodeStatus[]): Home | undefined {
  for (const { metadata, status } of list) {
    const blank = (status?.devices ?? []).filter((d) => d.state === 'Available');
    const size = blank.find((d) => blank.filter((o) => o.size === d.size).length >= 3)?.size;
    const [a, b, c] = blank.filter((d) => d.size === size);
    if (a && b && c) return { node: metadata.name ?? '', disks: [a, b, c] };
  }
  return undefined;
}

async function groupOf(node: string): Promise<VGStatus | undefined> {
  const name = (await deviceClass())?.name;
  return (await statuses()).find((s) => s.metadata.name === node)?.status?.nodeStatus?.find((g) => g.name === name);
}
const used = (pv: PhysicalVolumeStatus): number => (bytesOf(pv.size) ?? 0) - (bytesOf(pv.free) ?? 0);
const onDisk = (group: VGStatus | undefined, d: Device) => group?.physicalVolumes?.find((pv) => pv.name === d.name);

it('makes storage of a blank disk, and a claim is bound', { timeout: 300_000 }, async () => {
  const page = await open(browser, '/local-volumes', { expect: expected });
  page.setDefaultTimeout(120_000);
  await test(page, 'discover').click();
  await test(page, 'devices').getByText('Available').first().waitFor();
  home = await until('a node lists three blank disks of one size', 60, async () => homeOf(await statuses()));
  await picture(page, 'lab-1-discovered');
  await test(page, 'edit').click();
  await test(page, 'step-start').waitFor();
  await test(page, 'next').click();
  await test(page, 'next').click();
  await tickDisk(page, home.disks[0], home.node);
  await picture(page, 'lab-2-devices');
  await test(page, 'next').click();
  await page.getByRole('radio', { name: /Immediate/ }).check();
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
  const c = await deviceClass();
  const group = await groupOf(home.node);
  const sizes = ((await statuses()).find((s) => s.metadata.name === home?.node)?.status?.devices ?? []).filter((d) => group?.devices?.includes(d.name)).map((d) => bytesOf(d.size) ?? 0);
  assert.ok(c && sizes.length === 1);
  const told = preview(c, sizes);
  assert.deepEqual([told.group, told.pool?.data, told.pool?.metadata], [group?.size, group?.thinPool?.size, group?.thinPool?.metadataSize].map(bytesOf));
  console.log(`group ${told.group}, pool ${told.pool?.data}, metadata ${told.pool?.metadata}: as told`);

  const spec = { storageClassName: `lvms-${c.name}`, accessModes: ['ReadWriteOnce'], resources: { requests: { storage: '1Gi' } } };
  await request('POST', `${namespace}/persistentvolumeclaims`, { apiVersion: 'v1', kind: 'PersistentVolumeClaim', metadata: { name: claim }, spec });
  await until('the claim is bound', 60, async () => ((await request<{ status: { phase: string } }>('GET', `${namespace}/persistentvolumeclaims/${claim}`)).status.phase === 'Bound' ? true : undefined));
  await page.getByText('Go to the overview').click();
  await page.getByText('Healthy').waitFor();
  await accessible(page);
  await picture(page, 'lab-4-overview');
  await close(page);
});

const tickDisk = (page: Page, d: Device, node: string) => page.getByLabel(`Select ${stablePath(d)} on node ${node}`, { exact: true }).check();

/** Writes until it is told to end, and keeps the sum of each file. At most 500 MiB. */
const writer = `trap 'exit 0' TERM; cd /data; head -c 67108864 /dev/urandom >first && sha256sum first >sums && sync && echo 0
i=0; while true; do if [ $i -lt 500 ]; then i=$((i+1)); head -c 1048576 /dev/urandom >n$i && sha256sum n$i >>sums && sync && echo $i; fi; sleep 1; done`;
const checker = 'cd /data && sha256sum -c sums && echo all $(wc -l <sums)';

async function run(name: string, command: string): Promise<void> {
  const container = { name: 'main', image, command: ['/bin/sh', '-c', command], volumeMounts: [{ name: 'data', mountPath: '/data' }] };
  const spec = { restartPolicy: 'Never', terminationGracePeriodSeconds: 30, containers: [container], volumes: [{ name: 'data', persistentVolumeClaim: { claimName: claim } }] };
  await request('POST', `${namespace}/pods`, { apiVersion: 'v1', kind: 'Pod', metadata: { name }, spec });
}

const phase = async (name: string) => (await request<{ status: { phase: string } }>('GET', `${namespace}/pods/${name}`)).status.phase;
const logOf = (name: string) => read('GET', `${namespace}/pods/${name}/log`);
/** How many files the writer has said to be on disk; fails where it no longer runs. */
async function written(): Promise<number> {
  const is = await phase('writer');
  assert.equal(is, 'Running', `the Pod that writes is ${is}: ${is === 'Pending' ? '' : await logOf('writer')}`);
  return (await logOf('writer')).trim().split('\n').length;
}

/** One of the things that can be done with a device, by its dialog on the page of the device class. */
async function change(page: Page, d: Device, node: string, radio: string, more: () => Promise<void> = () => Promise.resolve()): Promise<void> {
  await page.getByRole('button', { name: `Manage ${d.name} on node ${node}`, exact: true }).click();
  await page.getByRole('radio', { name: radio, exact: true }).check();
  await more();
  await confirm(page);
}

async function confirm(page: Page): Promise<void> {
  try {
    await page.locator('[data-test=dry-run][data-state=accepted]').waitFor();
  } catch {
    assert.fail(`the cluster does not accept it: ${await test(page, 'dialog').innerText()}`);
  }
  await test(page, 'apply').click();
  await test(page, 'dialog').waitFor({ state: 'detached' });
}

it('manages its devices while a Pod writes, and the content is the same', { timeout: 600_000 }, async () => {
  assert.ok(home, 'there is no storage: look at the first part');
  const { node, disks: [first, second, third] } = home;
  await run('writer', writer);
  await until('the Pod writes', 120, async () => ((await phase('writer')) === 'Pending' ? undefined : (await written()) > 1 || undefined));

  const page = await open(browser, '/local-volumes', { expect: expected });
  page.setDefaultTimeout(120_000);
  await page.getByRole('link', { name: /^Device class / }).click();

  // A device more.
  await test(page, 'add-devices').click();
  await test(page, 'step-devices').waitFor();
  await tickDisk(page, second, node);
  for (const step of ['class', 'protection', 'review']) {
    await test(page, 'next').click();
    await test(page, `step-${step}`).waitFor();
  }
  await page.locator('[data-test=dry-run][data-state=accepted]').waitFor();
  await test(page, 'next').click();
  await test(page, 'progress').waitFor();
  await until('the second disk is in the volume group', 120, async () => onDisk(await groupOf(node), second));

  // The first one is replaced by the third: what is on it is moved.
  const old = onDisk(await groupOf(node), first);
  const moved = old ? used(old) : 0;
  assert.ok(old && moved > 0, 'nothing is on the first disk');
  await page.getByText('Go to the overview').click();
  await page.getByRole('link', { name: /^Device class / }).click();
  const before = await written();
  await change(page, first, node, 'Replace', async () => {
    await page.locator(`[id="spare-${third.name}"]`).check();
    await page.getByRole('checkbox', { name: /remove its path/ }).check();
    await picture(page, 'lab-5-replace');
  });
  const seen = new Set<string>();
  const replaced = await until('the first disk has left, and the third is there', 240, async () => {
    const group = await groupOf(node);
    const pv = group?.physicalVolumes?.find((p) => p.uuid === old.uuid);
    if (pv) seen.add(`${pv.state} ${pv.movedPercent ?? ''}`.trim());
    assert.notEqual(pv?.state, 'Blocked', pv?.message);
    return group?.physicalVolumes && !pv && onDisk(group, third) ? group : undefined;
  });
  console.log(`the first disk was ${[...seen].join(', ')}`);
  const here = (replaced.physicalVolumes ?? []).reduce((n, pv) => n + used(pv), 0);
  assert.ok(here >= moved, `${moved} bytes were on the first disk, and all others have ${here}`);
  assert.ok((await written()) > before, 'the Pod wrote nothing meanwhile');
  await test(page, 'done-request').getByRole('button', { name: 'Remove request' }).click();
  await confirm(page);
  assert.equal((await deviceClass())?.deviceRequests, undefined);
  await picture(page, 'lab-6-replaced');

  // The pool takes 90 % of the volume group, so no device can be emptied: that is said before and after, nothing is moved, and it can be taken back.
  const [most] = [second, third].sort((a, b) => used(onDisk(replaced, b) as PhysicalVolumeStatus) - used(onDisk(replaced, a) as PhysicalVolumeStatus)) as [Device];
  const then = await written();
  await change(page, most, node, 'Drain', () => test(page, 'consequences').getByText(/free/).first().waitFor());
  const blocked = await until(`${most.name} cannot be emptied`, 120, async () => {
    const pv = onDisk(await groupOf(node), most);
    return pv?.state === 'Blocked' ? pv : undefined;
  });
  assert.match(blocked.message ?? '', /add a device to the device class/);
  await test(page, 'members').getByText('Blocked', { exact: true }).waitFor();
  assert.ok((await written()) > then, 'the Pod wrote nothing meanwhile');
  await picture(page, 'lab-7-blocked');
  await change(page, most, node, 'Remove request');
  const last = await until(`${most.name} is open again`, 120, async () => {
    const group = await groupOf(node);
    return onDisk(group, most)?.state === 'Ready' ? group : undefined;
  });
  assert.deepEqual((last.physicalVolumes ?? []).map((pv) => pv.name).sort(), [second.name, third.name].sort());

  // Another Pod mounts the volume again and reads it from the disk.
  const files = await written();
  await request('DELETE', `${namespace}/pods/writer`);
  await until('the Pod has ended', 90, () => phase('writer').then(() => undefined, (e: { status?: number }) => (e.status === 404 ? true : Promise.reject(e))));
  await run('checker', checker);
  const end = await until('the content is read', 120, async () => (await phase('checker').then((is) => (is === 'Succeeded' || is === 'Failed' ? is : undefined))));
  const log = await logOf('checker');
  assert.equal(end, 'Succeeded', log.split('\n').filter((l) => !l.endsWith(': OK')).join('\n'));
  const [, checked] = /all (\d+)/.exec(log) ?? [];
  assert.ok(Number(checked) >= files, `${checked} files are there, ${files} were written`);
  console.log(`${checked} files are as they were written`);
  await page.goto(new URL('/local-volumes', page.url()).href);
  await page.getByText('Healthy').waitFor();
  await picture(page, 'lab-8-overview');
  await close(page);
});
