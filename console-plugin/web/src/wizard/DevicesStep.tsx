import { Alert, Button, Checkbox, Content, Flex, FlexItem, Form, SearchInput, Stack } from '@patternfly/react-core';
import { useMemo, useState, type ReactNode } from 'react';
import type { Device } from '../api/types';
import { DeviceName, Second, StateLabel } from '../components/parts';
import { VirtualTable } from '../components/VirtualTable';
import { useT } from '../i18n';
import { withField } from '../model/cluster';
import { contentOf, foundBy, isStable, observed, stablePath, type Verdict } from '../model/devices';
import type { Message } from '../model/message';
import { bytesOf, formatBytes } from '../model/quantity';
import { reasonsOf } from '../model/reasons';
import { allPaths, isAdopted, isNamed, modeOf, sameGroup, selectorsOf, tick, trapOf, untick, verdictOn, withMode, type Mode, type Seen } from '../model/selection';
import { TRANSPORTS } from '../model/validate';
import { AdoptGroups } from './AdoptGroups';
import { CapacityPreview } from './CapacityPreview';
import { useDraft } from './draft';
import { ExistingGroup } from './ExistingGroup';
import { Choice, Field, TextField } from './fields';
import { SharedNames } from './SharedNames';

/** Which disks of the nodes the device class takes. */
export function DevicesStep() {
  const { t } = useT();
  const { c, at, setDevices, chosen, was } = useDraft();
  const mode = modeOf(c);
  const field = c.deviceSelectors ? 'deviceSelectors' : 'deviceSelector';
  const id = `${at}.${field}`;
  const options: { value: Mode; label: string; description: string }[] = [
    { value: 'paths', label: t('Selected disks'), description: t('Only these disks are used. They are identified by stable names.') },
    { value: 'rules', label: t('Disks with specific properties'), description: t('All unused disks with these properties, on all selected nodes.') },
    { value: 'all', label: t('All unused disks'), description: t('Only possible if the LVMCluster has a single device class.') },
    { value: 'group', label: t('An existing volume group'), description: t('A volume group that an administrator created on the nodes. LVM Storage uses only its free space or a thin pool.') },
  ];
  // The volumes of a device class that exists are where they are.
  const possible = was ? options.filter((o) => (o.value === 'group') === (modeOf(was) === 'group')) : options;
  const choice = (
    <Choice
      id={id}
      label={t('Disk selection')}
      value={mode}
      options={possible}
      onChange={(next) => setDevices(withMode(c, next))}
      help={was && mode !== 'group' ? t('Disks that you deselect are drained and removed from the volume group.') : undefined}
    />
  );
  if (mode === 'group')
    return (
      <Stack hasGutter>
        <Form>{choice}</Form>
        <ExistingGroup />
      </Stack>
    );
  return (
    <Stack hasGutter>
      <Form>
        {choice}
        <Errors id={id} lists />
        {mode === 'rules' && !c.deviceSelectors && <Rules />}
        {mode !== 'paths' && <Policy />}
        <Approval />
      </Form>
      <Elsewhere />
      <SharedNames />
      <DeviceTable mode={mode} />
      <AdoptGroups />
      <CapacityPreview c={c} nodes={chosen} />
    </Stack>
  );
}

/** Errors of single paths: they have no control of their own. */
function Errors({ id, lists }: { id: string; lists?: boolean }) {
  const { problems, shown, server } = useDraft();
  const { t } = useT();
  if (!lists) return null;
  const inside = (field: string) => field.startsWith(`${id}.`) || field.startsWith(`${id}[`);
  const local = shown.has('devices') || shown.has('review') ? problems.filter((p) => inside(p.field)).map((p) => t(p.message.key, p.message.values)) : [];
  const remote = server?.kind === 'refused' ? server.causes.filter((x) => inside(x.field)).map((x) => x.message) : [];
  const all = [...new Set([...local, ...remote])];
  if (all.length === 0) return null;
  return (
    <Alert isInline variant="danger" title={t('Some disks cannot be selected')} data-test="path-errors">
      {all.map((text) => (
        <div key={text}>{text}</div>
      ))}
    </Alert>
  );
}

