import { cleanup, render, waitFor } from '@testing-library/react';
import { createInstance } from 'i18next';
import { I18nextProvider, initReactI18next } from 'react-i18next';
import { MemoryRouter } from 'react-router';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import type { Device, LogicalVolume, NodeStatus } from '../api/types';
import { DeviceTable } from '../components/DeviceTable';
import type { Watched } from '../kube/watch';
import { Unbound } from './ClaimTab';
import { SlotsCard } from './SlotsCard';
import { SnapshotsCard } from './SnapshotsCard';
import { UseCard } from './UseCard';

const i18n = createInstance();
void i18n.use(initReactI18next).init({ lng: 'en', resources: {}, nsSeparator: '~', keySeparator: false, interpolation: { escapeValue: false }, react: { useSuspense: false } });

let volumes: Watched<LogicalVolume[]>;
let created: Watched<LogicalVolume | undefined>;
let named: string | undefined;
vi.mock('../kube/watch', async (original) => ({ ...(await original<object>()), useLogicalVolumes: () => volumes, useLogicalVolume: (name: string) => (named = name, created) }));

class Observer {
  observe = () => undefined;
  disconnect = () => undefined;
}
beforeEach(() => {
  volumes = { data: [], loaded: true };
  vi.stubGlobal('ResizeObserver', Observer);
});
afterEach(() => {
  cleanup();
  vi.unstubAllGlobals();
});
const show = (node: JSX.Element) => render(<I18nextProvider i18n={i18n}><MemoryRouter>{node}</MemoryRouter></I18nextProvider>);
const text = (id: string) => document.querySelector(`[data-test="${id}"]`)?.textContent ?? '';

const lv = (name: string, more: Partial<LogicalVolume['spec']> = {}, claim = ''): LogicalVolume => ({
  metadata: { name, annotations: claim ? { 'lvm.topolvm.io/claim': claim } : {} }, spec: { name, nodeName: 'a', size: '1Gi', deviceClass: 'vg1', ...more }, status: { volumeID: name, currentSize: '1Gi' },
});

describe('a claim without a volume', () => {
  const claim = { metadata: { name: 'data', uid: 'u1' } };
  it('says how much is copied', () => {
    created = { data: { ...lv('pvc-u1', { source: 's' }), status: { code: 10, message: 'the data is copied: 3 of 12 MiB (25 %)' } }, loaded: true };
    show(<Unbound claim={claim} />);
    expect([text('copying'), text('unbound'), named]).toEqual([expect.stringContaining('The volume is being copiedthe data is copied: 3 of 12 MiB (25 %)'), '', 'pvc-u1']);
  });
  it('refers to the events if nothing is copied, and says what could not be read', () => {
    created = { data: undefined, loaded: true };
    show(<Unbound claim={claim} />);
    expect([text('copying'), text('unbound'), text('read-error')]).toEqual(['', expect.stringContaining('events of the claim'), '']);
    cleanup();
    created = { data: undefined, loaded: true, error: 'forbidden' };
    show(<Unbound claim={claim} />);
    expect(text('read-error')).toContain('forbidden');
  });
});

describe('the slots of a node', () => {
  const disk = (n: number, more: Partial<Device> = {}): Device => ({ name: `/dev/sd${n}`, type: 'disk', state: 'InUse', byPath: [`pci-0000:00:1f.2-ata-${n}`], volumeGroup: 'vg1', pvUUID: `u${n}`, ...more });
  const pv = (n: number) => ({ uuid: `u${n}`, name: `/dev/sd${n}`, state: 'Ready' as const, size: '10Gi', free: '4Gi' });
  const status = (...members: number[]): NodeStatus => ({ metadata: { name: 'a' }, status: { devices: members.map((n) => disk(n)), nodeStatus: [{ name: 'vg1', physicalVolumes: members.map(pv) }] } });

  it('a disk that is alone in its volume group has the volumes, and one of several can have them', () => {
    volumes = { data: [lv('x', {}, 'shop/data')], loaded: true };
    show(<SlotsCard status={status(1)} known />);
    expect(text('slot-/dev/sd1')).toContain('Volumes with data on the device (1): shop/data');
    cleanup();
    show(<SlotsCard status={status(1, 2)} known />);
    expect(text('slot-/dev/sd2')).toContain('which can have data on this disk (1): shop/data');
  });

  it('volumes that could not be read are not none', () => {
    show(<SlotsCard status={status(1)} known />);
    expect(text('slot-/dev/sd1')).toContain('The volume group has no volumes.');
    cleanup();
    volumes = { data: [], loaded: true, error: 'forbidden' };
    show(<SlotsCard status={status(1)} known />);
    expect(text('slot-/dev/sd1')).not.toContain('no volumes');
    expect(text('read-error')).toContain('forbidden');
  });

  it('the node agent says on which disk a volume is; of others, the disks are unknown', async () => {
    const [x, y] = [lv('x', {}, 'shop/data'), lv('y', {}, 'shop/logs')];
    x.metadata.uid = 'ux';
    y.metadata.uid = 'uy';
    volumes = { data: [x, y], loaded: true };
    const asked: string[] = [];
    vi.stubGlobal('fetch', (url: string) => {
      asked.push(new URLSearchParams(url.split('?')[1]).get('query') ?? '');
      return Promise.resolve(Response.json({ status: 'success', data: { resultType: 'vector', result: [{ metric: { node: 'a', volume: 'ux', device: '/dev/sd1', physical_volume: 'u1' }, value: [0, '1'] }] } }));
    });
    show(<SlotsCard status={status(1, 2)} known />);
    await waitFor(() => expect(text('slot-/dev/sd1')).toContain('Volumes with data on the device (1): shop/data'));
    expect(text('slot-/dev/sd2')).not.toContain('shop/data');
    expect(text('slot-/dev/sd2')).toContain('Volumes whose disks are unknown (1): shop/logs');
    expect(asked).toEqual(['topk(2000, lvms_volume_device_info{node="a"})']);
  });

  it('without an answer, a volume can be on each disk', async () => {
    volumes = { data: [lv('x', {}, 'shop/data')], loaded: true };
    let answered = 0;
    vi.stubGlobal('fetch', () => Promise.resolve(new Response('no', { status: 502 })).finally(() => answered++));
    show(<SlotsCard status={status(1, 2)} known />);
    await waitFor(() => expect(answered).toBe(1));
    for (const disk of ['sd1', 'sd2']) expect(text(`slot-/dev/${disk}`)).toContain('which can have data on this disk (1): shop/data');
  });

  it('a long list ends, and says how many disks are missing', () => {
    show(<SlotsCard status={status(...Array.from({ length: 70 }, (_, i) => i))} known />);
    expect(document.querySelectorAll('li')).toHaveLength(64);
    expect(text('slots')).toContain('6 more disks are in the table Local disks.');
  });

  it('a list that is not known is not empty', () => {
    show(<SlotsCard known={false} />);
    expect(text('slots')).toContain('Unknown');
    expect(text('slots')).not.toContain('listed');
  });
});

