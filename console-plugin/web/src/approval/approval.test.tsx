import { cleanup, render, screen, waitFor } from '@testing-library/react';
import userEvent from '@testing-library/user-event';
import { createInstance } from 'i18next';
import { I18nextProvider, initReactI18next } from 'react-i18next';
import { MemoryRouter } from 'react-router';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import type { Device, DeviceApproval, DeviceClass, Node, NodeStatus } from '../api/types';
import { newApproval, waitingOf, type Effect, type Waiting } from '../model/approval';
import { ApprovalsCard } from './ApprovalsCard';
import { ApproveDialog } from './ApproveDialog';
import { RevokeDialog } from './RevokeDialog';
import { WaitingAlerts } from './WaitingAlerts';

const i18n = createInstance();
void i18n.use(initReactI18next).init({ lng: 'en', resources: {}, nsSeparator: '~', keySeparator: false, interpolation: { escapeValue: false }, react: { useSuspense: false } });

const print = (n: number): string => `v1-0${n}23456789abcdef0123456789abcdef`;
const reasons = (reason: string) => [{ deviceClass: 'vg1', eligible: false, reasons: [reason] }];
const dev = (n: string, more: Partial<Device> = {}): Device => ({ name: `/dev/sd${n}`, id: `wwn:${n}`, byID: [`wwn-${n}`], size: '100Gi', model: 'M', serial: `S${n}`, state: 'Available', fingerprint: print(1), firstSeen: '2026-01-02T00:00:00Z', eligibility: reasons('AwaitingApproval'), ...more });
const status = (...devices: Device[]): NodeStatus => ({ metadata: { name: 'a' }, status: { devices, nodeStatus: [{ name: 'vg1' }] } });

let written: unknown[] = [];
/** What the node lists when it is asked. */
let listed: NodeStatus;
let reply: (url: string, method: string) => [number, unknown] | undefined;
beforeEach(() => {
  written = [];
  listed = status();
  reply = () => undefined;
  vi.stubGlobal('fetch', (url: string, init: RequestInit = {}) => {
    const method = init.method ?? 'GET';
    const [code, body] =
      reply(url, method) ??
      (url.endsWith('selfsubjectreviews') ? [201, { status: { userInfo: { username: 'ann' } } }]
      : url.endsWith('selfsubjectaccessreviews') ? [201, { status: { allowed: true } }]
      : method === 'GET' ? [200, listed] : [201, {}]);
    if (/lvmdeviceapprovals/.test(url) && method !== 'GET' && code < 300) written.push(JSON.parse(init.body as string));
    return Promise.resolve(new Response(JSON.stringify(body), { status: code as number, headers: { 'Content-Type': 'application/json' } }));
  });
});
afterEach(() => {
  cleanup();
  vi.unstubAllGlobals();
});

const user = userEvent.setup();
const has = (id: string) => document.querySelector(`[data-test="${id}"]`);
const press = (id: string) => user.click(has(id) as Element);
const ready = () => waitFor(() => expect((has('apply') as HTMLButtonElement).disabled).toBe(false));
const tree = (element: React.ReactNode) => (
  <I18nextProvider i18n={i18n}>
    <MemoryRouter>{element}</MemoryRouter>
  </I18nextProvider>
);