/** Names that lead to no disk that is known: they are kept, and said. */
function Elsewhere() {
  const { t } = useT();
  const { c, chosen } = useDraft();
  const paths = allPaths(c);
  const lost = paths.filter((p) => !chosen.some((seen) => seen.lookup(p)));
  const shaky = paths.filter((p) => !isStable(p));
  return (
    <>
      {lost.length > 0 && (
        <Alert isInline variant="info" title={t('{{count}} paths match no disk that a node has listed', { count: lost.length })}>
          {lost.slice(0, 5).join(', ')}
        </Alert>
      )}
      {shaky.length > 0 && (
        <Alert isInline variant="warning" title={t('Some disks have no stable name')}>
          {t('{{paths}}: the kernel can assign this name to another disk after a restart. Give the disk a serial number, or select it by properties.', { paths: shaky.slice(0, 5).join(', ') })}
        </Alert>
      )}
    </>
  );
}

type Row = { kind: 'node'; seen: Seen } | { kind: 'device'; seen: Seen; device: Device; verdict: Verdict };

function DeviceTable({ mode }: { mode: Mode }) {
  const { t, m, locale } = useT();
  const d = useDraft();
  const { c, was, chosen, nodes, setDevices } = d;
  const [text, setText] = useState('');
  const [onlyUsable, setOnlyUsable] = useState(false);
  const rows = useMemo(() => rowsOf(chosen, text, onlyUsable), [chosen, text, onlyUsable]);
  const toggle = (seen: Seen, device: Device, on: boolean) => setDevices(sameGroup(seen, device).reduce((next, x) => (on ? tick(next, seen, x, nodes, was) : untick(next, seen, x)), c));
  const tickAll = (list: [Seen, Device][]) => setDevices(list.reduce((next, [seen, x]) => tick(next, seen, x, nodes, was), c));
  const usable = (seen: Seen) => seen.devices.filter((x) => verdictOn(seen, x) === 'usable').map((x): [Seen, Device] => [seen, x]);
  const alike = (device: Device) => chosen.flatMap((seen) => usable(seen).filter(([, x]) => x.model === device.model && bytesOf(x.size) === bytesOf(device.size)));
  const trap = ({ seen, device, verdict }: Extract<Row, { kind: 'device' }>) =>
    mode === 'paths' && ['usable', 'named', 'wipe', 'group'].includes(verdict) && !isNamed(c, seen, device) ? trapOf(c, seen, device, chosen, was) : undefined;
  const count = chosen.reduce((n, seen) => n + seen.devices.filter((x) => isNamed(c, seen, x)).length, 0);
  return (
    <>
      <Flex>
        <FlexItem>
          <SearchInput aria-label={t('Find a disk')} placeholder={t('Node, name, model, serial number')} value={text} onChange={(_, v) => setText(v)} onClear={() => setText('')} />
        </FlexItem>
        <FlexItem>
          <Checkbox id="only-usable" label={t('Only usable disks')} isChecked={onlyUsable} onChange={(_, on) => setOnlyUsable(on)} />
        </FlexItem>
        {mode === 'paths' && (
          <>
            <FlexItem>
              <Content component="small" aria-live="polite" data-test="ticked">
                {t('{{count}} disks selected', { count })}
              </Content>
            </FlexItem>
            <FlexItem>
              <Button variant="link" isInline data-test="tick-all" onClick={() => tickAll(chosen.flatMap(usable))}>
                {t('Select all available disks')}
              </Button>
            </FlexItem>
          </>
        )}
      </Flex>
      <VirtualTable
        label={t('Disks on the selected nodes')}
        rows={rows}
        rowHeight={64}
        rowKey={(r) => (r.kind === 'node' ? `node/${r.seen.node.metadata.name}` : `${r.seen.node.metadata.name}/${r.device.name}`)}
        rowClass={(r) => (r.kind === 'node' ? 'group' : undefined)}
        empty={chosen.length === 0 ? t('No node is selected.') : t('No disks match the filter.')}
        columns={[
          { key: 'select', title: mode === 'paths' ? t('Select') : t('Match'), width: 5 }, { key: 'name', title: t('Disk'), width: 12 }, { key: 'size', title: t('Size'), width: 5.5 },
          { key: 'model', title: t('Model and type'), width: 7.5 }, { key: 'state', title: t('State') },
        ]}
        cells={(r) =>
          r.kind === 'node'
            ? [
                '', r.seen.node.metadata.name, '', '',
                <Lines key="a" note={nodeNote(r.seen, t)}>
                  {mode === 'paths' && usable(r.seen).length > 0 && <Button variant="link" isInline onClick={() => tickAll(usable(r.seen))}>{t('Select all')}</Button>}
                </Lines>,
              ]
            : [
                <Tick key="t" mode={mode} row={r} toggle={toggle} />, <DeviceName key="n" device={r.device} />, formatBytes(bytesOf(r.device.size), locale),
                <span key="m" title={r.device.serial}>{[r.device.vendor, r.device.model, r.device.serial].filter(Boolean).join(' ') || '–'}<Second text={kindOf(r.device, t)} /></span>,
                <Lines key="s" note={why(r, trap(r), isAdopted(c, r.seen, r.device), { t, m })}>
                  <StateLabel state={r.device.state} />
                  {mode === 'paths' && r.verdict === 'usable' && <Button variant="link" isInline aria-label={t('Select similar: disks like {{name}} on all nodes', { name: r.device.name })} onClick={() => tickAll(alike(r.device))}>{t('Select similar')}</Button>}
                </Lines>,
              ]
        }
      />
    </>
  );
}

