import assert from 'node:assert/strict';
import { after, before, beforeEach, describe, it } from 'node:test';
import type { Browser } from 'playwright-core';
import type { Device, PhysicalVolumeStatus } from '../src/api/types';
import { blank, carrying, clean, gatherImage, judge, makeNode, member, mounted, namespace, paths, physicalVolume, request, system, tell, url } from './kube';
import { accessible, close, drawn, fits, launch, open, picture, test } from './page';

const GiB = 2 ** 30;

async function storage(state = 'Ready', message = ''): Promise<void> {
  const pool = (percent: number) => ({ name: 'thin-pool-1', size: String(90 * GiB), metadataSize: String(GiB), dataPercent: percent, metadataPercent: 3, virtualSize: String(300 * GiB) });
  await makeNode('node-a');
  await makeNode('node-b');
  const own = (n: string) => blank('sdb', n, 100 * GiB, { state: 'InUse', volumeGroup: 'vg1', reasons: [] });
  await tell('node-a', [system('sda', 'a0'), own('a1'), carrying('sdc', 'a2'), mounted('sdd', 'a3')], [{ name: 'vg1', status: 'Ready', size: String(100 * GiB), free: String(8 * GiB), devices: ['/dev/sdb'], thinPool: pool(42) }]);
  await tell('node-b', [system('sda', 'b0'), { ...own('b1'), state: 'Failing', reasons: [{ code: 'Failing', message: 'gives errors: replace it' }] }, blank('sdc', 'b2')], [
    { name: 'vg1', status: state === 'Ready' ? 'Ready' : 'Degraded', reason: message, size: String(100 * GiB), free: String(8 * GiB), devices: ['/dev/sdb'], thinPool: pool(96) },
  ]);
  const spec = { storage: { deviceClasses: [{ name: 'vg1', default: true, deviceSelector: { optionalPaths: ['/dev/disk/by-id/wwn-0x5000c500a1', '/dev/disk/by-id/wwn-0x5000c500b1'] }, thinPoolConfig: { name: 'thin-pool-1', overprovisionRatio: 10 } }] } };
  await request('POST', paths.clusters, { apiVersion: 'lvm.topolvm.io/v1alpha1', kind: 'LVMCluster', metadata: { name: 'my-lvmcluster', namespace }, spec });
  await judge('my-lvmcluster', state, state === 'Ready' ? '2/2' : '1/2', message);
  await request('POST', paths.events, {
    apiVersion: 'v1', kind: 'Event', metadata: { name: 'my-lvmcluster.1', namespace }, type: 'Warning', reason: 'VolumeGroupsNotReady', message: 'volume group vg1 on node node-b is degraded',
    involvedObject: { kind: 'LVMCluster', name: 'my-lvmcluster', namespace }, lastTimestamp: new Date().toISOString().replace(/\.\d+/, ''), count: 1,
  });
}

/** The title of the page in the languages of the console. */
const titles = { 'en-GB': 'Local volumes', 'es-ES': 'Volúmenes locales', 'fr-FR': 'Volumes locaux', 'ja-JP': 'ローカルボリューム', 'ko-KR': '로컬 볼륨', 'zh-CN': '本地卷' };

