import { cleanup, fireEvent, render, screen, waitFor, within } from '@testing-library/react';
import userEvent from '@testing-library/user-event';
import { createInstance } from 'i18next';
import { readdirSync, readFileSync } from 'node:fs';
import { I18nextProvider, initReactI18next } from 'react-i18next';
import { MemoryRouter } from 'react-router';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { LANGUAGES, SINGULAR, allKeys, hasSingular, translations } from '../../scripts/i18n';
import * as sdk from '../../host/sdk';
import type { Device, LVMCluster, Node, NodeStatus } from '../api/types';
import { newClass, newCluster, withClasses } from '../model/cluster';
import { DraftProvider } from './draft';
import { localeOf } from '../i18n';
import { labelsOf, selectorOfLabels, wayOf } from './NodesStep';
import { controlOf, stepOf } from './steps';
import { ClusterWizard } from './Wizard';

const i18n = createInstance();
void i18n.use(initReactI18next).init({ lng: 'en', resources: {}, nsSeparator: '~', keySeparator: false, interpolation: { escapeValue: false }, react: { useSuspense: false } });

const dev = (n: string, more: Partial<Device> = {}): Device => ({ name: `/dev/sd${n}`, state: 'Available', size: '100Gi', model: 'M', byID: [`wwn-${n}`], fingerprint: n, ...more });
const carrying = dev('c', { state: 'Excluded', signatures: [{ type: 'xfs' }], reasons: [{ code: 'HasSignature' }] });
const node = (name: string): Node => ({ metadata: { name, labels: { 'kubernetes.io/hostname': name } }, status: { conditions: [{ type: 'Ready', status: 'True' }] } });
const status = (name: string, ...devices: Device[]): NodeStatus => ({ metadata: { name }, status: { conditions: [{ type: 'DevicesObserved', status: 'True' }], devices } });
const permissions = { loaded: true, create: true, update: true, listNodes: true, listStatuses: true };

let sent: { url: string; method?: string; body: LVMCluster }[] = [];
let reply: (dryRun: boolean) => [number, unknown];
beforeEach(() => {
  sent = [];
  reply = () => [201, newCluster('ns')];
  vi.stubGlobal('fetch', (url: string, init: RequestInit) => {
    sent.push({ url, method: init.method, body: JSON.parse(init.body as string) as LVMCluster });
    const [code, body] = reply(url.includes('dryRun'));
    return Promise.resolve(new Response(JSON.stringify(body), { status: code, headers: { 'Content-Type': 'application/json' } }));
  });
  Element.prototype.scrollIntoView = () => undefined;
});
afterEach(() => {
  cleanup();
  vi.unstubAllGlobals();
});

function show(options: Partial<Parameters<typeof DraftProvider>[0]> = {}) {
  const done = vi.fn();
  const initial = options.initial ?? withClasses(newCluster('ns'), [newClass([])]);
  const tree = (more: typeof options = {}) => (
    <I18nextProvider i18n={i18n}>
      <MemoryRouter>
        <DraftProvider namespace="ns" permissions={permissions} initial={initial} initialIndex={0} nodes={[node('a'), node('b')]} statuses={[status('a', dev('b'), carrying, dev('m', { state: 'InUse', reasons: [{ code: 'Mounted' }] })), status('b', dev('d'))]} {...options} {...more}>
          <ClusterWizard onDone={done} />
        </DraftProvider>
      </MemoryRouter>
    </I18nextProvider>
  );
  const view = render(tree());
  return { done, again: (more: typeof options) => view.rerender(tree(more)) };
}
const user = userEvent.setup();
const next = () => user.click(document.querySelector('[data-test=next]') as Element);
const has = (id: string) => document.querySelector(`[data-test="${id}"]`);
const on = async (step: string) => waitFor(() => expect(has(`step-${step}`)).not.toBeNull());
const go = async (...steps: string[]) => {
  for (const step of steps) {
    await next();
    await on(step);
  }
};

