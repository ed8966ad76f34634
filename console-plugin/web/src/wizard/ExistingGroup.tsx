// A device class on a volume group that an administrator created: which one, and how new volumes are created in it.
import { Alert, Button, Form, Label, List, ListItem } from '@patternfly/react-core';
import { useState } from 'react';
import type { DeviceClass } from '../api/types';
import { VirtualTable } from '../components/VirtualTable';
import { useT } from '../i18n';
import { withField } from '../model/cluster';
import { existing, nodesWithout, sizeOf, type Shared } from '../model/groups';
import { formatBytes } from '../model/quantity';
import { rangeOf } from '../model/schema';
import { immutable } from '../model/validate';
import { useDraft } from './draft';
import { Choice, NumberField, TextField } from './fields';

/** The choice of the volume group. */
export function ExistingGroup() {
  const { t, m } = useT();
  const { c, at, was, chosen, setClass } = useDraft();
  const name = c.existingVolumeGroup ?? '';
  const lacking = name ? nodesWithout(name, chosen) : [];
  const fixed = was?.existingVolumeGroup && immutable.existingVolumeGroup ? m(immutable.existingVolumeGroup) : undefined;
  return (
    <>
      <Alert isInline variant="info" title={t('The volume group stays as it is')} data-test="existing-group">
        <List>
          <ListItem>{t('The device class creates, extends and deletes only its own logical volumes. It does not change data, devices, thin pools, tags or other logical volumes.')}</ListItem>
          <ListItem>{t('Disks are not added, drained or replaced here, and nothing is repaired: you run LVM commands on the node for that.')}</ListItem>
          <ListItem>{t('A volume group that LVM Storage created cannot be used in this way: choose Selected disks, and adopt it.')}</ListItem>
          <ListItem>{t('To let LVM Storage manage the disks, destroy the volume group: choose Selected disks, and select its disks. All its logical volumes and their data are lost.')}</ListItem>
        </List>
      </Alert>
      <Form onSubmit={(e) => e.preventDefault()}>
        <TextField
          id={`${at}.existingVolumeGroup`} label={t('Volume group')} isRequired fixed={fixed} value={name}
          help={t('The volume group must have this name on each selected node.')} onChange={(existingVolumeGroup) => setClass({ ...c, existingVolumeGroup })}
        />
      </Form>
      {lacking.length > 0 && (
        <Alert isInline variant="warning" title={t('{{count}} selected nodes list no volume group {{name}}', { count: lacking.length, name })} data-test="nodes-without-group">
          {t('{{nodes}}: create the volume group there, or exclude these nodes. Until then, the device class is Failed on them.', { nodes: lacking.slice(0, 5).join(', ') + (lacking.length > 5 ? ' …' : '') })}
        </Alert>
      )}
      {!fixed && <Found name={name} onSelect={(existingVolumeGroup) => setClass({ ...c, existingVolumeGroup })} />}
    </>
  );
}

/** The volume groups that the nodes list. */
function Found({ name, onSelect }: { name: string; onSelect: (name: string) => void }) {
  const { t, locale } = useT();
  const { chosen } = useDraft();
  const nodesOf = ({ groups }: Shared) => groups.map((g) => g.seen.node.metadata.name).join(', ');
  const users = ({ groups }: Shared) => [...new Set(groups.flatMap((g) => g.users))];
  return (
    <VirtualTable
      label={t('Volume groups on the selected nodes')}
      rows={existing(chosen)}
      rowKey={(r) => r.name}
      rowHeight={48}
      empty={t('The selected nodes list no volume group that can be used.')}
      columns={[
        { key: 'name', title: t('Volume group'), width: 10, lines: 2 }, { key: 'nodes', title: t('Nodes'), width: 9, lines: 2 }, { key: 'size', title: t('Size'), width: 6 },
        { key: 'used', title: t('Used by'), lines: 2 }, { key: 'select', title: t('Action'), width: 7 },
      ]}
      cells={(r) => [
        r.name, <span key="n" title={nodesOf(r)}>{nodesOf(r)}</span>, formatBytes(r.groups.reduce((sum, g) => sum + sizeOf(g), 0), locale), users(r).join(', ') || t('No device class'),
        r.name === name ? <Label key="l" color="blue" data-test="group-selected">{t('Selected')}</Label>
        : <Button key="b" variant="link" isInline aria-label={t('Select volume group {{name}}', { name: r.name })} onClick={() => onSelect(r.name)}>{t('Select')}</Button>,
      ]}
    />
  );
}

type Config = NonNullable<DeviceClass['existingVolumeGroupConfig']>;

/** How new volumes are created in the volume group: existingVolumeGroupConfig. */
export function GroupConfig() {
  const { t } = useT();
  const { c, at, setClass } = useDraft();
  const config = c.existingVolumeGroupConfig ?? {};
  const id = (key: keyof Config) => `${at}.existingVolumeGroupConfig.${key}`;
  const set = <K extends keyof Config>(key: K, value: Config[K] | undefined) => {
    const next = withField(config, key, value);
    setClass(withField(c, 'existingVolumeGroupConfig', Object.keys(next).length > 0 ? next : undefined));
  };
  const number = (text: string) => (text.trim() === '' ? undefined : Number(text));
  return (
    <>
      <NumberField
        id={id('spareGiB')} label={t('Space to keep free (GiB)')} {...rangeOf('existingVolumeGroupConfig.spareGiB')} value={config.spareGiB ?? 0}
        help={t('Subtracted from the capacity that the scheduler sees. Expansions of volumes and snapshots can use it.')} onChange={(n) => set('spareGiB', n === 0 ? undefined : n)}
      />
      {!c.thinPoolConfig && (
        <>
          <Choice
            id={id('allocation')} label={t('Placement of volumes')} value={config.allocation ?? 'Any'} onChange={(v) => set('allocation', v === 'Any' ? undefined : v)}
            options={[
              { value: 'Any', label: t('Any: LVM fills one disk after the other') },
              { value: 'SingleDevice', label: t('Single disk: each volume is on one disk, and can be as large as the free space of one') },
            ]}
          />
          <TextField
            id={id('stripes')} label={t('Stripes of new volumes')} placeholder="2" value={Number.isNaN(config.stripes) ? '' : String(config.stripes ?? '')}
            help={t('Number of disks that the data of a new volume is striped across. If empty, volumes are not striped.')} onChange={(v) => set('stripes', number(v))}
          />
          <TextField
            id={id('stripeSize')} label={t('Stripe size')} placeholder="64Ki" value={String(config.stripeSize ?? '')}
            help={t('A power of two of at least 4Ki.')} onChange={(v) => set('stripeSize', v || undefined)}
          />
          <Options id={id('lvcreateOptions')} value={config.lvcreateOptions} onChange={(v) => set('lvcreateOptions', v)} />
        </>
      )}
    </>
  );
}

/** A list as a text with spaces. What is typed stays as it is typed. */
function Options({ id, value, onChange }: { id: string; value?: string[]; onChange: (options: string[] | undefined) => void }) {
  const { t } = useT();
  const [text, setText] = useState((value ?? []).join(' '));
  const change = (v: string) => {
    setText(v);
    const options = v.split(/\s+/).filter(Boolean);
    onChange(options.length > 0 ? options : undefined);
  };
  return (
    <TextField
      id={id} label={t('Options of lvcreate for new volumes')} placeholder="--type=raid1 --mirrors=1" value={text}
      help={t('Separate with spaces. Each option has its value after "=".')} onChange={change}
    />
  );
}
