import assert from 'node:assert/strict';
import { after, before, beforeEach, describe, it } from 'node:test';
import type { Browser } from 'playwright-core';
import type { LogicalVolume, VGStatus } from '../src/api/types';
import { clean, judge, makeClaim, makeNode, makeVolume, member, namespace, paths, physicalVolume, request, scraped, tell, url } from './kube';
import { accessible, close, fits, launch, open, picture, test } from './page';

const GiB = 2 ** 30;

function metrics(node: string, percent: number, deviceClass = 'vg1'): string[] {
  const labels = `{namespace="${namespace}",node="${node}",device_class="${deviceClass}"}`;
  const info = `lvms_build_info{namespace="${namespace}",component="vg-manager",node="${node}"} 1`;
  // Without an operator, an alert fires ten minutes after Prometheus started, which may be in the middle of these tests.
  const operator = `up{job="lvms-operator-metrics-service",instance="operator",namespace="${namespace}"} 1`;
  return [info, operator, `topolvm_thinpool_data_percent${labels} ${percent}`, `topolvm_thinpool_metadata_percent${labels} 3`, `topolvm_thinpool_size_bytes${labels} ${100 * GiB}`, `lvms_thinpool_virtual_bytes${labels} ${300 * GiB}`];
}

async function storage(): Promise<void> {
  const group = (percent: number, n: string): VGStatus => ({
    name: 'vg1', status: 'Ready', size: String(200 * GiB), free: String(80 * GiB), physicalVolumes: [physicalVolume('sdb', n)],
    thinPool: { name: 'thin-pool-1', size: String(100 * GiB), metadataSize: String(GiB), dataPercent: percent, metadataPercent: 3, virtualSize: String(300 * GiB) },
  });
  for (const [node, percent, n] of [['node-a', 97, 'a1'], ['node-b', 30, 'b1']] as const) {
    await makeNode(node);
    await tell(node, [member('sdb', n)], [group(percent, n)]);
  }
  const spec = { storage: { deviceClasses: [{ name: 'vg1', default: true, thinPoolConfig: { name: 'thin-pool-1', overprovisionRatio: 10 } }] } };
  await request('POST', paths.clusters, { apiVersion: 'lvm.topolvm.io/v1alpha1', kind: 'LVMCluster', metadata: { name: 'my-lvmcluster', namespace }, spec });
  await judge('my-lvmcluster', 'Ready', '2/2');
}