describe('wizard', () => {
  it('asks the API server, and creates what was chosen', async () => {
    const { done } = show();
    await go('nodes', 'devices');
    await next();
    expect(has('why-not')?.textContent).toMatch(/No disk is selected/);
    await user.click(screen.getByLabelText('Select /dev/disk/by-id/wwn-b on node a'));
    expect(screen.getByLabelText<HTMLInputElement>('Select /dev/disk/by-id/wwn-m on node a').disabled).toBe(true);
    expect(has('preview-sum')?.textContent).toMatch(/100 GiB of disk space provides 89.9 GiB of thin pool space/);
    await user.click(screen.getByRole('checkbox', { name: 'Require an approval for each new device' }));
    await go('class', 'protection', 'review');
    expect(has('summary')?.textContent).toContain('Required for each new device');
    await waitFor(() => expect(has('dry-run')?.getAttribute('data-state')).toBe('accepted'));
    expect(done).not.toHaveBeenCalled();
    await next();
    await waitFor(() => expect(done).toHaveBeenCalled());
    expect(sent.map((s) => s.url.includes('dryRun'))).toEqual([true, false]);
    expect(sent[1]?.body.spec?.storage?.deviceClasses?.[0]).toMatchObject({ deviceSelector: { optionalPaths: ['/dev/disk/by-id/wwn-b'] }, approval: 'Required' });
  });

  it('consents to a wipe by a typed name only, and forgets it when something else is on the disk', async () => {
    const { again } = show();
    await go('nodes', 'devices');
    await user.click(screen.getByLabelText('Select /dev/disk/by-id/wwn-c on node a'));
    await go('class', 'protection');
    await next();
    expect(has('why-not')?.textContent).toMatch(/confirm that it will be destroyed/);
    // It takes the focus in the next frame: what is typed before that can go there.
    await waitFor(() => expect(document.activeElement).toBe(has('why-not')));
    const field = document.getElementById('protection.confirm') as HTMLInputElement;
    await user.type(field, 'vg');
    expect(has('confirmed')).toBeNull();
    await user.type(field, '1');
    await waitFor(() => expect(has('confirmed')).not.toBeNull());
    again({ statuses: [status('a', { ...carrying, fingerprint: 'other' }), status('b')] });
    await waitFor(() => expect(has('confirmed')).toBeNull());
    await next();
    await waitFor(() => expect(has('step-protection')).not.toBeNull());
    await user.click(screen.getByRole('button', { name: /Deselect \/dev\/sdc/ }));
    await waitFor(() => expect(has('nothing-destroyed')).not.toBeNull());
  });

  it('selects all disks of a volume group that no device class has, and destroys it after a typed name only', async () => {
    const grouped = (n: string) => dev(n, { state: 'InUse', volumeGroup: 'old', volumeGroupUUID: 'U-1', reasons: [{ code: 'InVolumeGroup' }] });
    const { done } = show({ statuses: [status('a', grouped('x'), grouped('y')), status('b', dev('d'))] });
    await go('nodes', 'devices');
    await user.click(screen.getByLabelText('Select /dev/disk/by-id/wwn-x on node a'));
    expect(has('ticked')?.textContent).toMatch(/^2 /);
    await go('class', 'protection');
    expect(has('groups')?.textContent).toMatch(/Volume groups to destroy: old/);
    await user.type(document.getElementById('protection.confirm') as HTMLInputElement, 'vg1');
    await waitFor(() => expect(has('confirmed')).not.toBeNull());
    await go('review');
    await waitFor(() => expect(document.querySelector('[data-test=dry-run][data-state=accepted]')).not.toBeNull());
    await next();
    await waitFor(() => expect(done).toHaveBeenCalled());
    expect(sent.at(-1)?.body.spec?.storage?.deviceClasses?.[0]?.deviceSelector).toEqual({
      optionalPaths: ['/dev/disk/by-id/wwn-x', '/dev/disk/by-id/wwn-y'], wipeVolumeGroups: ['U-1'],
    });
  });

  it('adopts a volume group with its disks, destroys nothing of it, and takes it back', async () => {
    const message = 'which no device class uses: to use it with its volumes, add the UUID to adopt of a device class';
    const grouped = (n: string) => dev(n, { state: 'InUse', volumeGroup: 'old', volumeGroupUUID: 'U-1', reasons: [{ code: 'InVolumeGroup', message }] });
    const { done } = show({ statuses: [status('a', grouped('x'), grouped('y')), status('b', dev('d'))] });
    await go('nodes', 'devices');
    expect(has('adopt')?.textContent).toMatch(/keep its data.*Only volume groups that LVM Storage created.*ImportVolumes.*destroys the volume group/s);
    const box = () => screen.getByLabelText<HTMLInputElement>('Adopt volume group old of node a');
    await user.click(box());
    expect(screen.getAllByText('In volume group old, which is adopted with its data')).toHaveLength(2);
    expect(has('ticked')?.textContent).toMatch(/^2 /);
    await user.click(box());
    expect(has('ticked')?.textContent).toMatch(/^0 /);
    await user.click(box());
    await go('class');
    expect(has('adopt-settings')?.textContent).toMatch(/renamed to vg1/);
    await go('protection');
    expect(has('nothing-destroyed')?.textContent).toMatch(/The volume group keeps its data/);
    await go('review');
    expect(has('summary')?.textContent).toMatch(/a: U-1/);
    await waitFor(() => expect(has('dry-run')?.getAttribute('data-state')).toBe('accepted'));
    await next();
    await waitFor(() => expect(done).toHaveBeenCalled());
    expect(sent.at(-1)?.body.spec?.storage?.deviceClasses?.[0]).toMatchObject({
      adopt: [{ node: 'a', volumeGroupUUID: 'U-1' }], deviceSelector: { optionalPaths: ['/dev/disk/by-id/wwn-x', '/dev/disk/by-id/wwn-y'] },
    });
    expect(JSON.stringify(sent.at(-1)?.body)).not.toMatch(/wipe/i);
  });

  it('uses a volume group of an administrator as it is, with settings for new volumes', async () => {
    const message = 'which no device class uses: to use it with its volumes, set existingVolumeGroup: data in a device class';
    const data = dev('x', { state: 'InUse', volumeGroup: 'data', volumeGroupUUID: 'U-2', reasons: [{ code: 'InVolumeGroup', message }] });
    const { done } = show({ statuses: [status('a', data), status('b', dev('d'))] });
    await go('nodes', 'devices');
    expect(has('adopt')).toBeNull();
    await user.click(screen.getByRole('radio', { name: 'An existing volume group' }));
    expect(has('existing-group')?.textContent).toMatch(/does not change data.*and adopt it.*their data are lost/s);
    await next();
    expect(has('why-not')?.textContent).toMatch(/Enter the name of the volume group/);
    await user.click(screen.getByRole('button', { name: 'Select volume group data' }));
    expect(has('group-selected')).not.toBeNull();
    expect(has('nodes-without-group')?.textContent).toMatch(/b: create the volume group there/);
    await go('class');
    expect(screen.queryByRole('radio', { name: 'Mirrored (raid1)' })).toBeNull();
    expect(screen.queryByLabelText('Thin pool size (share of volume group)')).toBeNull();
    expect(screen.getByLabelText<HTMLInputElement>('Thin pool name').value).toBe('thin-pool-1');
    await user.click(screen.getByRole('radio', { name: 'Thick' }));
    await user.click(screen.getByRole('button', { name: 'Increase: Space to keep free (GiB)' }));
    await user.type(screen.getByLabelText('Stripe size'), '65Ki');
    await user.type(screen.getByLabelText('Options of lvcreate for new volumes'), '--force --nosync');
    await next();
    expect(has('why-not')?.textContent).toMatch(/stripeSize requires stripes.*power of two.*--force: must be/s);
    await user.click(within(has('why-not') as HTMLElement).getByRole('button', { name: /--force/ }));
    expect(document.activeElement?.id).toBe('spec.storage.deviceClasses[0].existingVolumeGroupConfig.lvcreateOptions');
    await user.clear(screen.getByLabelText('Options of lvcreate for new volumes'));
    await user.clear(screen.getByLabelText('Stripe size'));
    await user.type(screen.getByLabelText('Stripe size'), '64Ki');
    await user.click(screen.getByRole('radio', { name: /^Single disk/ }));
    await user.type(screen.getByLabelText('Stripes of new volumes'), '2');
    await next();
    expect(has('why-not')?.textContent).toMatch(/allocation SingleDevice and stripes/);
    await user.click(screen.getByRole('radio', { name: /^Any: LVM/ }));
    await go('protection', 'review');
    expect(has('preview')).toBeNull();
    await waitFor(() => expect(has('dry-run')?.getAttribute('data-state')).toBe('accepted'));
    await next();
    await waitFor(() => expect(done).toHaveBeenCalled());
    expect(sent.at(-1)?.body.spec?.storage?.deviceClasses?.[0]).toEqual({
      name: 'vg1', default: true, fstype: 'xfs', existingVolumeGroup: 'data', existingVolumeGroupConfig: { spareGiB: 1, stripes: 2, stripeSize: '64Ki' },
    });
  });

  it('ticks alike, all of a node, and all', async () => {
    show();
    await go('nodes', 'devices');
    await user.click(screen.getByRole('button', { name: 'Select similar: disks like /dev/sdb on all nodes' }));
    expect(has('ticked')?.textContent).toMatch(/^2 /);
    await user.click(screen.getByLabelText('Select /dev/disk/by-id/wwn-d on node b'));
    expect(has('ticked')?.textContent).toMatch(/^1 /);
    await user.click(screen.getAllByRole('button', { name: 'Select all' })[1] as HTMLElement);
    expect(has('ticked')?.textContent).toMatch(/^2 /);
    await user.click(screen.getByRole('checkbox', { name: 'Only usable disks' }));
    expect(screen.queryByLabelText('Select /dev/disk/by-id/wwn-m on node a')).toBeNull();
    await user.type(screen.getByLabelText('Find a disk'), 'wwn-d');
    expect(screen.queryByLabelText('Select /dev/disk/by-id/wwn-b on node a')).toBeNull();
  });

  it('says at the tick and in the review that a name leads to disks of other nodes', async () => {
    const place = (n: string) => dev(n, { byID: [], byPath: ['pci-0'] });
    show({ statuses: [status('a', place('b')), status('b', place('d'))] });
    await go('nodes', 'devices');
    const row = screen.getByLabelText('Select /dev/disk/by-path/pci-0 on node a').closest('tr');
    expect(row?.textContent).toMatch(/pci-0 also matches blank disks of other nodes.*: b\./);
    expect(has('shared-names')).toBeNull();
    await user.click(screen.getByLabelText('Select /dev/disk/by-path/pci-0 on node a'));
    expect(has('ticked')?.textContent).toMatch(/^2 /);
    expect(has('shared-names')?.textContent).toMatch(/pci-0 matches disks of several nodes.*: a, b\./);
    await go('class', 'protection', 'review');
    expect(has('shared-names')?.textContent).toMatch(/: a, b\./);
  });

  it('ticks a disk for its node where the class has selectors for certain nodes', async () => {
    const only = (name: string) => ({ nodeSelectorTerms: [{ matchExpressions: [{ key: 'kubernetes.io/hostname', operator: 'In' as const, values: [name] }] }] });
    const place = (n: string) => dev(n, { byID: [], byPath: ['pci-0'] });
    const initial = withClasses(newCluster('ns'), [{ ...newClass([]), deviceSelector: undefined, deviceSelectors: [{ nodeSelector: only('b'), paths: ['/dev/disk/by-id/wwn-x'] }] }]);
    show({ initial, statuses: [status('a', place('b')), status('b', place('d'))] });
    await go('nodes', 'devices');
    await user.click(screen.getByLabelText('Select /dev/disk/by-path/pci-0 on node a'));
    expect(has('ticked')?.textContent).toMatch(/^1 /);
    expect(has('shared-names')).toBeNull();
    await go('class', 'protection', 'review');
    await waitFor(() => expect(has('dry-run')?.getAttribute('data-state')).toBe('accepted'));
    expect(sent[0]?.body.spec?.storage?.deviceClasses?.[0]?.deviceSelectors).toEqual([
      { nodeSelector: only('b'), paths: ['/dev/disk/by-id/wwn-x'] }, { nodeSelector: only('a'), paths: ['/dev/disk/by-path/pci-0'] },
    ]);
  });

  it('chooses disks by a rule, and every unused disk', async () => {
    show();
    await go('nodes', 'devices');
    await user.click(screen.getByRole('radio', { name: /Disks with specific properties/ }));
    await user.type(screen.getByLabelText('Minimum size'), '200Gi');
    await user.type(screen.getByLabelText('Transports'), 'pigeon');
    await user.type(screen.getByLabelText('Models'), 'a*, b');
    await user.click(screen.getByRole('radio', { name: 'SSD or NVMe only' }));
    await next();
    expect(has('why-not')?.textContent).toMatch(/pigeon is not a known transport/);
    await user.clear(screen.getByLabelText('Transports'));
    await user.click(screen.getByRole('checkbox', { name: /Add new disks automatically/ }));
    await user.click(screen.getByRole('radio', { name: /All unused disks/ }));
    expect(has('preview-sum')?.textContent).toMatch(/200 GiB of disk space/);
    await go('class');
  });

  it('chooses nodes by name and by label', async () => {
    show();
    await go('nodes');
    await user.click(screen.getByRole('radio', { name: /Selected nodes/ }));
    await user.click(screen.getByLabelText('Select node a'));
    expect(has('matched')?.textContent).toMatch(/^1 of 2/);
    await user.click(screen.getByLabelText('Select node b'));
    await next();
    expect(has('why-not')?.textContent).toMatch(/No node is selected/);
    await user.click(screen.getByRole('radio', { name: /Nodes with specific labels/ }));
    await user.type(screen.getByLabelText('Labels'), 'kubernetes.io/hostname=b');
    expect(has('matched')?.textContent).toMatch(/^1 of 2/);
  });

  it('tolerates taints when asked to', async () => {
    const tainted: Node = { ...node('a'), spec: { taints: [{ key: 'gpu', value: 'yes', effect: 'NoSchedule' }, { key: 'own', effect: 'NoExecute' }] } };
    show({ nodes: [tainted] });
    await go('nodes');
    await user.click(screen.getByRole('button', { name: 'Tolerate these taints' }));
    expect(screen.queryByRole('button', { name: 'Tolerate these taints' })).toBeNull();
  });

  it('has each kind of volumes with its fields', async () => {
    show();
    await go('nodes', 'devices');
    await user.click(screen.getByLabelText('Select /dev/disk/by-id/wwn-b on node a'));
    await go('class');
    await user.click(screen.getByRole('checkbox', { name: /Extend the thin pool/ }));
    await user.click(screen.getByRole('button', { name: 'Advanced thin pool settings' }));
    await user.type(screen.getByLabelText('Metadata size'), '1Gi');
    await user.type(screen.getByLabelText('Chunk size'), '1Ki');
    const ratio = document.getElementById('spec.storage.deviceClasses[0].thinPoolConfig.overprovisionRatio') as HTMLInputElement;
    fireEvent.change(ratio, { target: { value: '' } });
    await next();
    expect(has('why-not')?.textContent).toMatch(/Must be a whole number from 1 to 100.*The chunk size must be a multiple/s);
    await user.click(within(has('why-not') as HTMLElement).getByRole('button', { name: /The chunk size/ }));
    expect(document.activeElement?.id).toBe('spec.storage.deviceClasses[0].thinPoolConfig.chunkSize');
    await user.click(screen.getByRole('button', { name: 'Increase: Overprovision ratio' }));
    for (const [kind, text] of [['Mirrored (raid1)', /at least 2 disks/], ['Parity (raid5)', /at least 3 disks/], ['Double parity (raid6)', /loss of 2 disks/], ['Mirrored stripes (raid10)', /at least 4 disks/]] as const) {
      await user.click(screen.getByRole('radio', { name: kind }));
      expect(has('preview')?.textContent).toMatch(text);
    }
    await user.click(screen.getByRole('radio', { name: 'Thick' }));
    await user.click(screen.getByRole('radio', { name: /^Striped: each volume/ }));
    await next();
    expect(has('why-not')?.textContent).toMatch(/Striped volumes require at least 2 disks/);
    await user.click(screen.getByRole('radio', { name: /^Any: LVM/ }));
    await user.click(screen.getByRole('radio', { name: /^Single disk/ }));
    await user.click(screen.getByRole('radio', { name: 'ext4' }));
    await user.click(screen.getByRole('radio', { name: 'Retain: the volume is kept' }));
    await user.click(screen.getByRole('radio', { name: /Immediate/ }));
    await user.click(screen.getByRole('checkbox', { name: /Use for claims/ }));
    await go('protection', 'review');
    await waitFor(() => expect(has('dry-run')?.getAttribute('data-state')).toBe('accepted'));
    expect(sent[0]?.body.spec?.storage?.deviceClasses?.[0]).toEqual({ name: 'vg1', fstype: 'ext4', deviceSelector: { optionalPaths: ['/dev/disk/by-id/wwn-b'] }, thickConfig: { allocation: 'SingleDevice' }, storageClassOptions: { reclaimPolicy: 'Retain', volumeBindingMode: 'Immediate' } });
  });

  it('encrypts, erases and trims volumes as it is told to', async () => {
    show();
    await go('nodes', 'devices');
    await user.click(screen.getByLabelText('Select /dev/disk/by-id/wwn-b on node a'));
    await go('class');
    await user.click(screen.getByRole('checkbox', { name: /Encrypt volumes/ }));
    await user.type(screen.getByLabelText(/^Name of the Secret/), 'lvms-key');
    await next();
    expect(has('why-not')?.textContent).toMatch(/Encrypted volumes require a Secret/);
    await user.click(within(has('why-not') as HTMLElement).getByRole('button', { name: /Encrypted volumes/ }));
    expect(document.activeElement?.id).toBe('spec.storage.deviceClasses[0].storageClassOptions.additionalParameters[csi.storage.k8s.io/node-stage-secret-namespace]');
    await user.type(screen.getByLabelText(/^Namespace of the Secret/), 'keys');
    expect(screen.queryByRole('radio', { name: /^Zero/ })).toBeNull();
    await user.click(screen.getByRole('radio', { name: /^Discard: the disks/ }));
    await user.click(screen.getByRole('radio', { name: 'Daily' }));
    await user.type(screen.getByLabelText(/^Pool usage threshold/), '80');
    await user.click(screen.getByRole('button', { name: 'Advanced thin pool settings' }));
    await user.type(screen.getByLabelText('Stripes'), '2');
    await user.click(screen.getByRole('radio', { name: 'Pass discards on to the disks' }));
    expect(has('preview')?.textContent).toMatch(/1 disks missing/);
    await next();
    expect(has('why-not')?.textContent).toMatch(/striped thin pool requires at least 2 disks/);
    await user.clear(screen.getByLabelText('Stripes'));
    await go('protection', 'review');
    expect(has('summary')?.textContent).toMatch(/LUKS2, with the key in Secret keys\/lvms-key/);
    await waitFor(() => expect(has('dry-run')?.getAttribute('data-state')).toBe('accepted'));
    expect(sent.at(-1)?.body.spec?.storage?.deviceClasses?.[0]).toMatchObject({
      eraseOnDelete: 'Discard', trim: { schedule: 'Daily', poolUsageThresholdPercent: 80 }, thinPoolConfig: { discards: 'PassDown' },
      storageClassOptions: { additionalParameters: { 'lvm.topolvm.io/encryption': 'luks2', 'csi.storage.k8s.io/node-stage-secret-name': 'lvms-key', 'csi.storage.k8s.io/node-stage-secret-namespace': 'keys' } },
    });
    expect(sent.at(-1)?.body.spec?.storage?.deviceClasses?.[0]?.thinPoolConfig).not.toHaveProperty('stripes');
  });

  it('limits namespaces as it is told to', async () => {
    show();
    await go('nodes', 'devices');
    await user.click(screen.getByLabelText('Select /dev/disk/by-id/wwn-b on node a'));
    await go('class');
    const add = screen.getByRole('button', { name: 'Add a limit' });
    await user.click(add);
    await user.click(add);
    await user.type(screen.getByLabelText('Limit 1: namespace'), 'shop');
    await user.type(screen.getByLabelText(/^Limit 1: size on each node/), '100Gi');
    await user.type(screen.getByLabelText('Limit 2: namespace'), 'shop');
    await next();
    expect(has('why-not')?.textContent).toMatch(/Limit 1 is for the same namespaces.*The size must be a number of bytes/s);
    await user.click(within(has('why-not') as HTMLElement).getByRole('button', { name: /The size must be/ }));
    expect(document.activeElement?.id).toBe('spec.storage.deviceClasses[0].namespaceLimits[1].perNode');
    await user.clear(screen.getByLabelText('Limit 2: namespace'));
    await user.type(screen.getByLabelText(/^Limit 2: size on each node/), '0');
    await user.click(screen.getByRole('button', { name: 'Remove limit 1' }));
    expect(screen.queryByLabelText('Limit 2: namespace')).toBeNull();
    await user.click(add);
    await user.type(screen.getByLabelText('Limit 2: namespace'), 'web');
    await user.type(screen.getByLabelText(/^Limit 2: size on each node/), '5Gi');
    await go('protection', 'review');
    await waitFor(() => expect(has('dry-run')?.getAttribute('data-state')).toBe('accepted'));
    expect(sent.at(-1)?.body.spec?.storage?.deviceClasses?.[0]).toMatchObject({ namespaceLimits: [{ perNode: '0' }, { namespace: 'web', perNode: '5Gi' }] });
  });

  it('leaves namespaces without limits when the last limit is removed', async () => {
    show();
    await go('nodes', 'devices');
    await user.click(screen.getByLabelText('Select /dev/disk/by-id/wwn-b on node a'));
    await go('class');
    await user.click(screen.getByRole('button', { name: 'Add a limit' }));
    await user.click(screen.getByRole('button', { name: 'Remove limit 1' }));
    await go('protection', 'review');
    await waitFor(() => expect(has('dry-run')?.getAttribute('data-state')).toBe('accepted'));
    expect(sent.at(-1)?.body.spec?.storage?.deviceClasses?.[0]).not.toHaveProperty('namespaceLimits');
  });

  it('takes what is written as YAML into the form, and says where it cannot be read', async () => {
    const ready = withClasses(newCluster('ns'), [{ ...newClass([]), deviceSelector: { optionalPaths: ['/dev/disk/by-id/wwn-b', '/dev/disk/by-id/nobody', '/dev/sdd'] } }]);
    show({ initial: ready });
    await go('nodes', 'devices', 'class', 'protection', 'review');
    await user.click(screen.getByRole('button', { name: 'YAML' }));
    const editor = screen.getByLabelText<HTMLTextAreaElement>('YAML', { selector: 'textarea' });
    const text = editor.value;
    fireEvent.change(editor, { target: { value: text.replace('name: vg1', 'name: 1') } });
    expect(has('yaml-fault')?.textContent).toMatch(/Line \d+: .*name must be a string/);
    sent = [];
    await next();
    expect(has('why-not')?.textContent).toMatch(/would not be saved/);
    expect(sent.filter((s) => !s.url.includes('dryRun'))).toEqual([]);
    fireEvent.change(editor, { target: { value: text.replace('name: vg1', 'name: Wrong') } });
    expect(has('own-problems')?.textContent).toMatch(/The name must have 1 to 63/);
    await user.click(screen.getByRole('button', { name: 'Go to deviceClasses[0].name' }));
    await on('class');
    expect(screen.getByLabelText<HTMLInputElement>(/^Name/, { selector: '[id$="[0].name"]' }).value).toBe('Wrong');
  });

  it('shows what the API server says at its field, with its warnings', async () => {
    reply = () => [422, { message: 'no', details: { causes: [{ field: 'spec.storage.deviceClasses[0].deviceSelector.optionalPaths[0]', message: 'leads to the same device' }] } }];
    const ready = withClasses(newCluster('ns'), [{ ...newClass([]), deviceSelector: { optionalPaths: ['/dev/disk/by-id/wwn-b'] } }]);
    const { done } = show({ initial: ready });
    await go('nodes', 'devices', 'class', 'protection', 'review');
    await waitFor(() => expect(has('refused')?.textContent).toMatch(/leads to the same device/));
    await next();
    await waitFor(() => expect(has('send-error')?.textContent).toMatch(/no/));
    expect(done).not.toHaveBeenCalled();
    await user.click(screen.getByRole('button', { name: /^Go to deviceClasses/ }));
    await on('devices');
    expect(has('path-errors')?.textContent).toMatch(/leads to the same device/);
  });

  it('does not take silence for a yes', async () => {
    vi.stubGlobal('fetch', () => Promise.reject(new TypeError('Failed to fetch')));
    const ready = withClasses(newCluster('ns'), [{ ...newClass([]), deviceSelector: { optionalPaths: ['/dev/disk/by-id/wwn-b'] } }]);
    show({ initial: ready });
    await go('nodes', 'devices', 'class', 'protection', 'review');
    await waitFor(() => expect(has('dry-run')?.textContent).toMatch(/not completed.*Failed to fetch/));
    await user.click(screen.getByRole('button', { name: 'Retry' }));
  });

  it('edits: fixed fields say why, a second class can be added and taken out, and a conflict stops', async () => {
    const live: LVMCluster = { ...withClasses(newCluster('ns', 'c'), [{ ...newClass([]), deviceSelector: { optionalPaths: ['/dev/disk/by-id/wwn-b'] } }]), metadata: { name: 'c', namespace: 'ns', generation: 1, resourceVersion: '5' } };
    const { again } = show({ before: live, live, initial: live });
    await user.click(has('add-class') as Element);
    expect(screen.getByRole('radio', { name: 'vg2' })).toHaveProperty('checked', true);
    await user.click(screen.getByRole('radio', { name: 'vg1' }));
    await go('nodes', 'devices');
    await next();
    expect(has('why-not')?.textContent).toMatch(/vg2: No disk is selected/);
    await user.click(screen.getByRole('button', { name: 'Back' }));
    await user.click(screen.getByRole('button', { name: 'Back' }));
    await user.click(screen.getByRole('radio', { name: 'vg2' }));
    await user.click(has('remove-class') as Element);
    await go('nodes', 'devices', 'class');
    expect(screen.getByText(/The name is immutable/)).toBeTruthy();
    again({ live: { ...live, metadata: { ...live.metadata, generation: 2 } } });
    await go('protection', 'review');
    await next();
    expect(has('why-not')?.textContent).toMatch(/has been updated/);
  });

  it('tells a user without permissions which one is missing', async () => {
    const ready = withClasses(newCluster('ns'), [{ ...newClass([]), deviceSelector: { optionalPaths: ['/dev/disk/by-id/wwn-b'] } }]);
    const { done } = show({ initial: ready, permissions: { ...permissions, create: false, update: false, listNodes: false }, inventoryError: 'forbidden' });
    expect(has('preflight')?.textContent).toMatch(/lack permission to create.*could not be read: forbidden/s);
    await go('nodes', 'devices', 'class', 'protection', 'review');
    await next();
    expect(has('why-not')?.textContent).toMatch(/You lack permission/);
    expect(done).not.toHaveBeenCalled();
  });
});