/** A state or an action, and below it a note of up to two lines. The whole note is in the title. */
const Lines = ({ note, children }: { note: string; children: ReactNode }) => (
  <div style={{ whiteSpace: 'normal' }}>
    <Flex columnGap={{ default: 'columnGapSm' }} rowGap={{ default: 'rowGapNone' }}>{children}</Flex>
    {note && <div style={noteStyle} title={note}>{note}</div>}
  </div>
);

const noteStyle = { display: '-webkit-box', WebkitBoxOrient: 'vertical', WebkitLineClamp: 2, overflow: 'hidden', overflowWrap: 'anywhere', fontSize: 'var(--pf-t--global--font--size--xs)' } as const;

function rowsOf(chosen: Seen[], text: string, onlyUsable: boolean): Row[] {
  const wanted = text.toLowerCase();
  const rows: Row[] = [];
  for (const seen of chosen) {
    const node = seen.node.metadata.name ?? '';
    const devices = seen.devices
      .map((device) => ({ kind: 'device' as const, seen, device, verdict: verdictOn(seen, device) }))
      .filter((r) => !onlyUsable || r.verdict !== 'blocked')
      .filter(({ device: x }) => !wanted || [node, x.name, x.id, x.model, x.vendor, x.serial, ...(x.byID ?? [])].some((v) => v?.toLowerCase().includes(wanted)));
    if (devices.length || !wanted) rows.push({ kind: 'node', seen }, ...devices);
  }
  return rows;
}

type T = ReturnType<typeof useT>['t'];

function nodeNote(seen: Seen, t: T): string {
  if (!seen.status) return t('No disks are listed: the node agent does not run on this node, or has not reported yet.');
  const { ok, message } = observed(seen.status);
  return ok ? '' : t('The node agent could not read the devices, so this data is old: {{message}}', { message: message ?? '' });
}

const kindOf = (d: Device, t: T): string =>
  [d.type && d.type !== 'disk' ? d.type : '', d.transport, d.rotational ? t('HDD') : t('SSD')].filter(Boolean).join(', ');

function why({ device, verdict }: { device: Device; verdict: Verdict }, trap: Message | undefined, adopted: boolean, { t, m }: Pick<ReturnType<typeof useT>, 't' | 'm'>): string {
  if (adopted) return t('In volume group {{name}}, which is adopted with its data', { name: device.volumeGroup ?? '' });
  if (verdict === 'ours') return t('In volume group {{name}}', { name: device.volumeGroup ?? '' });
  const reasons =
    verdict === 'wipe' ? t('Contains {{content}}: must be wiped', { content: contentOf(device, m) })
    : verdict === 'group' ? t('In volume group {{name}}, which no device class uses: destroyed if selected', { name: device.volumeGroup ?? '' })
    : reasonsOf(device).map(m).join('; ');
  return [trap && m(trap), reasons].filter(Boolean).join(' ');
}

