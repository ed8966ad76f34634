import assert from 'node:assert/strict';
import { after, before, beforeEach, describe, it } from 'node:test';
import type { Browser, Page } from 'playwright-core';
import type { VGStatus } from '../src/api/types';
import { blank, carrying, clean, judge, makeNode, makeRecovery, member, namespace, paths, physicalVolume, request, tell, url } from './kube';
import { accessible, close, drawn, launch, open, test, until } from './page';

const GiB = 2 ** 30;

const pool = (percent: number) => ({ name: 'thin-pool-1', size: String(90 * GiB), metadataSize: String(GiB), dataPercent: percent, metadataPercent: 3, virtualSize: String(300 * GiB) });
const thin = (percent: number, n: string): VGStatus => ({ name: 'vg1', status: 'Ready', size: String(100 * GiB), free: String(8 * GiB), thinPool: pool(percent), physicalVolumes: [physicalVolume('sdb', n)] });
const thick: VGStatus = { name: 'ssd', status: 'Ready', size: String(500 * GiB), free: String(350 * GiB) };

async function storage(): Promise<void> {
  for (const [node, percent, n] of [['node-a', 42, 'a1'], ['node-b', 96, 'b1']] as const) {
    await makeNode(node);
    await tell(node, [member('sdb', n)], [thin(percent, n), thick]);
  }
  const spec = { storage: { deviceClasses: [{ name: 'vg1', default: true, deviceSelector: { paths: ['/dev/sdb'] }, thinPoolConfig: { name: 'thin-pool-1', overprovisionRatio: 10 } }, { name: 'ssd', deviceSelector: { paths: ['/dev/sdc'] } }] } };
  await request('POST', paths.clusters, { apiVersion: 'lvm.topolvm.io/v1alpha1', kind: 'LVMCluster', metadata: { name: 'my-lvmcluster', namespace }, spec });
  await judge('my-lvmcluster', 'Ready', '4/4');
}

const themes = ['', 'pf-v6-theme-dark', 'pf-v6-theme-high-contrast', 'pf-v6-theme-dark pf-v6-theme-high-contrast'];
const sizes = [[390, 844], [1280, 1000], [2560, 1440]] as const;

/** One part of a page in every theme at every size: accessible, not wider than its place, and pictures to look at. */
async function everywhere(page: Page, part: string): Promise<void> {
  for (const [width, height] of sizes) {
    await page.setViewportSize({ width, height });
    const cut = () => test(page, part).evaluate((e) => e.scrollWidth - e.clientWidth);
    await until(`${part} at ${width} px is cut`, cut, 0);
    for (const theme of themes) {
      await page.evaluate((set) => (document.documentElement.className = set), theme);
      await accessible(page);
      await test(page, part).screenshot({ path: `screenshots/charts-${part}-${width}${theme.replaceAll(/ ?pf-v6-theme/g, '')}.png`, animations: 'disabled' });
    }
  }
  await page.evaluate(() => (document.documentElement.className = ''));
  await page.setViewportSize({ width: 1500, height: 1000 });
}

