import { cleanup, render, screen, waitFor } from '@testing-library/react';
import userEvent from '@testing-library/user-event';
import { createInstance } from 'i18next';
import { I18nextProvider, initReactI18next } from 'react-i18next';
import { MemoryRouter } from 'react-router';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import type { LogicalVolume, LVMCluster, MovePhase, NodeStatus, VolumeMove } from '../api/types';
import type { MovePermissions, Watched } from '../kube/watch';
import { newCluster, withClasses } from '../model/cluster';
import { volumesOf, type Volume } from '../model/volumes';
import { ClaimMove } from './ClaimMove';
import { MoveAction } from './MoveAction';
import { MovesCard } from './MovesCard';
import { UndoDialog } from './UndoDialog';

const i18n = createInstance();
void i18n.use(initReactI18next).init({ lng: 'en', resources: {}, nsSeparator: '~', keySeparator: false, interpolation: { escapeValue: false }, react: { useSuspense: false } });

const GiB = 2 ** 30;
let moves: Watched<VolumeMove[]>;
let statuses: Watched<NodeStatus[]>;
let volumes: Watched<LogicalVolume[]>;
let clusters: Watched<LVMCluster[]>;
let permissions: MovePermissions;
vi.mock('../kube/watch', async (original) => ({
  ...(await original<object>()), useMoves: () => moves, useNodeStatuses: () => statuses, useLogicalVolumes: () => volumes, useClusters: () => clusters, useMovePermissions: () => permissions,
}));

const move = (phase?: MovePhase, more: Partial<VolumeMove['status']> & object = {}, meta: object = {}): VolumeMove => ({
  metadata: { name: 'shop-data-x', namespace: 'ns', uid: 'u1', resourceVersion: '5', ...meta }, spec: { claim: { namespace: 'shop', name: 'data' } }, ...(phase ? { status: { phase, sourceNode: 'a', targetNode: 'b', ...more } } : {}),
});
const lv = (name: string, claim: string, size = '1Gi', more: object = {}): LogicalVolume => ({
  metadata: { name, annotations: { 'lvm.topolvm.io/claim': claim } }, spec: { name, nodeName: 'a', size, deviceClass: 'thin', ...more }, status: { volumeID: name, currentSize: size },
});
const status = (node: string, free: string, thick?: string): NodeStatus => ({
  metadata: { name: node }, status: { nodeStatus: [{ name: 'thin', thinPool: { name: 'p', size: '100Gi', metadataSize: '1Gi', dataPercent: 10, metadataPercent: 1, virtualSize: '1Gi', free } }, ...(thick ? [{ name: 'thick', free: thick }] : [])] },
});

