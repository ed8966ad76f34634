import { cleanup, render, screen, waitFor } from '@testing-library/react';
import userEvent from '@testing-library/user-event';
import { createInstance } from 'i18next';
import { I18nextProvider, initReactI18next } from 'react-i18next';
import { MemoryRouter } from 'react-router';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import type { LVMRecovery, NodeStatus, RecoveryPlan } from '../api/types';
import { newCluster } from '../model/cluster';
import { suggestionsOf } from '../model/recovery';
import { ApproveDialog } from './ApproveDialog';
import { DeleteDialog } from './DeleteDialog';
import { PlanTables } from './PlanTables';
import { RecoverDialog } from './RecoverDialog';

const i18n = createInstance();
void i18n.use(initReactI18next).init({ lng: 'en', resources: {}, nsSeparator: '~', keySeparator: false, interpolation: { escapeValue: false }, react: { useSuspense: false } });

let sent: { method?: string; url: string; body: unknown }[] = [];
let reply: () => [number, unknown];
beforeEach(() => {
  sent = [];
  reply = () => [200, { metadata: { name: 'a-vg1-x' } }];
  vi.stubGlobal('fetch', (url: string, init: RequestInit) => {
    sent.push({ method: init.method, url, body: JSON.parse(init.body as string) });
    const [code, body] = reply();
    return Promise.resolve(new Response(JSON.stringify(body), { status: code, headers: { 'Content-Type': 'application/json' } }));
  });
});
afterEach(() => {
  cleanup();
  vi.unstubAllGlobals();
});

const user = userEvent.setup();
const has = (id: string) => document.querySelector(`[data-test="${id}"]`);
const press = (id: string) => user.click(has(id) as Element);
const tree = (element: React.ReactNode) => (
  <I18nextProvider i18n={i18n}>
    <MemoryRouter>{element}</MemoryRouter>
  </I18nextProvider>
);

const plan = (more: Partial<RecoveryPlan> = {}): RecoveryPlan => ({ id: 'p1', creationTime: '2026-01-01T00:00:00Z', devices: [], lostVolumeCount: 0, keptVolumeCount: 3, ...more });
const losing = (id: string) => plan({ id, lostVolumeCount: 2, lostVolumes: [{ name: 'v1', claim: 'shop/data', size: 2 ** 30 }, { name: 'v2', size: 2 ** 20 }] });
const recovery = (p: RecoveryPlan | undefined, more: Partial<LVMRecovery['status']> & object = {}): LVMRecovery => ({
  metadata: { name: 'r', namespace: 'ns', uid: 'u1' }, spec: { nodeName: 'a', deviceClassName: 'vg1', action: 'RemoveLostDevices' }, status: { phase: 'AwaitingApproval', plan: p, ...more },
});