describe('charts', () => {
  let browser: Browser;
  before(async () => void (browser = await launch()));
  after(() => browser.close());
  beforeEach(async () => {
    await clean();
    await storage();
  });

  it('capacity of the cluster and of each class, in every theme and size', async () => {
    const page = await open(browser, '/local-volumes');
    await drawn(page);
    const capacity = test(page, 'capacity');
    // 42 % and 96 % of 90 GiB, and twice 150 of 500 GiB.
    const told = (name: string) => capacity.getByRole('group', { name, exact: true });
    await told('Capacity of device class vg1').getByText('124 GiB', { exact: true }).waitFor();
    await told('Capacity of device class ssd').getByText('300 GiB', { exact: true }).waitFor();
    await told('Capacity of all device classes').getByText('424 GiB', { exact: true }).waitFor();
    assert.equal(await capacity.locator('[data-test=donut]:has(svg)').count(), 3);
    await everywhere(page, 'capacity');
    await close(page);
  });

  it('usage over time with forecast and thresholds, as lines and as a table', async () => {
    const page = await open(browser, '/local-volumes');
    const usage = test(page, 'usage');
    // The history of a day that Prometheus has: from 60 % to 97 %.
    await usage.getByText(/^9[67](\.\d)?%$/).first().waitFor();
    await usage.getByText('Forecast', { exact: true }).waitFor();
    await usage.getByText('Alert threshold: near full').waitFor();
    await drawn(page);
    await everywhere(page, 'usage');
    await usage.getByRole('button', { name: 'Table' }).click();
    await usage.locator('tbody td', { hasText: 'vg1' }).waitFor();
    const cells = await usage.locator('tbody td').allTextContents();
    assert.deepEqual([cells[0], cells[4]], ['vg1', '100%']);
    await accessible(page);
    await usage.getByRole('button', { name: 'Chart' }).press('Enter');
    await usage.getByRole('button', { name: '1 week' }).click();
    await usage.getByText(/^9[67](\.\d)?%$/).first().waitFor();
    await close(page);

    const details = await open(browser, '/local-volumes/class/vg1');
    await test(details, 'usage').getByText('node-a', { exact: true }).waitFor();
    await test(details, 'usage').getByText('node-b', { exact: true }).waitFor();
    await accessible(details);
    await test(details, 'usage').screenshot({ path: 'screenshots/charts-class-usage.png', animations: 'disabled' });
    await test(details, 'capacity').getByText('124 GiB', { exact: true }).waitFor();
    await close(details);
    const none = await open(browser, '/local-volumes/class/ssd');
    await test(none, 'usage').getByText('No metrics in this period yet.').waitFor();
    await close(none);
  });

  it('says why there is no usage: Prometheus does not answer, or the user may not ask', async () => {
    await fetch(`${url}/test/mute?is=true`);
    try {
      const mute = await open(browser, '/local-volumes', { expect: /502/ });
      await test(mute, 'usage').getByText(/Prometheus is unreachable/).waitFor();
      assert.equal(await test(mute, 'series-empty').count(), 0, 'what is not known was shown as empty');
      await accessible(mute);
      await test(mute, 'usage').screenshot({ path: 'screenshots/charts-usage-mute.png' });
      await close(mute);
    } finally {
      await fetch(`${url}/test/mute?is=false`);
    }
  });

  it('the map of devices: what is failing is first, keys and the mouse say what a tile is, and a click goes to the node', async () => {
    await tell('node-b', [member('sdb', 'b1'), blank('sdc', 'b2', 400 * GiB, { state: 'Failing' }), blank('sdd', 'b3', 50 * GiB), carrying('sde', 'b4')], [thin(96, 'b1'), thick]);
    const page = await open(browser, '/local-volumes');
    const map = test(page, 'disk-map');
    await map.getByRole('row').first().getByText('node-b').waitFor();
    await map.getByRole('gridcell').first().waitFor();
    await everywhere(page, 'disk-map');
    // The Tab key comes to the map once, and leaves it with the next one.
    await map.getByRole('link', { name: 'node-b', exact: true }).focus();
    await page.keyboard.press('ArrowRight');
    await page.keyboard.press('ArrowRight');
    const focused = () => page.evaluate(() => document.activeElement?.getAttribute('aria-label') ?? '');
    await until('the focused tile', focused, '/dev/sdc on node-b: Failing, 400 GiB');
    await test(page, 'disk-said').getByText('/dev/sdc on node-b: Failing, 400 GiB').waitFor();
    await page.keyboard.press('Tab');
    assert.equal(await page.evaluate(() => document.querySelector('[data-test=disk-map]')?.contains(document.activeElement) ?? true), false, 'the Tab key stays in the map');
    await page.keyboard.press('Shift+Tab');
    await until('the tile that was left', focused, '/dev/sdc on node-b: Failing, 400 GiB');
    await map.getByRole('link', { name: /^\/dev\/sdb on node-a/ }).hover();
    await test(page, 'disk-said').getByText('/dev/sdb on node-a: In use, 100 GiB, 60% allocated').waitFor();
    await page.keyboard.press('Enter');
    await page.waitForURL(/\/k8s\/cluster\/nodes\/node-b\/local-disks$/);
    await close(page);
  });

  it('activity: what is moved, synchronized and recovered, with progress and remaining time', async () => {
    const page = await open(browser, '/local-volumes');
    const activity = test(page, 'activity');
    await activity.getByText('No data is being moved, synchronized or recovered.').waitFor();
    const raid = { status: 'Degraded', memberCount: 2, degradedMemberCount: 0, lvHealth: [{ name: 'lv1', raidType: 'raid1', syncPercent: 40 }] };
    const move = (movedPercent: number) => tell('node-a', [member('sdb', 'a1')], [{ ...thin(42, 'a1'), physicalVolumes: [physicalVolume('sdb', 'a1', { state: 'Draining', movedPercent })] }, { ...thick, raidStatus: raid }]);
    await makeRecovery('repair', { action: 'RepairThinPool' }, { phase: 'Running', message: 'checks the metadata of the thin pool' });
    await move(10);
    await activity.getByText('/dev/sdb', { exact: true }).waitFor();
    await activity.getByText('10%').waitFor();
    await activity.getByText('lv1', { exact: true }).waitFor();
    await activity.getByText('checks the metadata of the thin pool').waitFor();
    await move(11);
    await activity.getByText('11%').waitFor();
    assert.equal(await activity.getByText('Not known yet').count(), 3, 'a remaining time was shown before it was known');
    await move(60);
    await activity.getByText('60%').waitFor();
    await activity.getByText(/^\d+ (min|hr)$/).waitFor();
    await everywhere(page, 'activity');
    await activity.getByRole('link', { name: 'repair' }).click();
    await page.waitForURL(/\/local-volumes\/recovery\/repair$/);
    await close(page);
  });

  it('stays small with 500 nodes of 20 devices each', async () => {
    const lanes = Array.from({ length: 16 }, (_, lane) => lane);
    await Promise.all(lanes.map(async (lane) => {
      for (let n = lane; n < 500; n += lanes.length) await tell(`n${n}`, Array.from({ length: 20 }, (_, i) => member(`sd${i}`, `${n}x${i}`)), [{ ...thin(42, `${n}`), physicalVolumes: Array.from({ length: 20 }, (_, i) => physicalVolume(`sd${i}`, `${n}x${i}`)) }]);
    }));
    const page = await open(browser, 'about:blank');
    const asked: string[] = [];
    page.on('request', (r) => asked.push(new URL(r.url()).pathname));
    // What a user waits for: from navigation until the page answers to a filter.
    const start = Date.now();
    await page.goto(`${url}/local-volumes`);
    await test(page, 'devices').getByRole('textbox', { name: 'Find a device' }).fill('n499');
    await test(page, 'devices').getByText('All (10002)').waitFor();
    await until('the rows that the filter leaves', () => test(page, 'devices').locator('table').getAttribute('aria-rowcount'), '21');
    const answered = Date.now() - start;
    const listed = asked.filter((p) => p.startsWith('/api/kubernetes/apis/lvm.topolvm.io/') && p.endsWith('/lvmvolumegroupnodestatuses')).length;
    await test(page, 'devices').getByRole('textbox', { name: 'Find a device' }).fill('');
    const grid = test(page, 'disk-grid');
    await grid.getByText('n0', { exact: true }).waitFor();
    await test(page, 'capacity').getByRole('group', { name: 'Capacity of device class vg1' }).waitFor();
    await page.waitForLoadState('networkidle');
    assert.equal(await grid.getAttribute('aria-rowcount'), '502');
    const drawnRows = () => grid.getByRole('row').count();
    assert.ok((await drawnRows()) < 30, `${await drawnRows()} rows are in the document`);
    const session = await page.context().newCDPSession(page);
    await session.send('HeapProfiler.collectGarbage');
    const { usedSize } = await session.send('Runtime.getHeapUsage');
    const shown = await page.evaluate(() => performance.getEntriesByName('first-contentful-paint')[0]?.startTime ?? 0);
    // From a row to the last one, and how long the browser takes for a row out of sight.
    await grid.getByRole('link').first().focus();
    const begun = Date.now();
    for (let i = 0; i < 20; i++) await page.keyboard.press('PageDown');
    await until('the row of the focus', () => page.evaluate(() => document.activeElement?.closest('[role=row]')?.getAttribute('aria-rowindex') ?? ''), '201');
    console.log(`500 nodes × 20 devices: a filter answers ${answered} ms after the navigation, ${listed} requests for the node statuses, ${asked.length} in all; ${Math.round(usedSize / 1e6)} MB of JavaScript, first paint after ${Math.round(shown)} ms, ${Math.round((Date.now() - begun) / 20)} ms for a page of the map; ${await drawnRows()} rows in the document`);
    assert.ok(usedSize < 100e6, `the page has ${usedSize} bytes`);
    assert.ok((await drawnRows()) < 30, 'rows that are out of sight stay in the document');
    await close(page);
  });
});