describe('what Prometheus knows', () => {
  let browser: Browser;
  before(async () => void (browser = await launch()));
  after(() => browser.close());
  beforeEach(async () => {
    await clean();
    await scraped([]);
    await storage();
  });

  // First, and in a run of its own after the other pages' tests: an alert looks ten minutes back, and goes on firing.
  it('nothing fires where that is known', async () => {
    await scraped(metrics('node-b', 30));
    const answer = `${url}/api/prometheus/api/v1/query?query=ALERTS%20or%20lvms_build_info`;
    for (let i = 0; ; i++) {
      const text = await (await fetch(answer)).text();
      if (text.includes('lvms_build_info') && !text.includes('"firing"')) break;
      assert.ok(i < 60, text);
      await new Promise((done) => setTimeout(done, 500));
    }
    const page = await open(browser, '/local-volumes');
    await page.getByText('No alerts are firing.').waitFor();
    await close(page);
  });

  it('has the alerts that fire with their runbooks, when a pool will be full, and how much of a volume is written', async () => {
    await makeVolume('pvc-1', { size: '20Gi' }, 'default/database');
    await makeClaim('database', 'pvc-1');
    const { metadata } = await request<LogicalVolume>('GET', `${paths.volumes}/pvc-1`);
    await scraped([...metrics('node-a', 97), ...metrics('node-b', 30), `lvms_volume_data_percent{namespace="default",persistentvolumeclaim="database",node="node-a",device_class="vg1",volume="${metadata.uid}"} 25`]);
    const firing = `${url}/api/prometheus/api/v1/query?query=ALERTS`;
    for (let i = 0; !(await (await fetch(firing)).text()).includes('LVMSThinPoolDataFull'); i++) {
      assert.ok(i < 60, 'no alert fires');
      await new Promise((done) => setTimeout(done, 500));
    }
    const page = await open(browser, '/local-volumes');
    const alerts = test(page, 'alerts');
    await alerts.getByText('The thin pool data of device class vg1 on node node-a is at least 95% full.').waitFor();
    await test(page, 'health').getByText('1 critical alert is firing.').waitFor();
    // From 60 % to 97 % in 26 hours.
    await test(page, 'class-vg1').getByText(/in [12] hours?/).waitFor();
    await test(page, 'class-vg1').getByText('Not expected').waitFor();
    await accessible(page);
    await picture(page, 'overview-alerts');
    await alerts.getByRole('link', { name: 'Runbook for LVMSThinPoolDataFull' }).click();
    await page.waitForURL(/\/local-volumes\/runbook\/LVMSThinPoolDataFull$/);
    await page.getByRole('heading', { level: 1, name: 'LVMSThinPoolDataFull' }).waitFor();
    await accessible(page);
    await picture(page, 'runbook');
    await test(page, 'runbook').getByRole('link', { name: 'A command on a node' }).click();
    await page.waitForURL(/\/local-volumes\/runbook\/README#a-command-on-a-node$/);
    await page.getByRole('heading', { name: 'A command on a node' }).waitFor();
    await accessible(page);
    await picture(page, 'runbooks');
    await close(page);

    const details = await open(browser, '/local-volumes/class/vg1');
    await test(details, 'volumes').getByText('5 GiB of 20 GiB').waitFor();
    await close(details);
    // The claim's own namespace is asked, which its user may see.
    const tab = await open(browser, '/k8s/ns/default/persistentvolumeclaims/database/logical-volume', { as: 'viewer' });
    await test(tab, 'logical-volume').getByText('5 GiB of 20 GiB').waitFor();
    await close(tab);
    const viewer = await open(browser, '/local-volumes/class/vg1', { as: 'viewer', expect: /403/ });
    await test(viewer, 'unmeasured').getByText(/cluster-monitoring-view/).waitFor();
    await test(viewer, 'nodes').getByText(/in [12] hours?/).waitFor();
    await close(viewer);
  });

  it('the table of alerts fits from 1280 px on, and a long message can be read in it', async () => {
    const node = 'ip-10-0-129-94.eu-central-1.compute.internal';
    const group = `{namespace="${namespace}",node="${node}",device_class="ssd"}`;
    // One alert is critical, the other a warning: labels of either fit.
    await scraped([...metrics(node, 97, 'nvme-for-databases'), `lvms_volume_group_free_bytes${group} ${GiB}`, `topolvm_volumegroup_size_bytes${group} ${100 * GiB}`]);
    const firing = `${url}/api/prometheus/api/v1/query?query=ALERTS{alertname=~"LVMSThinPoolDataFull|LVMSVolumeGroupFull",node="${node}"}`;
    for (let i = 0; ; i++) {
      const text = await (await fetch(firing)).text();
      if (text.includes('LVMSThinPoolDataFull') && text.includes('LVMSVolumeGroupFull')) break;
      assert.ok(i < 60, `not both alerts fire: ${text}`);
      await new Promise((done) => setTimeout(done, 500));
    }
    for (const language of ['en', 'es', 'fr', 'ja', 'ko', 'zh']) {
      const page = await open(browser, '/local-volumes', { language });
      const message = test(page, 'alerts').getByText(`The thin pool data of device class nvme-for-databases on node ${node} is at least 95% full.`);
      await message.waitFor();
      await fits(page, `overview-alerts-${language}`);
      await page.setViewportSize({ width: 1280, height: 1000 });
      const box = await message.evaluate((e) => ({ width: e.clientWidth, shown: e.clientHeight, needed: e.scrollHeight }));
      assert.ok(box.width >= 220 && box.shown >= box.needed, `the message is ${box.width} px wide, and ${box.shown} of ${box.needed} px high`);
      await close(page);
    }
  });

  it('says when it does not answer, when the user may not ask, and when nothing is collected; the rest is shown', async () => {
    const collected = `${url}/api/prometheus/api/v1/query?query=lvms_build_info`;
    for (let i = 0; (await (await fetch(collected)).text()).includes('vg-manager'); i++) {
      assert.ok(i < 60, 'what is collected no more stays');
      await new Promise((done) => setTimeout(done, 500));
    }
    const none = await open(browser, '/local-volumes');
    await test(none, 'alerts-none').waitFor();
    assert.equal(await none.getByText('No alerts are firing.').count(), 0, 'what is not known was shown as well');
    await close(none);
    await fetch(`${url}/test/mute?is=true`);
    try {
      const mute = await open(browser, '/local-volumes', { expect: /502/ });
      await test(mute, 'alerts-unknown').waitFor();
      await test(mute, 'class-vg1').getByText('97 GiB of 100 GiB').waitFor();
      await test(mute, 'class-vg1').getByText('Unknown').first().waitFor();
      await accessible(mute);
      await picture(mute, 'overview-no-prometheus');
      await close(mute);
    } finally {
      await fetch(`${url}/test/mute?is=false`);
    }
    const nobody = await fetch(`${url}/api/prometheus-tenancy/api/v1/query?namespace=${namespace}&query=up`, { headers: { Cookie: 'openshift-session-token=nobody' } });
    assert.equal(nobody.status, 403);
  });

  it('an alert leads to the device class that it is about', async () => {
    const page = await open(browser, '/monitoring/alerts');
    await test(page, 'action-LVMSThinPoolDataFull').click();
    await page.waitForURL(/\/local-volumes\/class\/vg1$/);
    await page.getByRole('heading', { name: 'Device class vg1' }).waitFor();
    await close(page);
  });
});
