import assert from 'node:assert/strict';
import { after, before, beforeEach, describe, it } from 'node:test';
import type { Browser, Page } from 'playwright-core';
import type { LogicalVolume, VGStatus } from '../src/api/types';
import { clean, judge, makeClaim, makeNode, makeVolume, member, namespace, paths, physicalVolume, request, scraped, tell, url } from './kube';
import { accessible, close, drawn, launch, open, says, test, until } from './page';

const GiB = 2 ** 30;
const MiB = 2 ** 20;

async function storage(thin = true): Promise<void> {
  await makeNode('node-a');
  const pool = { name: 'thin-pool-1', size: String(90 * GiB), metadataSize: String(GiB), dataPercent: 42, metadataPercent: 3, virtualSize: String(300 * GiB) };
  const group: VGStatus = { name: 'vg1', status: 'Ready', size: String(200 * GiB), free: String(8 * GiB), physicalVolumes: [physicalVolume('sdb', 'a1'), physicalVolume('sdc', 'a2')], ...(thin ? { thinPool: pool } : {}) };
  await tell('node-a', [member('sdb', 'a1'), member('sdc', 'a2')], [group]);
  const spec = { storage: { deviceClasses: [{ name: 'vg1', default: true, deviceSelector: { paths: ['/dev/sdb', '/dev/sdc'] }, ...(thin ? { thinPoolConfig: { name: 'thin-pool-1', overprovisionRatio: 10 } } : {}) }] } };
  await request('POST', paths.clusters, { apiVersion: 'lvm.topolvm.io/v1alpha1', kind: 'LVMCluster', metadata: { name: 'my-lvmcluster', namespace }, spec });
  await judge('my-lvmcluster', 'Ready', '1/1');
}

const uidOf = async (name: string): Promise<string> => (await request<LogicalVolume>('GET', `${paths.volumes}/${name}`)).metadata.uid ?? '';

/** The samples of the last minutes: value says what a series has so many minutes after the first one. */
const minutes = (series: string, value: (minute: number) => number | undefined): string[] =>
  Array.from({ length: 10 }, (_, i) => [value(i), Date.now() - (9 - i) * 60_000] as const).filter(([v]) => v !== undefined).map(([v, at]) => `${series} ${v} ${at}`);

/** Waits until Prometheus has the last sample of a series. */
async function collected(query: string): Promise<void> {
  const answer = `${url}/api/prometheus/api/v1/query?${new URLSearchParams({ query })}`;
  for (let i = 0; !(await (await fetch(answer)).text()).includes('"value"'); i++) {
    assert.ok(i < 120, `Prometheus has no ${query}`);
    await new Promise((done) => setTimeout(done, 500));
  }
}

const themes = ['', 'pf-v6-theme-dark', 'pf-v6-theme-high-contrast', 'pf-v6-theme-dark pf-v6-theme-high-contrast'];

/** One part of a page in every theme and size: accessible, not cut, and pictures to look at. */
async function everywhere(page: Page, part: string, name: string): Promise<void> {
  for (const [width, height] of [[390, 844], [1280, 1000], [2560, 1440]] as const) {
    await page.setViewportSize({ width, height });
    await until(`${part} at ${width} px is cut`, () => test(page, part).evaluate((e) => Math.max(0, e.scrollWidth - e.clientWidth)), 0);
    for (const theme of themes) {
      await page.evaluate((set) => (document.documentElement.className = set), theme);
      if (width === 1280) await accessible(page);
      await test(page, part).screenshot({ path: `screenshots/volumes-${name}-${width}${theme.replaceAll(/ ?pf-v6-theme/g, '')}.png`, animations: 'disabled' });
    }
  }
  await page.evaluate(() => (document.documentElement.className = ''));
  await page.setViewportSize({ width: 1500, height: 1000 });
}