describe('overview', () => {
  let browser: Browser;
  before(async () => void (browser = await launch()));
  after(() => browser.close());
  beforeEach(clean);

  it('tells health, capacity, devices and events, and follows them', async () => {
    await storage('Degraded', 'device class vg1 on node node-b: device /dev/sdb gives errors: replace it');
    const page = await open(browser, '/local-volumes');
    await page.getByText('Degraded: 1/2 volume groups are ready.').waitFor();
    await test(page, 'gather').getByText(`oc adm must-gather --image=${gatherImage}`).waitFor();
    const card = test(page, 'class-vg1');
    // 42 % of 90 GiB.
    await card.getByText('37.8 GiB of 90 GiB').waitFor();
    await card.getByText('300 GiB').first().waitFor();
    await test(page, 'devices').getByText('gives errors: replace it').waitFor();
    await test(page, 'events').getByText('volume group vg1 on node node-b is degraded').waitFor();
    // What the browser loaded for it, compressed, as it came over the network.
    await drawn(page);
    const loaded = await page.evaluate(() => (performance.getEntriesByType('resource') as PerformanceResourceTiming[]).filter((e) => e.name.includes('/api/plugins/')).map((e) => ({ name: e.name, size: e.encodedBodySize })));
    const isChart = ({ name }: { name: string }): boolean => /react-charts|victory|charts_|lodash__baseMerge/.test(name);
    const bytes = (is: boolean): number => loaded.filter((e) => isChart(e) === is).reduce((n, e) => n + e.size, 0);
    console.log(`the overview loads ${Math.round(bytes(false) / 1000)} kB of the plugin, and then ${Math.round(bytes(true) / 1000)} kB for its charts`);
    assert.ok(bytes(false) > 10_000 && bytes(false) < 260_000, `the overview loads ${bytes(false)} bytes without charts: ${loaded.map((e) => `${e.name} ${e.size}`).join(', ')}`);
    assert.ok(bytes(true) > 10_000 && bytes(true) < 130_000, `the charts load ${bytes(true)} bytes`);
    await accessible(page);
    await picture(page, 'overview');
    await page.locator('#state-Available').click();
    await test(page, 'devices').getByText('gives errors: replace it').waitFor({ state: 'detached' });
    await judge('my-lvmcluster', 'Ready', '2/2');
    await page.getByText('Healthy: 2/2 volume groups are ready.').waitFor();
    await close(page);
  });

  it('tells what is going on with a device of a volume group, until it has left', async () => {
    await storage();
    const tellState = (more: Partial<PhysicalVolumeStatus>, device = member('sdb', 'a1')) =>
      tell('node-a', [system('sda', 'a0'), device], [{ name: 'vg1', status: 'Ready', size: String(100 * GiB), physicalVolumes: [physicalVolume('sdb', 'a1', more)] }]);
    await tellState({ state: 'Draining', movedPercent: 12, message: 'its extents are being moved to the other devices' });
    const page = await open(browser, '/local-volumes');
    const devices = test(page, 'devices');
    await devices.getByText('Draining 12%').waitFor();
    await devices.getByText('its extents are being moved to the other devices').waitFor();
    await tellState({ state: 'Blocked', message: '10Gi of it is in use, and the other devices have only 4Gi free' });
    await devices.getByText('Blocked').waitFor();
    await tellState({ state: 'Drained', message: 'empty, and no new extents are allocated on it (deviceRequests)' });
    await devices.getByText('Drained', { exact: true }).waitFor();
    await accessible(page);
    await picture(page, 'overview-drained');
    await tell('node-a', [system('sda', 'a0'), blank('sdb', 'a1')]);
    await devices.getByText('Drained', { exact: true }).waitFor({ state: 'detached' });
    await close(page);
  });

  it('says when the cluster does not answer, keeps what it showed, and recovers', async () => {
    await storage();
    const page = await open(browser, '/local-volumes', { expect: /502|WebSocket/ });
    await page.getByText('Healthy: 2/2 volume groups are ready.').waitFor();
    await fetch(`${url}/test/cut?is=true`);
    try {
      await test(page, 'stale').waitFor();
      assert.equal(await test(page, 'empty').count(), 0, 'what could not be read was shown as empty');
      await test(page, 'class-vg1').waitFor();
      await picture(page, 'overview-stale');
    } finally {
      await fetch(`${url}/test/cut?is=false`);
    }
    await test(page, 'stale').waitFor({ state: 'detached' });
    await judge('my-lvmcluster', 'Progressing', '1/2', 'node-b is being set up');
    await page.getByText('Storage is being set up').waitFor();
    await close(page);
  });

  it('tells a user who may read nothing that it could not be read', async () => {
    await storage();
    const page = await open(browser, '/local-volumes', { as: 'nobody', expect: /403/ });
    await test(page, 'read-error').first().waitFor();
    assert.equal(await test(page, 'empty').count(), 0, 'what could not be read was shown as empty');
    await accessible(page);
    await picture(page, 'overview-forbidden');
    await close(page);
  });

  it('has every text translated, and leaves room for longer ones', async () => {
    await storage();
    const page = await open(browser, '/local-volumes?pseudolocalization=true&lng=en-US');
    await page.getByText('⟦').first().waitFor();
    const plain = await page.locator('h1, h2, button, th, [role=tab]').allTextContents();
    const ours = plain.filter((s) => s.trim() && !s.includes('⟦'));
    assert.deepEqual(ours, []);
    await picture(page, 'overview-pseudo');
    await close(page);
  });

  it('speaks the language of the browser, and English where the console does not have that one', async () => {
    await storage();
    for (const [language, title] of Object.entries(titles)) {
      const page = await open(browser, '/local-volumes', { language });
      await page.getByRole('heading', { level: 1, name: title, exact: true }).waitFor();
      await close(page);
    }
    // In an English console, times are not German either.
    const german = await open(browser, '/local-volumes', { language: 'de-DE', expect: /404/ });
    await german.getByRole('heading', { level: 1, name: 'Local volumes', exact: true }).waitFor();
    await test(german, 'events').getByText(/^\d+\/\d+\/\d{4}, .* [AP]M$/).waitFor();
    await close(german);
  });

  it("speaks the language of the console's setting, before that of the browser, and from the moment it is set", async () => {
    await storage();
    const page = await open(browser, '/local-volumes?lng=es', { language: 'fr-FR' });
    const heading = (language: keyof typeof titles) => page.getByRole('heading', { level: 1, name: titles[language], exact: true }).waitFor();
    await heading('fr-FR');
    for (const [set, language] of [['ja', 'ja-JP'], ['zh', 'zh-CN'], ['ko', 'ko-KR'], ['es', 'es-ES']] as const) {
      await test(page, 'language').selectOption(set);
      await heading(language);
    }
    await page.reload();
    await heading('es-ES');
    await accessible(page);
    await close(page);
  });

  it('its tables fit, from 1280 px on', async () => {
    await storage('Degraded', 'device class vg1 on node node-b: device /dev/sdb gives errors: replace it');
    for (const language of Object.keys(titles)) {
      const page = await open(browser, '/local-volumes', { language });
      await test(page, 'devices').getByText('gives errors: replace it').waitFor();
      await fits(page, `overview-${language}`);
      await close(page);
    }
  });

  it('can be read with high contrast', async () => {
    await storage('Degraded', 'device class vg1 on node node-b: device /dev/sdb gives errors: replace it');
    const page = await open(browser, '/local-volumes?theme=contrast');
    await test(page, 'devices').getByText('gives errors: replace it').waitFor();
    await accessible(page);
    await page.screenshot({ path: 'screenshots/overview-contrast.png', fullPage: true });
    await close(page);
  });

  it('stays quick with 400 nodes of 30 devices each', async () => {
    const devices = (n: number): Device[] => Array.from({ length: 30 }, (_, i) => blank(`sd${i}`, `${n}x${i}`));
    const nodes = Array.from({ length: 400 }, (_, n) => n);
    const lanes = Array.from({ length: 16 }, (_, lane) => lane);
    await Promise.all(lanes.map(async (lane) => {
      for (const n of nodes.filter((x) => x % lanes.length === lane)) await tell(`node-${n}`, devices(n));
    }));
    await request('POST', paths.clusters, { apiVersion: 'lvm.topolvm.io/v1alpha1', kind: 'LVMCluster', metadata: { name: 'my-lvmcluster', namespace }, spec: {} });
    const page = await open(browser, '/local-volumes');
    await page.getByText('All (12000)').waitFor();
    const rows = await test(page, 'devices').locator('tbody tr').count();
    assert.ok(rows < 60, `${rows} rows are in the document`);
    // How long each frame takes while the table is scrolled from end to end.
    const frames = await page.evaluate(async () => {
      const box = document.querySelector('[data-test=devices] [data-test=virtual-table]') as HTMLElement;
      const times: number[] = [];
      let last = performance.now();
      for (let i = 0; i < 120; i++) {
        box.scrollTop = (box.scrollHeight / 120) * i;
        await new Promise(requestAnimationFrame);
        const now = performance.now();
        times.push(now - last);
        last = now;
      }
      return times.sort((a, b) => a - b);
    });
    const [middle, worst] = [frames[60] ?? 0, frames.at(-1) ?? 0];
    console.log(`400 nodes × 30 devices: a frame of scrolling takes ${Math.round(middle)} ms in the middle and ${Math.round(worst)} ms at most; ${rows} rows in the document`);
    // What a frame costs depends on the rows that are in the document, and these do not become more.
    assert.ok((await test(page, 'devices').locator('tbody tr').count()) < 60, 'rows that are out of sight stay in the document');
    await close(page);
  });
});