describe('fields find their steps', () => {
  it.each([
    ['metadata.name', 'start'], ['spec.storage.deviceClasses', 'start'], ['spec.tolerations[0]', 'nodes'], ['spec.storage.deviceClasses[0].nodeSelector', 'nodes'], ['spec.storage.deviceClasses[1].deviceSelector.paths[2]', 'devices'],
    ['spec.storage.deviceClasses[0].deviceSelectors[1].nodeSelector', 'devices'], ['spec.storage.deviceClasses[0].deviceSelector.forceWipeDevicesAndDestroyAllData', 'protection'], ['spec.storage.deviceClasses[0].raidConfig.type', 'class'], ['spec.storage.deviceClasses[0].approval', 'devices'],
  ])('%s: %s', (field, step) => expect(stepOf(field)).toBe(step));
  it('and the nearest control', () => {
    document.body.innerHTML = '<input id="a.b[0]"><input id="a">';
    expect([controlOf('a.b[0].c[1].d')?.id, controlOf('a.x')?.id, controlOf('z')]).toEqual(['a.b[0]', 'a', null]);
  });
});

it('labels are a selector and back', () => {
  expect(labelsOf(selectorOfLabels(' disk = fast , storage,a=b=c'))).toBe('disk=fast, storage, a=b=c');
  expect(wayOf(selectorOfLabels('disk=fast'))).toBe('labels');
  expect(wayOf({ nodeSelectorTerms: [{ matchExpressions: [{ key: 'x', operator: 'Gt', values: ['1'] }] }] })).toBe('other');
});