describe('metrics of volumes', () => {
  let browser: Browser;
  before(async () => void (browser = await launch()));
  after(async () => {
    await scraped([]);
    await browser.close();
  });
  beforeEach(async () => {
    await clean();
    await scraped([]);
  });

  it('a device class has its I/O, with a gap in the latency if there is none', async () => {
    await storage();
    const of = (series: string, value: (minute: number) => number | undefined) => minutes(`lvms:volume_${series}:rate5m{node="node-a",device_class="vg1"}`, value);
    const idle = (busy: number) => (minute: number) => (minute === 4 || minute === 5 ? 0 : busy);
    await scraped([
      ...of('read_bytes', () => 8 * MiB), ...of('written_bytes', (i) => (i + 1) * MiB), ...of('reads', idle(200)), ...of('writes', () => 50), ...of('read_seconds', idle(0.4)), ...of('write_seconds', () => 0.6),
    ]);
    await collected('lvms:volume_write_seconds:rate5m');
    const page = await open(browser, '/local-volumes/class/vg1');
    const io = test(page, 'io');
    await test(page, 'io-throughput').getByText('8 MiB/s', { exact: true }).waitFor();
    await test(page, 'io-operations').getByText('200', { exact: true }).first().waitFor();
    // 0.4 s for 200 reads, and 0.6 s for 50 writes.
    await test(page, 'io-latency').getByText('2 ms', { exact: true }).first().waitFor();
    await test(page, 'io-latency').getByText('12 ms', { exact: true }).first().waitFor();
    await drawn(page);
    // One line in two parts.
    const parts = () => test(page, 'io-latency').locator('svg path').evaluateAll((list) => Math.max(...list.map((p) => (p.getAttribute('d') ?? '').split('M').length - 1)));
    await until('the parts of the line with a gap', parts, 2);
    await everywhere(page, 'io', 'io');
    await io.getByRole('button', { name: '24 hours' }).click();
    await test(page, 'io-operations').getByRole('button', { name: 'Table' }).waitFor();
    await io.getByRole('button', { name: '1 hour' }).press('Enter');
    await test(page, 'io-operations').getByRole('button', { name: 'Table' }).click();
    await says(test(page, 'io-operations').locator('tbody'), /Read200.*Write50/);
    await close(page);
    await fetch(`${url}/test/mute?is=true`);
    try {
      const mute = await open(browser, '/local-volumes/class/vg1', { expect: /502/ });
      await test(mute, 'io').getByText(/Prometheus is unreachable/).first().waitFor();
      await test(mute, 'largest').getByText(/Prometheus is unreachable/).waitFor();
      assert.equal(await test(mute, 'io').locator('[data-test=series-empty]').count(), 0, 'what is not known was shown as empty');
      await close(mute);
    } finally {
      await fetch(`${url}/test/mute?is=false`);
    }
    const viewer = await open(browser, '/local-volumes/class/vg1', { as: 'viewer', expect: /403/ });
    await test(viewer, 'io').getByText(/cluster-monitoring-view/).first().waitFor();
    await test(viewer, 'largest').getByText(/cluster-monitoring-view/).waitFor();
    await accessible(viewer);
    await close(viewer);
  });

  it('the largest volumes of a device class are listed, ten of twelve, with claim, node, size and data', async () => {
    await storage();
    const lines: string[] = [];
    for (let i = 0; i < 12; i++) {
      await makeVolume(`pvc-${i}`, { size: '20Gi' }, `shop/data-${i}`);
      const labels = `{namespace="shop",persistentvolumeclaim="data-${i}",node="node-a",device_class="vg1",volume="${await uidOf(`pvc-${i}`)}"}`;
      lines.push(`lvms_volume_data_percent${labels} ${5 * (i + 1)}`, `lvms_volume_size_bytes${labels} ${20 * GiB}`);
    }
    await scraped(lines);
    await collected('count(lvms_volume_size_bytes{persistentvolumeclaim=~"data-.*"}) == 12');
    const page = await open(browser, '/local-volumes/class/vg1');
    const largest = test(page, 'largest');
    await largest.getByRole('link', { name: 'data-11', exact: true }).waitFor();
    assert.deepEqual(await largest.locator('tbody a[href*=persistentvolumeclaims]').allTextContents(), [11, 10, 9, 8, 7, 6, 5, 4, 3, 2].map((i) => `data-${i}`));
    await says(largest.locator('tbody tr').first(), /node-a.*12 GiB of 20 GiB/);
    await test(page, 'fastest').getByText('No volume is known to have grown in the last 7 days.').waitFor();
    await everywhere(page, 'largest', 'largest');
    await close(page);
  });

  it('a claim and a disk say where a volume is, and a claim what I/O it has', async () => {
    await storage(false);
    await makeVolume('pvc-1', { size: '20Gi' }, 'default/data');
    await makeVolume('pvc-2', { size: '20Gi' }, 'default/logs');
    await makeClaim('data', 'pvc-1');
    const labels = `namespace="default",persistentvolumeclaim="data",node="node-a",device_class="io",volume="${await uidOf('pvc-1')}"`;
    const counter = (name: string, perSecond: number) => minutes(`lvms_volume_${name}_total{${labels}}`, (i) => i * 60 * perSecond);
    await scraped([
      `lvms_volume_device_info{${labels},device="/dev/sdc",device_id="wwn:0x5000c500a2",physical_volume="a2-uuid"} 1`,
      ...counter('reads', 100), ...counter('writes', 20), ...counter('read_bytes', 4 * MiB), ...counter('written_bytes', MiB), ...counter('read_seconds', 0.3), ...counter('write_seconds', 0.1),
    ]);
    await collected(`lvms_volume_write_seconds_total{${labels}}`);
    await collected(`lvms_volume_device_info{${labels}}`);
    const page = await open(browser, '/k8s/ns/default/persistentvolumeclaims/data/logical-volume');
    await says(test(page, 'disks'), /The volume is on this disk:.*\/dev\/sdc.*wwn-0x5000c500a2/);
    await test(page, 'io-operations').getByText('100', { exact: true }).first().waitFor();
    await test(page, 'io-throughput').getByText('4 MiB/s', { exact: true }).waitFor();
    await test(page, 'io-latency').getByText('3 ms', { exact: true }).first().waitFor();
    await drawn(page);
    await accessible(page);
    await page.screenshot({ path: 'screenshots/volumes-claim.png', fullPage: true, animations: 'disabled' });
    await close(page);
    const node = await open(browser, '/k8s/cluster/nodes/node-a/local-disks');
    await says(test(node, 'slot-/dev/sdc'), /Volumes with data on the device \(1\): default\/data.*Volumes whose disks are unknown \(1\): default\/logs/);
    await says(test(node, 'slot-/dev/sdb'), /Volumes whose disks are unknown \(1\): default\/logs/);
    await accessible(node);
    await node.screenshot({ path: 'screenshots/volumes-node.png', fullPage: true, animations: 'disabled' });
    await close(node);
  });
});