describe('the dialog', () => {
  const show = (shown: NodeStatus, effect: (w: Waiting) => Effect = () => 'use') => {
    listed = shown;
    const close = vi.fn();
    const opened = waitingOf([shown]);
    const element = (now: NodeStatus) => tree(<ApproveDialog namespace="ns" opened={opened} statuses={[now]} effect={effect} close={close} />);
    const view = render(element(shown));
    return { close, now: (s: NodeStatus) => view.rerender(element(s)) };
  };
  it('says what happens and as whom, and writes an approval for each device', async () => {
    const { close } = show(status(dev('b'), dev('c')));
    await waitFor(() => expect(screen.getByText('You approve as ann.')).toBeTruthy());
    expect(has('consequences')?.textContent).toMatch(/volume groups of device class vg1.*does not allow a device to be wiped/);
    expect(has('dialog')?.textContent).toContain(print(1));
    await press('apply');
    await waitFor(() => expect(close).toHaveBeenCalledOnce());
    expect(written).toEqual(waitingOf([listed]).map((w) => newApproval(w, 'ns', 'ann')));
  });
  it('writes nothing before the destruction of content is confirmed', async () => {
    const { close } = show(status(dev('b')), () => 'wipe');
    await ready();
    await press('apply');
    expect(has('unconfirmed')).not.toBeNull();
    expect(written).toEqual([]);
    await user.click(screen.getByRole('checkbox', { name: /content of these devices is destroyed/ }));
    await press('apply');
    await waitFor(() => expect(close).toHaveBeenCalledOnce());
    expect(written).toHaveLength(1);
  });
  it('does not approve a device that has changed: the new one is shown, and confirmed again', async () => {
    const { now, close } = show(status(dev('b'), dev('c')), () => 'wipe');
    await ready();
    await user.click(screen.getByRole('checkbox', { name: /content of these devices is destroyed/ }));
    const next = status(dev('b', { fingerprint: print(2), eligibility: reasons('ChangedSinceReview') }));
    now(next);
    expect(has('obstacle')?.textContent).toMatch(/sdb.*has changed in the meantime \(ChangedSinceReview\).*sdc.*no longer lists/);
    expect((has('apply') as HTMLButtonElement).disabled).toBe(true);
    listed = next;
    await press('show-new');
    expect(has('obstacle')).toBeNull();
    expect(has('consequences')?.textContent).toMatch(/1 devices were approved before, and have changed/);
    await press('apply');
    expect(written).toEqual([]);
    await user.click(screen.getByRole('checkbox', { name: /content of these devices is destroyed/ }));
    await press('apply');
    await waitFor(() => expect(close).toHaveBeenCalledOnce());
    expect(written).toMatchObject([{ spec: { fingerprint: print(2) } }]);
  });
  it('asks the node again before it writes, and keeps what was not approved', async () => {
    const { close } = show(status(dev('b'), dev('c'), dev('d', { id: undefined, byID: [] })));
    await ready();
    listed = status(dev('b'), dev('c', { fingerprint: print(2) }), dev('d', { id: undefined, byID: [] }));
    reply = (url, method) => (method === 'POST' && written.length === 1 && url.includes('lvmdeviceapprovals') ? [422, { message: 'approvedBy: it must be the user' }] : undefined);
    await press('apply');
    await waitFor(() => expect(has('why-not')?.textContent).toMatch(/2 devices were not approved.*sdc.*ChangedSinceReview.*sdd.*it must be the user/));
    expect(has('approved')?.textContent).toMatch(/1 devices were approved/);
    expect(close).not.toHaveBeenCalled();
    expect(written).toHaveLength(1);
  });
  it('stops when the cluster does not respond, and names an approval that is for another device', async () => {
    show(status(dev('b'), dev('c')));
    await ready();
    reply = (url, method) => (method === 'POST' && url.includes('lvmdeviceapprovals') ? [409, { reason: 'AlreadyExists' }] : url.includes('/lvmdeviceapprovals/') ? [200, { spec: {} }] : undefined);
    await press('apply');
    await waitFor(() => expect(has('why-not')?.textContent).toMatch(/a-vg1-0123456789ab already exists, and is for another device/));
    let asked = 0;
    reply = (url) => (url.includes('lvmvolumegroupnodestatuses') ? (asked++, [502, {}]) : undefined);
    await press('apply');
    await waitFor(() => expect(has('why-not')?.textContent).toMatch(/unknown whether the change was saved/));
    expect(asked).toBe(1);
  });
  it('does not approve without the name of the user', async () => {
    reply = (url) => (url.endsWith('selfsubjectreviews') ? [403, { message: 'forbidden' }] : undefined);
    show(status(dev('b')));
    await waitFor(() => expect(has('no-user')?.textContent).toMatch(/forbidden/));
    expect((has('apply') as HTMLButtonElement).disabled).toBe(true);
  });
});

