import { cleanup, render, screen, waitFor } from '@testing-library/react';
import userEvent from '@testing-library/user-event';
import { createInstance } from 'i18next';
import { I18nextProvider, initReactI18next } from 'react-i18next';
import { MemoryRouter } from 'react-router';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import type { Device, DeviceClass, LVMCluster, NodeStatus, PhysicalVolumeStatus } from '../api/types';
import { newCluster, withClasses } from '../model/cluster';
import { MembersCard } from './MembersCard';

const i18n = createInstance();
void i18n.use(initReactI18next).init({ lng: 'en', resources: {}, nsSeparator: '~', keySeparator: false, interpolation: { escapeValue: false }, react: { useSuspense: false } });

const disk = (n: string, more: Partial<Device> = {}): Device => ({ name: `/dev/sd${n}`, byID: [`wwn-${n}`], pvUUID: `uuid-${n}`, volumeGroup: 'vg1', state: 'InUse', size: '100Gi', ...more });
const pv = (n: string, more: Partial<PhysicalVolumeStatus> = {}): PhysicalVolumeStatus => ({ uuid: `uuid-${n}`, name: `/dev/sd${n}`, size: '100Gi', free: '60Gi', state: 'Ready', ...more });
const status: NodeStatus = { metadata: { name: 'a' }, status: { devices: [disk('b'), disk('c'), disk('d', { pvUUID: undefined, volumeGroup: undefined, state: 'Available' })], nodeStatus: [{ name: 'vg1', physicalVolumes: [pv('b'), pv('c')] }] } };
const base: DeviceClass = { name: 'vg1', deviceSelector: { paths: ['/dev/disk/by-id/wwn-b', '/dev/disk/by-id/wwn-c'] } };
const permissions = { loaded: true, create: true, update: true, listNodes: true, listStatuses: true };
const clusterOf = (c: DeviceClass): LVMCluster => ({ ...withClasses(newCluster('ns', 'c'), [c]), metadata: { name: 'c', namespace: 'ns', resourceVersion: '5' } });

let sent: { url: string; body: LVMCluster }[] = [];
let reply: (dryRun: boolean) => [number, unknown];
beforeEach(() => {
  sent = [];
  reply = () => [200, newCluster('ns')];
  vi.stubGlobal('fetch', (url: string, init: RequestInit) => {
    sent.push({ url, body: JSON.parse(init.body as string) as LVMCluster });
    const [code, body] = reply(url.includes('dryRun'));
    return Promise.resolve(new Response(JSON.stringify(body), { status: code, headers: { 'Content-Type': 'application/json' } }));
  });
});
afterEach(() => {
  cleanup();
  vi.unstubAllGlobals();
});

const user = userEvent.setup();
const has = (id: string) => document.querySelector(`[data-test="${id}"]`);
const apply = () => user.click(has('apply') as Element);
const asked = () => waitFor(() => expect(has('dry-run')?.getAttribute('data-state')).not.toBe('asking'));
const written = () => sent.filter((s) => !s.url.includes('dryRun'));

function show(options: { c?: DeviceClass; permissions?: typeof permissions; statuses?: NodeStatus[]; error?: string } = {}) {
  const c = options.c ?? base;
  render(
    <I18nextProvider i18n={i18n}>
      <MemoryRouter>
        <MembersCard
          cluster={clusterOf(c)} c={c} name="vg1" permissions={options.permissions ?? permissions}
          statuses={{ data: options.statuses ?? [status], loaded: true, error: options.error }} nodes={{ data: [{ metadata: { name: 'a' } }], loaded: true }}
        />
      </MemoryRouter>
    </I18nextProvider>,
  );
}
const openFor = (name: string) => user.click(screen.getByRole('button', { name: `Manage ${name} on node a` }));

