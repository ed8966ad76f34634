// pictures.ts FOLDER: writes the pictures of the console for the README. Run it with `make docs-images`.
import { mkdirSync } from 'node:fs';
import type { Page } from 'playwright-core';
import { blank, carrying, clean, judge, makeNode, member, namespace, paths, physicalVolume, request, system, tell, url } from './kube';
import { close, launch, open, test } from './page';

const GiB = 2 ** 30;
const nodes = ['worker-1', 'worker-2'];
const used = [42, 63];
const folder = process.argv[2] ?? 'screenshots';

async function makeCluster(spec: object): Promise<void> {
  await request('POST', paths.clusters, { apiVersion: 'lvm.topolvm.io/v1alpha1', kind: 'LVMCluster', metadata: { name: 'my-lvmcluster', namespace }, spec });
}

/** Nodes with a thin pool each, and a Prometheus that scrapes them. */
async function serving(): Promise<void> {
  const lines: string[] = [];
  for (const [i, node] of nodes.entries()) {
    const thinPool = { name: 'thin-pool-1', size: String(90 * GiB), metadataSize: String(GiB), dataPercent: used[i]!, metadataPercent: 3, virtualSize: String(240 * GiB) };
    await makeNode(node);
    await tell(node, [system('sda', `${i}0`), member('sdb', `${i}1`), carrying('sdc', `${i}2`)], [
      { name: 'vg1', status: 'Ready', size: String(100 * GiB), free: String(8 * GiB), physicalVolumes: [physicalVolume('sdb', `${i}1`)], thinPool },
    ]);
    const labels = `{namespace="${namespace}",node="${node}",device_class="vg1"}`;
    lines.push(`lvms_build_info{namespace="${namespace}",component="vg-manager",node="${node}"} 1`, `topolvm_thinpool_data_percent${labels} ${used[i]}`);
  }
  await makeCluster({ storage: { deviceClasses: [{ name: 'vg1', default: true, thinPoolConfig: { name: 'thin-pool-1', overprovisionRatio: 10 } }] } });
  await judge('my-lvmcluster', 'Ready', '2/2');
  await fetch(`${url}/test/metrics`, { method: 'PUT', body: lines.map((l) => `${l}\n`).join('') });
  await collected();
}

/** Waits until Prometheus has scraped: the page asks it when it opens, and then once a minute. */
async function collected(): Promise<void> {
  for (let i = 0; i < 60; i++) {
    const answer = await fetch(`${url}/api/prometheus/api/v1/query?query=lvms_build_info`);
    if ((await answer.text()).includes('lvms_build_info')) return;
    await new Promise((done) => setTimeout(done, 500));
  }
  throw new Error('Prometheus has not scraped lvms_build_info within 30 seconds');
}

/** Nodes that have listed their devices. */
async function discovered(): Promise<void> {
  for (const [i, node] of nodes.entries()) {
    await makeNode(node);
    await tell(node, [system('sda', `${i}0`), blank('sdb', `${i}1`), carrying('sdc', `${i}2`)]);
  }
  await makeCluster({});
  await judge('my-lvmcluster', 'Ready', '0/0');
}

/** The page, without the frame that stands in for the console's. */
const take = (page: Page, name: string) => page.locator('main').screenshot({ path: `${folder}/${name}.png`, animations: 'disabled' });

mkdirSync(folder, { recursive: true });
const browser = await launch();
try {
  await clean();
  await serving();
  const overview = await open(browser, '/local-volumes');
  await overview.setViewportSize({ width: 1280, height: 900 });
  await overview.getByText('No alerts are firing.').waitFor({ timeout: 60_000 });
  await test(overview, 'class-vg1').waitFor();
  await take(overview, 'console-overview');
  await close(overview);

  await clean();
  await discovered();
  const wizard = await open(browser, `/k8s/ns/${namespace}/lvm.topolvm.io~v1alpha1~LVMCluster/~new`);
  await wizard.setViewportSize({ width: 1530, height: 1090 });
  for (const step of ['nodes', 'devices']) {
    await test(wizard, 'next').click();
    await test(wizard, `step-${step}`).waitFor();
  }
  for (const [i, node] of nodes.entries()) await wizard.getByLabel(`Select /dev/disk/by-id/wwn-0x5000c500${i}1 on node ${node}`).check();
  await wizard.evaluate(() => [document.querySelector('main'), ...document.querySelectorAll('main *')].forEach((e) => e?.scrollTo(0, 0)));
  await take(wizard, 'console-wizard');
  await close(wizard);
} finally {
  await browser.close();
}
