import { cleanup, fireEvent, render, screen, waitFor } from '@testing-library/react';
import type { ReactElement } from 'react';
import { MemoryRouter } from 'react-router';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import type { Device, NodeStatus } from '../api/types';
import type { Usage } from '../model/health';
import { CapacityDonut } from './CapacityDonut';
import DiskMap from './DiskMap';
import { Lazy, NotLoaded } from './lazy';
import { TimeSeries, type Line } from './TimeSeries';

// The drawings are for the browser tests: jsdom has no layout. Here is what is said beside them.
vi.mock('./DonutChart', () => ({ default: ({ title, subtitle }: { title: string; subtitle: string }) => `${title} ${subtitle}` }));
vi.mock('./SeriesChart', () => ({ default: ({ lines }: { lines: Line[] }) => `${lines.length} lines` }));
vi.mock('react-i18next', () => ({
  useTranslation: () => ({ t: (key: string, values: Record<string, unknown> = {}) => key.replace(/{{(\w+)}}/g, (_, name: string) => String(values[name])), i18n: { language: 'en' } }),
}));

class Observer {
  constructor(private readonly seen: (entries: { contentRect: { width: number } }[]) => void) {}
  observe() {
    this.seen([{ contentRect: { width: 600 } }]);
  }
  disconnect() {}
}
beforeEach(() => void vi.stubGlobal('ResizeObserver', Observer));
afterEach(() => {
  cleanup();
  vi.unstubAllGlobals();
});
const shown = (element: ReactElement) => render(<MemoryRouter>{element}</MemoryRouter>);

const GiB = 2 ** 30;
const pool = { name: 'p', size: '1', metadataSize: '1', dataPercent: 0, metadataPercent: 0 };
const usage = (node: string, more: Partial<Usage>): Usage => ({ deviceClass: 'vg1', node, group: { name: 'vg1', thinPool: pool }, stale: false, ...more });

describe('a donut of capacity', () => {
  it('says every number in words', async () => {
    shown(<CapacityDonut label="Capacity of vg1" usage={[usage('a', { size: 100 * GiB, used: 40 * GiB, virtual: 300 * GiB })]} loaded />);
    const text = screen.getByRole('group', { name: 'Capacity of vg1' }).textContent;
    for (const part of ['Used40 GiB', 'Free, provisioned60 GiB', 'Free, not provisioned0 B', 'Size100 GiB', 'Provisioned300 GiB']) expect(text).toContain(part);
    await screen.findByText('40% of 100 GiB');
  });
  it('of a thick class promises nothing', () => {
    shown(<CapacityDonut label="x" usage={[usage('a', { size: 100 * GiB, used: 40 * GiB, group: { name: 'vg1' } })]} loaded />);
    expect(screen.getByRole('group', { name: 'x' }).textContent).toContain('Free60 GiB');
    expect(screen.queryByText('Provisioned')).toBeNull();
  });
  it('is unknown, and not empty, if the usage could not be read', () => {
    const { rerender } = shown(<CapacityDonut label="x" usage={[]} loaded={false} />);
    expect(screen.getByText('Unknown')).toBeTruthy();
    rerender(<CapacityDonut label="x" usage={[usage('a', {})]} loaded />);
    expect(screen.getByText('Unknown')).toBeTruthy();
    rerender(<CapacityDonut label="x" usage={[]} loaded />);
    expect(screen.getByText(/No node has a volume group/)).toBeTruthy();
  });
  it('says that nodes are missing in it', () => {
    shown(<CapacityDonut label="x" usage={[usage('a', { size: GiB, used: 0 }), usage('b', {})]} loaded />);
    expect(screen.getByText('Without 1 nodes whose usage is unknown.')).toBeTruthy();
  });
});