it.each([
  ['en', 1, '1 snapshot'], ['en', 2, '2 snapshots'], ['es', 1, '1 instantánea'], ['es', 0, '0 instantáneas'], ['fr', 0, '0 instantané'], ['fr', 2, '2 instantanés'],
  ['es', 1_000_000, '1000000 instantáneas'], ['ja', 1, '1 個のスナップショット'], ['ko', 1, '스냅샷 1개'], ['zh', 1, '1 个快照'],
])('numbers are in the plural of the language: %s %i', async (lng, count, text) => {
  const other = createInstance();
  await other.init({ lng, resources: { [lng]: { translation: translations(lng) } }, nsSeparator: '~', keySeparator: false, contextSeparator: '~' });
  expect(other.t('{{count}} snapshots', { count })).toBe(text);
});

describe('around the pages', () => {
  const imported = readdirSync('src', { recursive: true, encoding: 'utf8' })
    .filter((f) => /\.tsx?$/.test(f))
    .flatMap((f) => [...readFileSync(`src/${f}`, 'utf8').matchAll(/import \{([^}]*)\} from '@openshift-console\/dynamic-plugin-sdk'/g)].flatMap((m) => (m[1] ?? '').split(',')))
    .map((s) => s.trim())
    .filter(Boolean);
  it('the host has all that the plugin imports of the console', () => expect(imported.filter((name) => !(name in sdk))).toEqual([]));
  const keys = allKeys();
  // What tells a number of things has words for one of them.
  const counting = keys.filter((k) => /\{\{count\}\} (?!of \{\{all\}\}$)\p{L}/u.test(k) && !/^(The first|\{\{listed\}\}|\{\{count\}\} disks are selected, but)/.test(k));
  it('no text has words that the field does not use', () =>
    expect(Object.values(translations('en')).filter((text) => /\b(is to be|any ?longer|anew|waits for|looked after|cannot be had|has the rights?|not known whether)\b/i.test(text))).toEqual([]));
  it("the languages are the console's, and no other", () => expect(readdirSync('locales').sort()).toEqual(['en', 'es', 'fr', 'ja', 'ko', 'zh']));
  it.each(LANGUAGES)('every text is translated, with the forms of the language, and no other: %s', (language) => {
    const have = translations(language);
    const singular = hasSingular(language) ? counting.map((k) => k + SINGULAR) : [];
    expect(Object.keys(have).sort()).toEqual([...keys, ...singular].sort());
    for (const [k, v] of Object.entries(have)) {
      expect(v.trim(), k).not.toBe('');
      expect([...new Set(v.match(/{{.*?}}/g))].sort(), k).toEqual([...new Set(k.match(/{{.*?}}/g))].sort());
      expect([/^ /.test(v), / $/.test(v)], k).toEqual([/^ /.test(k), / $/.test(k)]);
    }
  });
  // Words that are the same in both languages, and names.
  const same = /^(Action|Message|Type|Info|Normal|No|Critical|Retain|Roles|Transports|SSD|HDD|Runbooks?|Suspension|LVMClusters?|LogicalVolumes|PersistentVolumes|StorageClass \{\{name\}\}|Thin|Thick|Thin pools?|Plan|Phase|Volumes?|\{\{action\}\}: \{\{text\}\}|\{\{title\}\} \(\{\{number\}\}\)|Namespace|Volumes \(\{\{count\}\}\)|\{\{text\}\}|\{\{count\}\}.*|\{\{(used|label)\}\}.*)$/;
  it.each(LANGUAGES.filter((l) => l !== 'en'))('no text is left in English: %s', (language) => {
    expect(Object.entries(translations(language)).filter(([k, v]) => k === v && !same.test(k)).map(([k]) => k)).toEqual([]);
  });
  it.each([['fr-FR', 'fr', 'fr-FR'], ['en-GB', 'en', 'en-GB'], ['de-DE', 'en', 'en'], ['ja', 'ja', 'ja'], ['zh-CN', undefined, 'zh-CN']])(
    'times are in the language of the texts: %s, texts in %s', (language, resolved, want) => expect(localeOf(language, resolved)).toBe(want),
  );
});