describe('approval', () => {
  const show = (opened: LVMRecovery, now: LVMRecovery | undefined = opened) => {
    const close = vi.fn();
    const element = (r: LVMRecovery | undefined) => tree(<ApproveDialog opened={opened} recovery={r} close={close} />);
    const view = render(element(now));
    return { close, now: (r: LVMRecovery | undefined) => view.rerender(element(r)) };
  };
  it('needs one click if nothing is lost', async () => {
    const { close } = show(recovery(plan()));
    expect(has('no-loss')).not.toBeNull();
    await press('apply');
    await waitFor(() => expect(close).toHaveBeenCalledOnce());
    expect(sent.map((s) => s.body)).toEqual([[{ op: 'test', path: '/metadata/uid', value: 'u1' }, { op: 'test', path: '/status/plan', value: plan() }, { op: 'add', path: '/spec/approvedPlan', value: 'p1' }]]);
  });
  it('lists what is lost by claim, and sends nothing until that is confirmed', async () => {
    const { close } = show(recovery(losing('p1')));
    expect(screen.getByRole('link', { name: 'shop/data' }).getAttribute('href')).toBe('/k8s/ns/shop/persistentvolumeclaims/data');
    expect(has('loss')?.textContent).toMatch(/2 volumes are lost/);
    await press('apply');
    expect(has('unconfirmed')?.textContent).toMatch(/Confirm that the data is lost/);
    expect(sent).toEqual([]);
    await user.click(screen.getByRole('checkbox', { name: /I understand/ }));
    await press('apply');
    await waitFor(() => expect(close).toHaveBeenCalledOnce());
    expect(sent).toHaveLength(1);
  });
  it('a plan that changed is not approved: the new one is shown, and its loss confirmed again', async () => {
    const { now, close } = show(recovery(losing('p1')));
    await user.click(screen.getByRole('checkbox', { name: /I understand/ }));
    now(recovery({ ...losing('p2'), lostVolumeCount: 7 }));
    expect(has('obstacle')?.textContent).toMatch(/The plan has changed/);
    expect((has('apply') as HTMLButtonElement).disabled).toBe(true);
    expect(screen.getByText('Approve plan p1')).toBeTruthy();
    await press('show-new');
    expect(screen.getByText('Approve plan p2')).toBeTruthy();
    expect(has('loss')?.textContent).toMatch(/7 volumes are lost.*5 of the lost volumes are not listed/);
    await press('apply');
    expect(sent).toEqual([]);
    await user.click(screen.getByRole('checkbox', { name: /I understand/ }));
    await press('apply');
    await waitFor(() => expect(close).toHaveBeenCalledOnce());
    expect(JSON.stringify(sent[0]?.body)).toContain('p2');
  });
  it('says what the API server refuses, and stays open', async () => {
    const { close } = show(recovery(plan()));
    reply = () => [422, { message: 'the server rejected our request due to an error in our request' }];
    await press('apply');
    await waitFor(() => expect(has('why-not')?.textContent).toMatch(/no longer has plan p1/));
    reply = () => [422, { message: 'spec.approvedPlan: too long', details: { causes: [{ field: 'spec.approvedPlan', message: 'too long' }] } }];
    await press('apply');
    await waitFor(() => expect(has('why-not')?.textContent).toMatch(/too long/));
    reply = () => [502, {}];
    await press('apply');
    await waitFor(() => expect(has('why-not')?.textContent).toMatch(/unknown whether the change was saved/));
    expect(close).not.toHaveBeenCalled();
  });
  it('what was deleted, approved by somebody else or has ended cannot be approved', () => {
    const { now } = show(recovery(plan()));
    for (const [r, text] of [[undefined, /was deleted/], [{ ...recovery(plan()), spec: { ...recovery(plan()).spec, approvedPlan: 'p1' } }, /already approved/], [recovery(plan({ id: 'p2' }), { phase: 'NotApplicable' }), /no longer awaits/]] as [LVMRecovery | undefined, RegExp][]) {
      now(r);
      expect(has('obstacle')?.textContent).toMatch(text);
      expect((has('apply') as HTMLButtonElement).disabled).toBe(true);
    }
  });
  it('volumes that are kept in part are a loss, and a repair of file systems can be one', () => {
    show({ ...recovery(plan({ damagedVolumes: [{ name: 'v1', size: 100, lostBytes: 2 ** 20 }] })), spec: { nodeName: 'a', deviceClassName: 'vg1', action: 'CheckFileSystems' } });
    expect(has('loss')?.textContent).toMatch(/1 volumes lose data/);
    expect(has('dialog')?.textContent).toMatch(/1 MiB/);
    expect(has('dialog')?.textContent).toMatch(/repair can remove damaged files/);
  });
});

describe('deletion', () => {
  it.each<[LVMRecovery, RegExp]>([
    [recovery(plan()), /No volume has been changed/], [recovery(plan(), { phase: 'Running' }), /already removed or changed stays so/], [recovery(plan(), { startTime: '2026-01-01T00:00:00Z' }), /already removed or changed stays so/],
    [recovery(plan(), { phase: 'Succeeded' }), /Only its record is deleted/],
  ])('says what is kept', (r, text) => {
    render(tree(<DeleteDialog recovery={r} close={vi.fn()} deleted={vi.fn()} />));
    expect(has('dialog')?.textContent).toMatch(text);
  });
  it('what is already gone counts as deleted, and a refusal does not', async () => {
    const deleted = vi.fn();
    render(tree(<DeleteDialog recovery={recovery(plan())} close={vi.fn()} deleted={deleted} />));
    reply = () => [409, { message: 'the UID in the precondition does not match' }];
    await press('apply');
    await waitFor(() => expect(has('why-not')?.textContent).toMatch(/does not match/));
    expect(deleted).not.toHaveBeenCalled();
    reply = () => [404, { message: 'not found' }];
    await press('apply');
    await waitFor(() => expect(deleted).toHaveBeenCalledOnce());
  });
});