describe('something is asked for a device', () => {
  it('writes what was chosen, once the cluster was asked, and keeps the rest of the object', async () => {
    show();
    await openFor('/dev/sdb');
    await apply();
    expect(has('why-not')?.textContent).toMatch(/Select an action/);
    await user.click(screen.getByRole('radio', { name: 'Drain' }));
    await asked();
    expect(written()).toEqual([]);
    await apply();
    await waitFor(() => expect(has('dialog')).toBeNull());
    expect(written().map((s) => s.body.spec?.storage?.deviceClasses?.[0])).toEqual([{ ...base, deviceRequests: [{ node: 'a', device: 'uuid-b', action: 'Drain' }] }]);
    expect(written()[0]?.body.metadata.resourceVersion).toBe('5');
  });
  it('replaces one: needs the new disk, and then has both in one change', async () => {
    show();
    await openFor('/dev/sdb');
    await user.click(screen.getByRole('radio', { name: 'Replace' }));
    await apply();
    expect(has('why-not')?.textContent).toMatch(/Select the replacement disk/);
    await user.click(screen.getByRole('radio', { name: /^\/dev\/sdd/ }));
    await user.click(screen.getByRole('checkbox', { name: /remove its path/ }));
    expect(has('consequences')?.textContent).toMatch(/\/dev\/sdd is added to the volume group first/);
    await asked();
    await apply();
    await waitFor(() => expect(written()).toHaveLength(1));
    expect(written()[0]?.body.spec?.storage?.deviceClasses?.[0]).toEqual({ name: 'vg1', deviceSelector: { paths: ['/dev/disk/by-id/wwn-c', '/dev/disk/by-id/wwn-d'] }, deviceRequests: [{ node: 'a', device: 'uuid-b', action: 'Remove' }] });
  });
  it('has no spare, and says what to do', async () => {
    show({ statuses: [{ ...status, status: { ...status.status, devices: [disk('b'), disk('c')] } }] });
    await openFor('/dev/sdb');
    await user.click(screen.getByRole('radio', { name: 'Replace' }));
    expect(has('no-spare')?.textContent).toMatch(/attach one/);
  });
  it('leaves a class that chooses by itself to do so', async () => {
    show({ c: { name: 'vg1' } });
    await openFor('/dev/sdb');
    expect(screen.getByRole<HTMLInputElement>('radio', { name: 'Replace' }).disabled).toBe(true);
  });
  it('does not write what the cluster refused', async () => {
    reply = () => [422, { message: 'at most 64', details: { causes: [{ field: 'spec', message: 'at most 64' }] } }];
    show();
    await openFor('/dev/sdb');
    await user.click(screen.getByRole('radio', { name: 'Cordon' }));
    await asked();
    await apply();
    expect(has('why-not')?.textContent).toMatch(/at most 64/);
    expect(written()).toEqual([]);
  });
  it('stays open when it could not be written, and says whether that is known', async () => {
    reply = (dryRun) => (dryRun ? [200, newCluster('ns')] : [409, { message: 'the object has been modified' }]);
    show();
    await openFor('/dev/sdb');
    await user.click(screen.getByRole('radio', { name: 'Remove' }));
    await asked();
    await apply();
    await waitFor(() => expect(has('why-not')?.textContent).toMatch(/has been modified/), { timeout: 10_000 });
    reply = () => [502, {}];
    await apply();
    await waitFor(() => expect(has('why-not')?.textContent).toMatch(/unknown whether the change was saved/));
  });
  it('names the right that a user lacks, and takes silence for no answer', async () => {
    reply = () => [503, {}];
    show({ permissions: { ...permissions, update: false } });
    await openFor('/dev/sdb');
    await user.click(screen.getByRole('radio', { name: 'Drain' }));
    await asked();
    expect(has('dry-run')?.getAttribute('data-state')).toBe('unknown');
    await user.click(screen.getByRole('button', { name: 'Retry' }));
    await asked();
    await apply();
    expect(has('why-not')?.textContent).toMatch(/lack permission to update/);
    expect(written()).toEqual([]);
  });
  it('takes a request back, and one whose device has left', async () => {
    show({ c: { ...base, deviceRequests: [{ node: 'a', device: 'uuid-c', action: 'Drain' }, { node: 'a', device: 'gone', action: 'Remove' }] } });
    await openFor('/dev/sdc');
    await user.click(screen.getByRole('radio', { name: 'Remove request' }));
    await asked();
    await apply();
    await waitFor(() => expect(written()[0]?.body.spec?.storage?.deviceClasses?.[0]?.deviceRequests).toEqual([{ node: 'a', device: 'gone', action: 'Remove' }]));
    await user.click(screen.getByRole('button', { name: 'Remove request' }));
    await asked();
    await apply();
    await waitFor(() => expect(written()[1]?.body.spec?.storage?.deviceClasses?.[0]?.deviceRequests).toEqual([{ node: 'a', device: 'uuid-c', action: 'Drain' }]));
  });
  it('suspends a device with what may be on it, and resumes it', async () => {
    vi.stubGlobal('WebSocket', class { close() {} });
    const lv = { metadata: { name: 'pvc-1', uid: 'u', annotations: { 'lvm.topolvm.io/claim': 'shop/data' } }, spec: { name: 'pvc-1', nodeName: 'a', size: '1Gi', deviceClass: 'vg1' } };
    const answer = globalThis.fetch;
    vi.stubGlobal('fetch', (url: string, init: RequestInit = {}) => {
      const body = /\/(topolvm.io\/)?v1$/.test(url) ? { resources: [{ name: 'logicalvolumes', kind: 'LogicalVolume' }, { name: 'persistentvolumes', kind: 'PersistentVolume' }] } : { metadata: {}, items: /logicalvolumes/.test(url) ? [lv] : [] };
      if (url.endsWith('selfsubjectreviews')) return Promise.resolve(new Response(JSON.stringify({ status: { userInfo: { username: 'admin' } } }), { headers: { 'Content-Type': 'application/json' } }));
      return init.method ? answer(url, init) : Promise.resolve(new Response(JSON.stringify(body), { headers: { 'Content-Type': 'application/json' } }));
    });
    show();
    await openFor('/dev/sdb');
    await user.click(screen.getByRole('radio', { name: 'Suspend' }));
    await waitFor(() => expect(has('consequences')?.textContent).toMatch(/New Pods do not get the volumes.*Volumes that may have data on this device \(1\): shop\/data/));
    await user.type(await screen.findByLabelText('Reason'), 'disk errors');
    await asked();
    await apply();
    const suspendReason: unknown = expect.stringMatching(/^by admin at 20\d\d-.*Z: disk errors$/);
    await waitFor(() => expect(written().map((s) => s.body.spec?.storage?.deviceClasses?.[0]?.deviceRequests)).toEqual([[{ node: 'a', device: 'uuid-b', action: 'Cordon', suspend: true, suspendReason }]]));
    cleanup();
    sent = [];
    show({ c: { ...base, deviceRequests: [{ node: 'a', device: 'uuid-b', action: 'Drain', suspend: true }] } });
    expect(has('members')?.textContent).toMatch(/Requested: Drain, suspend: true/);
    await openFor('/dev/sdb');
    await user.click(screen.getByRole('radio', { name: 'Drain' }));
    expect(has('consequences')?.textContent).toMatch(/The device stays suspended/);
    await user.click(screen.getByRole('radio', { name: 'Resume' }));
    expect(has('consequences')?.textContent).toMatch(/New Pods get the volumes on the device again.*The request stays: Drain/);
    await asked();
    await apply();
    await waitFor(() => expect(written().map((s) => s.body.spec?.storage?.deviceClasses?.[0]?.deviceRequests)).toEqual([[{ node: 'a', device: 'uuid-b', action: 'Drain' }]]));
  });
  it('does not suspend a missing device, and shows the suspended ones', async () => {
    show({ statuses: [{ ...status, status: { ...status.status, nodeStatus: [{ name: 'vg1', physicalVolumes: [pv('b', { state: 'Missing' }), pv('c', { suspended: true, message: 'suspended (deviceRequests)' })] }] } }] });
    expect(document.querySelectorAll('[data-test=suspended]')).toHaveLength(1);
    await openFor('/dev/sdb');
    expect(screen.getByRole<HTMLInputElement>('radio', { name: 'Suspend' }).disabled).toBe(true);
    expect(has('dialog')?.textContent).toMatch(/LVM cannot suspend a missing device/);
  });
  it('what could not be read is not shown as empty', () => {
    show({ statuses: [], error: 'forbidden' });
    expect(has('members')?.textContent).toMatch(/Unknown/);
  });
});