function Tick({ mode, row, toggle }: { mode: Mode; row: Extract<Row, { kind: 'device' }>; toggle: (seen: Seen, d: Device, on: boolean) => void }) {
  const { t } = useT();
  const { c } = useDraft();
  const { seen, device, verdict } = row;
  const own = verdict === 'ours' && device.volumeGroup === c.name;
  if (mode !== 'paths') {
    const found = own || (selectorsOf(c).length === 0 ? foundBy(undefined, device) : selectorsOf(c).some((s) => foundBy(s, device)));
    return <>{found && verdict !== 'blocked' && verdict !== 'group' ? t('Yes') : t('No')}</>;
  }
  const ticked = isNamed(c, seen, device);
  return (
    <Checkbox
      id={`tick-${seen.node.metadata.name}-${device.name}`}
      aria-label={t('Select {{path}} on node {{node}}', { path: stablePath(device), node: seen.node.metadata.name ?? '' })}
      isChecked={ticked}
      isDisabled={!ticked && (verdict === 'blocked' || (verdict === 'ours' && !own))}
      onChange={(_, on) => toggle(seen, device, on)}
    />
  );
}

/** The properties that a disk has to have. */
function Rules() {
  const { t } = useT();
  const { c, at, setDevices } = useDraft();
  const s = c.deviceSelector ?? {};
  const id = (key: string) => `${at}.deviceSelector.${key}`;
  const set = <K extends keyof typeof s>(key: K, value: (typeof s)[K] | undefined) => setDevices({ ...c, deviceSelector: withField(s, key, value) });
  const list = (text: string) => {
    const values = text.split(',').map((v) => v.trim()).filter(Boolean);
    return values.length ? values : undefined;
  };
  return (
    <>
      <Flex>
        <TextField id={id('minSize')} label={t('Minimum size')} placeholder="100Gi" value={String(s.minSize ?? '')} onChange={(v) => set('minSize', v || undefined)} />
        <TextField id={id('maxSize')} label={t('Maximum size')} placeholder="2Ti" value={String(s.maxSize ?? '')} onChange={(v) => set('maxSize', v || undefined)} />
      </Flex>
      <Choice
        id={id('rotational')}
        label={t('Disk type')}
        value={s.rotational === undefined ? 'either' : s.rotational ? 'hdd' : 'flash'}
        options={[{ value: 'either', label: t('Any') }, { value: 'flash', label: t('SSD or NVMe only') }, { value: 'hdd', label: t('HDD only') }]}
        onChange={(v) => set('rotational', v === 'either' ? undefined : v === 'hdd')}
      />
      <ListField id={id('transports')} label={t('Transports')} help={TRANSPORTS.join(', ')} value={s.transports} onChange={(v) => set('transports', list(v))} />
      <ListField id={id('models')} label={t('Models')} help={t('Separate with commas. Use * at the end as a wildcard.')} value={s.models} onChange={(v) => set('models', list(v))} />
    </>
  );
}

/** A list as a text with commas. What is typed stays as it is typed. */
function ListField({ id, label, help, value, onChange }: { id: string; label: string; help: string; value?: string[]; onChange: (text: string) => void }) {
  const [text, setText] = useState((value ?? []).join(', '));
  return (
    <TextField
      id={id}
      label={label}
      help={help}
      value={text}
      onChange={(v) => {
        setText(v);
        onChange(v);
      }}
    />
  );
}

/** Whether somebody has to approve each device. */
function Approval() {
  const { t } = useT();
  const { c, at, setClass } = useDraft();
  const id = `${at}.approval`;
  return (
    <Field id={`${id}-field`} label={t('Approval of devices')} group>
      <Checkbox
        id={id}
        label={t('Require an approval for each new device')}
        description={t('The device class uses no device before somebody has reviewed and approved it on the page of the device class. A device that changes after its review is left alone. Devices in the volume group are not affected.')}
        isChecked={c.approval === 'Required'}
        onChange={(_, on) => setClass(withField(c, 'approval', on ? 'Required' : undefined))}
      />
    </Field>
  );
}

function Policy() {
  const { t } = useT();
  const { c, at, setClass } = useDraft();
  const id = `${at}.deviceDiscoveryPolicy`;
  return (
    <Field id={`${id}-field`} label={t('New disks')} group>
      <Checkbox
        id={id}
        label={t('Add new disks automatically after one minute')}
        isChecked={c.deviceDiscoveryPolicy === 'Dynamic'}
        onChange={(_, on) => setClass(withField(c, 'deviceDiscoveryPolicy', on ? 'Dynamic' : undefined))}
      />
    </Field>
  );
}