describe('the snapshots of a volume', () => {
  const source = lv('pvc-1');
  it('are those of this volume, with its clones', () => {
    show(<SnapshotsCard source={source} all={{ data: [source, lv('s', { source: 'pvc-1', accessType: 'ro' }, 'shop/nightly'), lv('c', { source: 'pvc-1', accessType: 'rw' }), lv('o', { source: 'pvc-2', accessType: 'ro' })], loaded: true }} />);
    expect([...document.querySelectorAll('tbody tr')].map((tr) => tr.textContent?.slice(0, 20))).toEqual([expect.stringMatching(/^cClone/), expect.stringMatching(/^shop\/nightlySnapshot/)]);
  });
  it('are not those that a move created', () => {
    const own = lv('move-1', { source: 'pvc-1', accessType: 'ro' }, 'shop/data');
    own.metadata.annotations = { ...own.metadata.annotations, 'lvm.topolvm.io/move': 'u1' };
    show(<SnapshotsCard source={source} all={{ data: [source, own], loaded: true }} />);
    expect(document.body.textContent).toMatch(/This volume has no snapshots or clones\./);
  });
  it.each([['none', { loaded: true }, 'This volume has no snapshots or clones.'], ['unknown', { loaded: true, error: 'forbidden' }, 'Unknown'], ['not read yet', { loaded: false }, 'Unknown']])('%s', (_, state, wanted) => {
    show(<SnapshotsCard source={source} all={{ data: [], ...state }} />);
    expect(document.querySelector('tbody')?.textContent).toBe(wanted);
  });
});

describe('the usage of a claim', () => {
  const asked: URLSearchParams[] = [];
  const answering = (of: (query: string) => Response) =>
    vi.stubGlobal('fetch', (url: string) => {
      const parameters = new URLSearchParams(url.split('?')[1]);
      asked.push(parameters);
      return Promise.resolve(of(parameters.get('query') ?? ''));
    });
  const matrix = (value: string) => Response.json({ status: 'success', data: { resultType: 'matrix', result: [{ metric: {}, values: [[Date.now() / 1000 - 60, value]] }] } });

  it('has the file system and the thin pool, from the metrics of its namespace', async () => {
    answering((query) => matrix(query.includes('kubelet') ? String(2 ** 30) : String(3 * 2 ** 30)));
    show(<UseCard namespace="shop" claim="data" volume="uid" thin size={10 * 2 ** 30} />);
    await waitFor(() => expect(text('use')).toMatch(/Used in the file system.*1 GiB.*Data written.*3 GiB/));
    expect(asked.every((p) => p.get('namespace') === 'shop')).toBe(true);
  });
  it('of a thick volume is that of the file system alone', async () => {
    answering(() => matrix('1'));
    show(<UseCard namespace="shop" claim="data" volume="uid" thin={false} />);
    await waitFor(() => expect(text('use')).toContain('Used in the file system'));
    expect(text('use')).not.toContain('Data written');
  });
  it('that could not be read is told, not empty', async () => {
    answering(() => new Response('no', { status: 502 }));
    show(<UseCard namespace="shop" claim="data" volume="uid" thin />);
    await waitFor(() => expect(text('series-unknown')).toContain('Metrics unavailable'));
    expect(text('series-empty')).toBe('');
  });
});

it('devices in use have no column that asks why they are not used', () => {
  show(<DeviceTable rows={[{ node: 'a', device: { name: '/dev/sda', state: 'InUse', volumeGroup: 'vg1' }, suspended: false }]} empty="" />);
  expect([...document.querySelectorAll('th')].map((th) => th.textContent)).toEqual(['Node', 'Device', 'Size', 'State', 'Model', 'Details']);
  expect(document.querySelector('tbody')?.textContent).toContain('In volume group vg1');
});