let sent: { method: string; url: string; body: unknown }[] = [];
let stored: VolumeMove;
let reply: (method: string, n: number) => [number, unknown] | undefined;
beforeEach(() => {
  sent = [];
  reply = () => undefined;
  stored = move('Copying');
  permissions = { loaded: true, create: true, remove: true };
  moves = { data: [], loaded: true };
  volumes = { data: [lv('pvc-1', 'shop/data', '8Gi'), lv('pvc-2', 'shop/more', '2Gi')], loaded: true };
  statuses = { data: [status('a', '10Gi'), status('b', '50Gi'), status('c', '4Gi')], loaded: true };
  clusters = { data: [withClasses(newCluster('ns', 'c'), [{ name: 'thin', thinPoolConfig: { name: 'p', overprovisionRatio: 10 } }, { name: 'thick' }])], loaded: true };
  vi.stubGlobal('fetch', (url: string, init: RequestInit = {}) => {
    const method = init.method ?? 'GET';
    sent.push({ method, url, body: init.body ? JSON.parse(init.body as string) : undefined });
    const [code, body] = reply(method, sent.filter((s) => s.method === method).length) ?? [200, stored];
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
const isDisabled = () => (has('apply') as HTMLButtonElement).disabled;
const created = () => sent.filter((s) => s.method === 'POST').map((s) => s.body as VolumeMove);
const tree = (element: React.ReactNode) => <I18nextProvider i18n={i18n}><MemoryRouter>{element}</MemoryRouter></I18nextProvider>;

describe('the dialog that undoes a move', () => {
  const show = (opened: VolumeMove) => {
    const deleted = vi.fn();
    stored = opened;
    const element = (now?: VolumeMove) => tree(<UndoDialog opened={opened} now={now} close={vi.fn()} deleted={deleted} />);
    const view = render(element(opened));
    return { deleted, now: (m?: VolumeMove) => view.rerender(element(m)) };
  };
  it.each<[VolumeMove, string, RegExp]>([
    [move(), 'Undo move', /^The copy is deleted, and the volume stays on its node\.$/], [move('Pending'), 'Undo move', /^The copy is deleted, and the volume stays on node a\.$/], [move('WaitingForPods'), 'Undo move', /stays on node a/],
    [move('Switching'), 'Undo move', /If the volume is not switched yet.*stays on node a.*If the volume is already switched, it stays on node b\. The old logical volume on node a is removed as soon as the volume on node b is known to be good, and is erased like a deleted volume.*Until then, it is kept.*lvm\.topolvm\.io\/allow-source-removal=true/],
    [move('KeepingSource'), 'Remove old logical volume', /^The volume stays on node b\.The old logical volume on node a is removed as soon as the volume on node b is known to be good, and is erased like a deleted volume\.Until then, it is kept.*set the annotation lvm\.topolvm\.io\/allow-source-removal=true on the move\.To move the volume back/],
    [move('Copying', { thick: true }), 'Undo move', /^The volume is opened at once, and the copy is discarded\.The volume stays on node a\.$/],
    [move('WaitingForPods', { thick: true }), 'Undo move', /^The copy is deleted, and the volume stays on node a\.$/],
    [move('Completed'), 'Delete', /^The volume stays on node b\.Only the record/], [move('Failed'), 'Delete', /^The volume stays on node a\.Only the record/],
  ])('says what happens: %j', async (opened, button, effect) => {
    const { deleted } = show(opened);
    expect([has('apply')?.textContent, has('effect')?.textContent]).toEqual([button, expect.stringMatching(effect)]);
    await press('apply');
    await waitFor(() => expect(deleted).toHaveBeenCalledOnce());
    expect(sent.map((s) => s.method)).toEqual(['GET', 'DELETE']);
  });
  it('does not delete what does something else by now, before this is shown', async () => {
    const { now, deleted } = show(move('WaitingForPods'));
    now(move('KeepingSource'));
    expect([has('obstacle')?.textContent, isDisabled(), has('effect')?.textContent]).toEqual([expect.stringMatching(/phase of the move has changed/), true, expect.stringMatching(/The copy is deleted/)]);
    stored = move('KeepingSource');
    await press('show-new');
    expect([has('obstacle'), isDisabled(), has('effect')?.textContent]).toEqual([null, false, expect.stringMatching(/old logical volume on node a is removed as soon as/)]);
    await press('apply');
    await waitFor(() => expect(deleted).toHaveBeenCalledOnce());
  });
  it('notices a change that only the API server knows', async () => {
    const { deleted } = show(move('WaitingForPods'));
    stored = move('KeepingSource');
    await press('apply');
    await waitFor(() => expect(has('obstacle')?.textContent).toMatch(/Nothing was deleted/));
    expect([isDisabled(), sent.filter((s) => s.method === 'DELETE'), deleted.mock.calls.length]).toEqual([true, [], 0]);
    await press('show-new');
    expect(has('effect')?.textContent).toMatch(/removed as soon as/);
  });
  it('is of no use once the move is gone', () => {
    const { now } = show(move('Copying'));
    now(undefined);
    expect([has('obstacle')?.textContent, isDisabled()]).toEqual([expect.stringMatching(/was deleted in the meantime/), true]);
  });
  it('says why it was not deleted', async () => {
    const { deleted } = show(move('Copying'));
    reply = (method) => (method === 'DELETE' ? [403, { message: 'forbidden' }] : undefined);
    await press('apply');
    await waitFor(() => expect(has('why-not')?.textContent).toMatch(/was not deleted.*forbidden/));
    reply = () => [502, {}];
    await press('apply');
    await waitFor(() => expect(has('why-not')?.textContent).toMatch(/unknown whether the change was saved/));
    expect(deleted).not.toHaveBeenCalled();
  });
});

describe('the move of a claim', () => {
  const show = () => render(tree(<ClaimMove namespace="ns" claim="shop/data" />));
  it('has progress, Pods, and a way back', async () => {
    moves.data = [move('WaitingForPods', { message: 'ends when no Pod uses the volume: shop/p', round: 2, copiedBytes: GiB, totalBytes: 4 * GiB, pods: ['shop/p'], podCount: 12 })];
    show();
    expect(has('claim-move')?.textContent).toMatch(/being moved to node b.*Waiting for Pods.*1 GiB of 4 GiB.*25%.*ends when no Pod.*shop\/p11 more/);
    expect(screen.getByRole('link', { name: 'shop/p' }).getAttribute('href')).toBe('/k8s/ns/shop/pods/p');
    expect(screen.getByRole('link', { name: 'Show move shop-data-x' }).getAttribute('href')).toBe('/local-volumes/move/shop-data-x');
    await press('undo');
    expect(has('effect')).not.toBeNull();
  });
  it('is not there if there is none, and a read that failed is said', () => {
    moves.data = [move('Completed')];
    show();
    expect([has('claim-move'), has('read-error')]).toEqual([null, null]);
    cleanup();
    moves = { data: [], loaded: true, error: 'forbidden' };
    show();
    expect(has('read-error')?.textContent).toMatch(/forbidden/);
  });
  it('cannot be undone without permission', async () => {
    permissions = { loaded: true, create: true, remove: false };
    moves.data = [move('Copying')];
    show();
    await press('undo');
    expect([has('effect'), has('claim-move')?.textContent]).toEqual([null, expect.stringMatching(/lack permission to delete/)]);
  });
});

describe('the button that moves a volume', () => {
  const show = (o: LogicalVolume) => render(tree(<MoveAction namespace="ns" volume={volumesOf([o], undefined)[0] as Volume} clusters={clusters} />));
  it('asks where and how, and creates the move', async () => {
    show(lv('pvc-1', 'shop/data', '8Gi'));
    await press('move-volume');
    expect([...document.querySelectorAll('#move-node option')].map((o) => o.textContent)).toEqual(['Any node', 'b (50 GiB free)', 'c (4 GiB free)']);
    expect(has('effect')?.textContent).toMatch(/copied to another node/);
    await user.selectOptions(screen.getByLabelText('To node'), 'c');
    expect([has('effect')?.textContent, has('small')?.textContent]).toEqual([expect.stringMatching(/copied to node c/), expect.stringMatching(/less free capacity/)]);
    await user.clear(screen.getByLabelText(/^Keep old/));
    await press('apply');
    expect([has('why-not')?.textContent, created()]).toEqual([expect.stringMatching(/between 0s and 8760h/), []]);
    await user.type(screen.getByLabelText(/^Keep old/), '1h');
    await press('apply');
    await waitFor(() => expect(has('dialog')).toBeNull());
    expect(created().map((m) => [m.metadata, m.spec])).toEqual([[{ namespace: 'ns', generateName: 'shop-data-' }, { claim: { namespace: 'shop', name: 'data' }, nodeName: 'c', maxPause: '30s', keepSource: '1h' }]]);
  });
  it('says how long the Pods of a thick volume cannot start, and asks for no maximum pause', async () => {
    statuses.data = [status('a', '10Gi', '9Gi'), status('b', '50Gi', '20Gi'), status('c', '4Gi')];
    show(lv('pvc-1', 'shop/data', '10Gi', { deviceClass: 'thick' }));
    await press('move-volume');
    expect([...document.querySelectorAll('#move-node option')].map((o) => o.textContent)).toEqual(['Any node', 'b (20 GiB free)']);
    expect(has('effect')?.textContent).toMatch(/thick: it is copied to another node only while no Pod uses it, and its Pods cannot start for about 3 min 24 sec at 100 MiB for each second/);
    expect(screen.queryByLabelText(/^Maximum pause/)).toBeNull();
    await user.selectOptions(screen.getByLabelText('To node'), 'b');
    expect(has('effect')?.textContent).toMatch(/copied to node b only while no Pod uses it/);
    await press('apply');
    await waitFor(() => expect(has('dialog')).toBeNull());
    expect(created().map((m) => m.spec)).toEqual([{ claim: { namespace: 'shop', name: 'data' }, nodeName: 'b', keepSource: '24h' }]);
  });
  it('stays open if the move was not created, and if somebody else has created one', async () => {
    const { rerender } = show(lv('pvc-1', 'shop/data'));
    await press('move-volume');
    reply = () => [403, { message: 'forbidden' }];
    await press('apply');
    await waitFor(() => expect(has('why-not')?.textContent).toMatch(/could not be created.*forbidden/));
    moves = { data: [move('Pending')], loaded: true };
    rerender(tree(<MoveAction namespace="ns" volume={volumesOf([lv('pvc-1', 'shop/data')], undefined)[0] as Volume} clusters={clusters} />));
    expect([has('obstacle')?.textContent, isDisabled()]).toEqual([expect.stringMatching(/shop-data-x already moves/), true]);
  });
  it.each<[string, () => void, LogicalVolume, RegExp | undefined]>([
    ['the device class is unknown', () => undefined, lv('x', 'shop/data', '1Gi', { deviceClass: 'other' }), /the LVMCluster has no device class "other"/],
    ['the user lacks the permission', () => (permissions = { loaded: true, create: false, remove: true }), lv('x', 'shop/data'), /lack permission to create volumemoves/],
    ['a move runs, which the page shows', () => (moves.data = [move('Copying')]), lv('x', 'shop/data'), undefined],
  ])('is disabled, with the reason: %s', async (_, prepare, o, reason) => {
    prepare();
    show(o);
    await press('move-volume');
    expect(has('dialog')).toBeNull();
    if (reason) expect(has('no-move')?.textContent).toMatch(reason);
  });
});

describe('the evacuation of a node', () => {
  const show = async () => {
    const element = tree(<MovesCard namespace="ns" node="a" />);
    const view = render(element);
    await press('evacuate');
    return () => view.rerender(tree(<MovesCard namespace="ns" node="a" />));
  };
  it('shows the plan, and creates a move for each volume that can be moved', async () => {
    volumes.data.push(lv('pvc-3', 'shop/large', '60Gi'), lv('s', 'shop/snap', '1Gi', { accessType: 'ro' }));
    await show();
    expect(has('plan')?.textContent).toMatch(/Node a: 2 volumes can be moved, 10 GiB\..*54 GiB free in device class thin.*The thin ones have at most 10 GiB of data. At 100 MiB for each second, their copies take at most about 1 min 42 sec/);
    expect(has('stays')?.textContent).toMatch(/2 volumes of node a cannot be moved/);
    expect(has('next-step')?.textContent).toMatch(/kubectl drain a --ignore-daemonsets --delete-emptydir-data/);
    expect(screen.queryByRole('link', { name: 'shop/snap' })).toBeNull();
    expect(created()).toEqual([]);
    await press('apply');
    await waitFor(() => expect(has('created')?.textContent).toMatch(/2 VolumeMoves were created/));
    expect(created().map((m) => m.spec)).toEqual([{ claim: { namespace: 'shop', name: 'data' } }, { claim: { namespace: 'shop', name: 'more' } }]);
    expect(has('apply')).toBeNull();
  });
  it('has a rate for the forecast', async () => {
    await show();
    const rate = screen.getByLabelText(/^Rate/);
    await user.clear(rate);
    await user.type(rate, '1Gi');
    expect(has('plan')?.textContent).toMatch(/At 1 GiB for each second, their copies take at most about 10 sec/);
    await user.clear(rate);
    await user.type(rate, '0');
    expect(has('bad-rate')).not.toBeNull();
  });
  it('moves thick volumes, and says how long their Pods cannot start', async () => {
    volumes.data = [lv('pvc-1', 'shop/data', '10Gi', { deviceClass: 'thick' }), lv('pvc-2', 'shop/more', '15Gi', { deviceClass: 'thick' }), lv('pvc-3', 'shop/large', '21Gi', { deviceClass: 'thick' })];
    statuses.data = [status('a', '10Gi', '9Gi'), status('b', '50Gi', '20Gi')];
    await show();
    expect(has('plan')?.textContent).toMatch(/1 volumes can be moved, 15 GiB\..*20 GiB free in device class thick\..*Device class thick: 1 moves stay Pending, because no other node has enough free capacity left\.Thick volumes are copied while their Pods are stopped/);
    expect(has('plan')?.textContent).not.toMatch(/thin ones/);
    expect(has('dialog')?.textContent).toMatch(/thick, 15 GiB, its Pods cannot start for about 5 min 8 sec at 100 MiB for each second.*Pending.*it has 10 GiB, and the moves above leave at most 5 GiB free on a node.*it has 21 GiB, and the other nodes have at most 20 GiB free in device class thick/);
    const rate = screen.getByLabelText(/^Rate/);
    await user.clear(rate);
    await user.type(rate, '1Gi');
    expect(has('dialog')?.textContent).toMatch(/thick, 15 GiB, its Pods cannot start for about 30 sec at 1 GiB/);
    await press('apply');
    await waitFor(() => expect(created().map((m) => m.spec)).toEqual([{ claim: { namespace: 'shop', name: 'more' } }, { claim: { namespace: 'shop', name: 'data' } }]));
  });
  it('names what failed, and creates the others', async () => {
    reply = (_, n) => (n === 1 ? [403, { message: 'quota' }] : undefined);
    await show();
    await press('apply');
    await waitFor(() => expect(has('why-not')?.textContent).toMatch(/1 VolumeMoves could not be created.*shop\/data: quota/));
    expect(has('created')?.textContent).toMatch(/1 VolumeMoves were created/);
  });
  it('ends if the cluster does not respond', async () => {
    reply = () => [502, {}];
    await show();
    await press('apply');
    await waitFor(() => expect(has('why-not')?.textContent).toMatch(/shop\/data: The cluster did not respond/));
    expect([created().length, has('created')]).toEqual([1, null]);
  });
  it('does not move again what is being moved', async () => {
    moves.data = [move('Copying')];
    await show();
    expect(has('plan')?.textContent).toMatch(/1 volumes can be moved/);
    await press('apply');
    await waitFor(() => expect(created().map((m) => m.spec.claim.name)).toEqual(['more']));
  });
  it.each<[string, () => void]>([
    ['the volumes', () => (volumes = { data: [], loaded: true, error: 'forbidden' })], ['the moves', () => (moves = { data: [], loaded: true, error: 'forbidden' })],
    ['the node statuses', () => (statuses = { data: [], loaded: true, error: 'forbidden' })], ['the LVMClusters', () => (clusters = { data: [], loaded: true, error: 'forbidden' })],
  ])('has no plan if %s could not be read', async (_, fail) => {
    fail();
    await show();
    expect([has('plan'), has('apply'), has('dialog')?.querySelector('[data-test=read-error]')?.textContent]).toEqual([null, null, expect.stringMatching(/forbidden/)]);
  });
  it('needs the permission', async () => {
    permissions = { loaded: true, create: false, remove: true };
    await show();
    expect([has('dialog'), has('moves')?.textContent]).toEqual([null, expect.stringMatching(/lack permission to create/)]);
  });
});

describe('the list', () => {
  it('of a node has its moves, with phase, progress and Pods', () => {
    moves.data = [
      move('WaitingForPods', { round: 1, copiedBytes: 3, totalBytes: 4, pods: ['shop/p', 'shop/q', 'shop/r'], podCount: 3 }), move('Pending', { queuePosition: 2, targetNode: undefined }, { name: 'second', uid: 'u2' }),
      move('Copying', { sourceNode: 'x', targetNode: 'y' }, { name: 'other', uid: 'u3' }),
    ];
    render(tree(<MovesCard namespace="ns" node="a" />));
    const text = has('moves')?.textContent;
    expect(text).toMatch(/shop-data-x.*a → b.*Waiting for Pods.*75%.*shop\/p, shop\/q and 1 more.*second.*a → –.*Pending.*Position 2 in the queue/);
    expect(text).not.toMatch(/other/);
  });
  it('that could not be read is not empty', () => {
    moves = { data: [], loaded: true, error: 'forbidden' };
    render(tree(<MovesCard namespace="ns" />));
    expect([has('moves')?.textContent, has('evacuate')]).toEqual([expect.stringMatching(/forbidden.*Unknown/), null]);
  });
});