describe('lines over time', () => {
  const line: Line = { label: 'vg1', points: [{ at: 0, value: 0.2 }, { at: 60_000, value: 0.6 }], forecast: [{ at: 60_000, value: 0.6 }, { at: 120_000, value: 0.9 }] };
  const at = (history: { loaded: boolean; error?: string; forbidden?: boolean }, lines: Line[] = [], namespace?: string) => (
    <TimeSeries label="Usage" lines={lines} thresholds={[{ label: 'Nearly full', value: 0.75, level: 'warning' }]} history={history} namespace={namespace} from={0} to={120_000} most={1} format={(v) => `${Math.round(v * 100)}%`} />
  );
  it('are drawn, with the values of now and the thresholds in words', async () => {
    shown(at({ loaded: true }, [line]));
    await screen.findByText('1 lines');
    const text = screen.getByRole('group', { name: 'Usage' }).textContent;
    for (const part of ['vg160%', 'Forecast', 'Nearly full75%']) expect(text).toContain(part);
  });
  it('are a table too', () => {
    shown(at({ loaded: true }, [line]));
    fireEvent.click(screen.getByRole('button', { name: 'Table' }));
    expect(screen.getAllByRole('cell').map((c) => c.textContent)).toEqual(['vg1', '60%', '20%', '60%', '90%']);
    expect(screen.queryByText('1 lines')).toBeNull();
  });
  it('are awaited, are not there yet, or could not be read: three different things', () => {
    const { rerender } = shown(at({ loaded: false }));
    expect(screen.getByText('Loading metrics')).toBeTruthy();
    rerender(at({ loaded: true }));
    expect(screen.getByText('No metrics in this period yet.')).toBeTruthy();
    rerender(at({ loaded: true, error: 'timeout' }));
    expect(screen.queryByText('No metrics in this period yet.')).toBeNull();
    expect(screen.getByText('Metrics unavailable: Prometheus is unreachable (timeout)')).toBeTruthy();
    rerender(at({ loaded: true, error: 'Forbidden', forbidden: true }, [], 'ns'));
    expect(screen.getByText(/lack permission to see the metrics of ns/)).toBeTruthy();
    rerender(at({ loaded: true, error: 'Forbidden', forbidden: true }));
    expect(screen.getByText(/cluster-monitoring-view/)).toBeTruthy();
  });
  it('stay when the next answer fails, with the reason', async () => {
    shown(at({ loaded: true, error: 'timeout' }, [line]));
    await screen.findByText('1 lines');
    expect(screen.getByText(/Prometheus is unreachable/)).toBeTruthy();
  });
});

it('a chart whose code cannot be loaded leaves the page as it is, and is not awaited forever', () => {
  vi.spyOn(console, 'error').mockImplementation(() => undefined);
  const Broken = (): ReactElement => {
    throw new Error('ChunkLoadError');
  };
  render(<><p>numbers</p><Lazy fallback={<p>loading</p>} failed={<NotLoaded />}><Broken /></Lazy></>);
  expect([screen.getByText('numbers'), screen.getByText(/could not be loaded/)]).toHaveLength(2);
  expect(screen.queryByText('loading')).toBeNull();
});

describe('the map of devices', () => {
  const device = (name: string, more: Partial<Device> = {}): Device => ({ name, type: 'disk', size: '100Gi', state: 'Available', ...more }) as Device;
  const status = (node: string, devices: Device[]): NodeStatus => ({ metadata: { name: node }, status: { devices, nodeStatus: [{ name: 'vg1', physicalVolumes: [{ uuid: 'u', name: '/dev/sdb', state: 'Ready', size: '100Gi', free: '25Gi' }] }] } });
  const some = [status('node-b', [device('/dev/sdb'), device('/dev/sdc', { state: 'Failing' })]), status('node-a', [device('/dev/sdb', { state: 'InUse', pvUUID: 'u' })])];
  it('says of each device where it is, how it is, and how much of it is allocated', () => {
    shown(<DiskMap statuses={some} loaded />);
    expect(screen.getAllByRole('gridcell').map((c) => c.querySelector('a')?.getAttribute('aria-label'))).toEqual([
      '/dev/sdb on node-b: Available, 100 GiB', '/dev/sdc on node-b: Failing, 100 GiB', '/dev/sdb on node-a: In use, 100 GiB, 75% allocated',
    ]);
    expect(screen.getAllByRole('link').every((l) => /\/nodes\/node-[ab]\/local-disks$/.test(l.getAttribute('href') ?? ''))).toBe(true);
  });
  it('is one stop of the Tab key, and the arrow keys go through it', async () => {
    shown(<DiskMap statuses={some} loaded />);
    const stops = () => screen.getAllByRole('link').filter((l) => l.tabIndex === 0);
    expect(stops().map((l) => l.textContent)).toEqual(['node-b']);
    fireEvent.keyDown(stops()[0] as HTMLElement, { key: 'ArrowRight' });
    await waitFor(() => expect(document.activeElement?.getAttribute('aria-label')).toBe('/dev/sdb on node-b: Available, 100 GiB'));
    expect(stops()).toHaveLength(1);
    fireEvent.keyDown(document.activeElement as HTMLElement, { key: 'ArrowDown' });
    await waitFor(() => expect(document.activeElement?.getAttribute('aria-label')).toBe('/dev/sdb on node-a: In use, 100 GiB, 75% allocated'));
  });
  it('has few rows in the document, whatever there is', () => {
    shown(<DiskMap statuses={Array.from({ length: 500 }, (_, n) => status(`n${n}`, [device('/dev/sda')]))} loaded />);
    expect(screen.getAllByRole('row').length).toBeLessThan(30);
    expect(screen.getByRole('grid').getAttribute('aria-rowcount')).toBe('500');
  });
  it('is unknown, and not empty, if nothing could be read', () => {
    const { rerender } = shown(<DiskMap statuses={[]} loaded={false} />);
    expect(screen.getByText('Unknown')).toBeTruthy();
    rerender(<DiskMap statuses={[]} loaded />);
    expect(screen.getByText('No node has reported its devices yet.')).toBeTruthy();
  });
});