describe('the card of a device class', () => {
  const loaded = <T,>(data: T) => ({ data, loaded: true });
  const node: Node = { metadata: { name: 'a' } };
  const approval: DeviceApproval = { ...newApproval(waitingOf([status(dev('b'))])[0] as Waiting, 'ns', 'bob'), metadata: { name: 'x', namespace: 'ns', uid: 'u1', creationTimestamp: '2026-01-01T00:00:00Z' } };
  const show = (c: DeviceClass | undefined, statuses: NodeStatus[], approvals: DeviceApproval[] = [], failed = false) =>
    render(tree(<ApprovalsCard namespace="ns" c={c} statuses={{ ...loaded(statuses), ...(failed ? { error: 'x' } : {}) }} nodes={loaded([node])} waiting={waitingOf(statuses, 'vg1')} approvals={{ ...loaded(approvals), ...(failed ? { error: 'x' } : {}) }} />));
  const required: DeviceClass = { name: 'vg1', approval: 'Required' };
  it('lists what a reviewer needs, and approves several at once', async () => {
    const s = status(dev('b'), dev('c', { fingerprint: undefined, state: 'Unknown' }), dev('d', { eligibility: reasons('ChangedSinceReview') }));
    listed = s;
    show(required, [s]);
    expect(has('await')?.textContent).toMatch(/3 devices await approval.*1 of them have changed/);
    for (const text of ['wwn-b', 'Sb', '100 GiB', 'v1-01234567…', 'has changed since it was approved', 'has no fingerprint', 'Blank']) expect(has('waiting')?.textContent).toContain(text);
    expect(has('approve-selected')?.getAttribute('aria-disabled')).toBe('true');
    expect(screen.getByRole('button', { name: 'Approve /dev/sdc on node a' }).getAttribute('aria-disabled')).toBe('true');
    expect(screen.getByRole<HTMLInputElement>('checkbox', { name: /wwn-c/ }).disabled).toBe(true);
    await press('select-all');
    await user.click(screen.getByRole('checkbox', { name: /wwn-d/ }));
    expect(has('approve-selected')?.textContent).toContain('(1)');
    await user.click(screen.getByRole('checkbox', { name: /wwn-d/ }));
    await press('approve-selected');
    await ready();
    await press('apply');
    await waitFor(() => expect(has('dialog')).toBeNull());
    expect(written.map((a) => (a as DeviceApproval).spec.device)).toEqual(['/dev/disk/by-id/wwn-d', '/dev/disk/by-id/wwn-b']);
    expect(has('approve-selected')?.textContent).toContain('(0)');
  });
  it('says what permission is missing, and opens nothing', async () => {
    reply = (url) => (url.endsWith('selfsubjectaccessreviews') ? [201, { status: { allowed: false } }] : undefined);
    show(required, [status(dev('b'))], [approval]);
    await waitFor(() => expect(screen.getByText(/You lack permission to create lvmdeviceapprovals/)).toBeTruthy());
    expect(screen.getByText(/You lack permission to delete lvmdeviceapprovals/)).toBeTruthy();
    await user.click(screen.getByRole('button', { name: 'Approve /dev/sdb on node a' }));
    await user.click(screen.getByRole('button', { name: /^Revoke the approval/ }));
    expect(has('dialog')).toBeNull();
  });
  it('lists approvals with who gave them, and revokes one', async () => {
    show(required, [status(dev('b', { eligibility: [] }))], [approval]);
    for (const text of ['bob', 'Approved, not used yet', '2026']) expect(has('approvals')?.textContent).toContain(text);
    await user.click(screen.getByRole('button', { name: 'Revoke the approval of /dev/disk/by-id/wwn-b on node a' }));
    expect(has('effect')?.textContent).toMatch(/awaits approval again/);
    await press('apply');
    await waitFor(() => expect(has('dialog')).toBeNull());
    expect(written).toEqual([{ apiVersion: 'v1', kind: 'DeleteOptions', preconditions: { uid: 'u1' } }]);
  });
  it('what could not be read is not shown as empty', () => {
    show(required, [], [], true);
    expect(has('approvals')?.textContent).not.toMatch(/No device/);
    expect(screen.getAllByText('Unknown')).toHaveLength(2);
  });
  it('says that approvals have no effect if the device class requires none', () => {
    show({ name: 'vg1' }, [status(dev('b', { eligibility: [] }))], [approval]);
    expect(has('not-required')).not.toBeNull();
    expect(has('waiting')).toBeNull();
  });
});

it('a revocation that is refused says why, and one without effect says so', async () => {
  const close = vi.fn();
  const approval = newApproval(waitingOf([status(dev('b'))])[0] as Waiting, 'ns', 'bob');
  render(tree(<RevokeDialog approval={approval} state="valid" required={false} close={close} />));
  expect(has('effect')?.textContent).toMatch(/requires no approvals at present/);
  reply = () => [409, { message: 'the UID in the precondition does not match' }];
  await press('apply');
  await waitFor(() => expect(has('why-not')?.textContent).toMatch(/does not match/));
  expect(close).not.toHaveBeenCalled();
});

it('alerts count the devices of each device class, and lead to them', () => {
  render(tree(<WaitingAlerts statuses={[status(dev('b'), dev('c', { eligibility: reasons('ChangedSinceReview') }), dev('d', { eligibility: [{ deviceClass: 'vg0', eligible: false, reasons: ['AwaitingApproval'] }] }))]} />));
  expect([...document.querySelectorAll('[data-test="await-alert"]')].map((e) => e.textContent)).toEqual([expect.stringMatching(/1 devices await approval for device class vg0/), expect.stringMatching(/2 devices await approval for device class vg1/)]);
  expect(screen.getAllByRole('link').map((l) => l.getAttribute('href'))).toEqual(['/local-volumes/class/vg0', '/local-volumes/class/vg1']);
});