describe('a new recovery', () => {
  const status = (name: string): NodeStatus => ({
    metadata: { name },
    status: {
      nodeStatus: [{
        name: 'vg1', conditions: name === 'a' ? [{ type: 'ThinPoolHealthy', status: 'False', reason: 'ThinPoolNeedsCheck', message: 'needs a check' }] : [],
        orphans: [{ kind: 'LogicalVolume', name: 'vg1/lv-1', size: '1Gi', claim: 'shop/data' }, { kind: 'LogicalVolume', name: 'vg1/lv-2', size: '2Gi' }],
      }],
    },
  });
  const show = (initial = false, recoveries: LVMRecovery[] = []) => {
    const created = vi.fn();
    const statuses = [status('a'), status('b')];
    const suggestions = statuses.flatMap((s) => suggestionsOf(s, 'vg1'));
    render(tree(<RecoverDialog namespace="ns" cluster={newCluster('ns')} name="vg1" statuses={statuses} recoveries={recoveries} suggestions={suggestions} initial={initial ? suggestions[0] : undefined} close={vi.fn()} created={created} />));
    return created;
  };
  const spec = () => (sent.at(-1)?.body as LVMRecovery | undefined)?.spec;
  it('is preselected from the status', async () => {
    const created = show(true, [recovery(plan())]);
    expect(screen.getByRole<HTMLInputElement>('radio', { name: /^RepairThinPool/ }).checked).toBe(true);
    expect(has('unfinished')?.textContent).toMatch(/have not ended: r\./);
    await press('apply');
    await waitFor(() => expect(created).toHaveBeenCalledWith('a-vg1-x'));
    expect(spec()).toEqual({ nodeName: 'a', deviceClassName: 'vg1', action: 'RepairThinPool' });
  });
  it('asks for node, action and volumes, and sends what was selected', async () => {
    const created = show();
    await press('apply');
    expect(has('why-not')?.textContent).toMatch(/Select a node/);
    await user.selectOptions(screen.getByRole('combobox', { name: /Node/ }), 'b');
    await press('apply');
    expect(has('why-not')?.textContent).toMatch(/Select an action/);
    await user.click(screen.getByRole('radio', { name: /^DeleteOrphans/ }));
    await press('apply');
    expect(has('why-not')?.textContent).toMatch(/at least one volume/);
    await user.click(screen.getByRole('checkbox', { name: 'Select volume lv-2' }));
    reply = () => [403, { message: 'forbidden' }];
    await press('apply');
    await waitFor(() => expect(has('why-not')?.textContent).toMatch(/forbidden/));
    expect(created).not.toHaveBeenCalled();
    reply = () => [201, { metadata: { name: 'b-vg1-y' } }];
    await press('apply');
    await waitFor(() => expect(created).toHaveBeenCalledWith('b-vg1-y'));
    expect(spec()).toEqual({ nodeName: 'b', deviceClassName: 'vg1', action: 'DeleteOrphans', volumes: ['lv-2'] });
  });
  it('imports with claims, and forgets volumes when the node changes: their names mean others there', async () => {
    show();
    await user.selectOptions(screen.getByRole('combobox', { name: /Node/ }), 'a');
    await user.click(screen.getByRole('radio', { name: /^ImportVolumes/ }));
    await user.click(screen.getByRole('checkbox', { name: 'Select volume lv-1' }));
    await user.selectOptions(screen.getByRole('combobox', { name: /Node/ }), 'b');
    expect(screen.getByRole<HTMLInputElement>('checkbox', { name: 'Select volume lv-1' }).checked).toBe(false);
    await user.click(screen.getByRole('checkbox', { name: 'Select volume lv-2' }));
    await user.type(screen.getByRole('textbox', { name: 'Claim for volume lv-2' }), 'shop/logs');
    await user.type(screen.getByRole('textbox', { name: 'Other volumes' }), 'lv-9 shop/old');
    await press('apply');
    await waitFor(() => expect(spec()).toMatchObject({ nodeName: 'b', volumes: ['lv-2', 'lv-9'], claims: [{ volume: 'lv-2', namespace: 'shop', name: 'logs' }, { volume: 'lv-9', namespace: 'shop', name: 'old' }] }));
  });
});

describe('the tables of a plan', () => {
  const everything = plan({
    devices: [{ uuid: 'pv-1', name: '/dev/sdb', deviceID: 'wwn:1' }], thinPools: [{ name: 'pool', size: 2 ** 30 }], lostVolumeCount: 1005, lostVolumes: Array.from({ length: 1000 }, (_, i) => ({ name: `v${i}`, claim: `shop/c${i}` })),
    damagedVolumes: [{ name: 'd', lostBytes: 2 ** 20 }], mountedVolumes: [{ name: 'm', allocatedBytes: 2 ** 30, usedBytes: 2 ** 20 }],
    importedVolumes: [{ name: 'i', claim: 'shop/new', persistentVolume: 'pvc-1' }, { name: 'j', claim: 'shop/moved', persistentVolume: 'pvc-2', fromNode: 'old', fsType: 'xfs' }], checkedVolumes: [{ name: 'k', finding: 'bad magic' }],
  });
  it('have all lists, and of a long one only what is in sight', () => {
    render(tree(<PlanTables plan={everything} done={false} />));
    for (const id of ['devices', 'pools', 'lost', 'damaged', 'mounted', 'imported', 'checked']) expect(has(`plan-${id}`), id).not.toBeNull();
    expect(has('plan-lost')?.querySelectorAll('tbody tr').length).toBeLessThan(60);
    expect(has('plan-lost')?.textContent).toMatch(/Lost volumes \(1000\).*5 of the lost volumes are not listed/);
    // What is not imported yet is no link; what moves is.
    expect(screen.queryByRole('link', { name: 'shop/new' })).toBeNull();
    expect(screen.getByRole('link', { name: 'shop/moved' })).toBeTruthy();
    expect(has('plan-imported')?.textContent).toMatch(/Block/);
  });
  it('link what was imported, and leave out what is empty', () => {
    render(tree(<PlanTables plan={{ ...everything, lostVolumes: [], lostVolumeCount: 0 }} done />));
    expect(screen.getByRole('link', { name: 'pvc-1' })).toBeTruthy();
    expect(has('plan-lost')).toBeNull();
  });
});
