// Volume groups of this product that no device class of the node uses: those of another cluster, or of another node.
import { Alert, Button, Checkbox, Form, List, ListItem } from '@patternfly/react-core';
import { VirtualTable } from '../components/VirtualTable';
import { useT } from '../i18n';
import { withField } from '../model/cluster';
import { adoptable, adoptedElsewhere, isAdoptedGroup, sizeOf, withAdopted, withoutAdopted, type Group } from '../model/groups';
import { formatBytes } from '../model/quantity';
import { useDraft } from './draft';
import { Field } from './fields';

export function AdoptGroups() {
  const { t } = useT();
  const { c, at, chosen } = useDraft();
  const groups = adoptable(chosen);
  const elsewhere = adoptedElsewhere(c, chosen);
  if (groups.length + elsewhere.length === 0) return null;
  return (
    <Form onSubmit={(e) => e.preventDefault()}>
      <Field id={`${at}.adopt`} label={t('Volume groups to adopt')} group>
        <Alert isInline variant="info" title={t('Adopt a volume group to keep its data')} data-test="adopt">
          <List>
            <ListItem>{t('The device class uses the volume group with all its logical volumes. Nothing in them is changed. The volume group gets the name of the device class, and tags of this cluster.')}</ListItem>
            <ListItem>{t('Only volume groups that LVM Storage created can be adopted, for example those of a cluster that was reinstalled, or of disks that were moved from another node. Adopt one only if no other cluster and no other node uses its disks.')}</ListItem>
            <ListItem>{t('Claims are not created: afterward, recover the volumes with the action ImportVolumes.')}</ListItem>
            <ListItem>{t('If you do not need the data, select the disks of the volume group in the table of disks instead. This destroys the volume group with all its logical volumes, after you confirm it.')}</ListItem>
          </List>
        </Alert>
        <Groups groups={groups} />
        <Elsewhere entries={elsewhere} />
      </Field>
    </Form>
  );
}

function Groups({ groups }: { groups: Group[] }) {
  const { t, locale } = useT();
  const { c, was, nodes, setDevices } = useDraft();
  const nodeOf = (g: Group) => g.seen.node.metadata.name ?? '';
  const own = (g: Group) => was !== undefined && (g.seen.status?.status?.nodeStatus ?? []).some((e) => e.name === was.name && !!e.uuid);
  return (
    <VirtualTable
      label={t('Volume groups that can be adopted')}
      rows={groups}
      rowKey={(g) => `${nodeOf(g)}/${g.uuid}`}
      rowHeight={56}
      empty={t('The selected nodes list no volume group that can be adopted.')}
      columns={[
        { key: 'adopt', title: t('Adopt'), width: 5 }, { key: 'node', title: t('Node'), width: 8, lines: 2 }, { key: 'name', title: t('Volume group'), width: 12, lines: 2 },
        { key: 'size', title: t('Size'), width: 7 }, { key: 'disks', title: t('Disks'), lines: 2 },
      ]}
      cells={(g) => [
        <Checkbox
          key="a" id={`adopt-${nodeOf(g)}-${g.uuid}`} aria-label={t('Adopt volume group {{name}} of node {{node}}', { name: g.name, node: nodeOf(g) })}
          isChecked={isAdoptedGroup(c, g)} isDisabled={own(g) && !isAdoptedGroup(c, g)}
          onChange={(_, on) => setDevices(on ? withAdopted(c, g, nodes, was) : withoutAdopted(c, g))}
        />,
        nodeOf(g), <span key="n" title={g.uuid}>{g.name}</span>, formatBytes(sizeOf(g), locale),
        own(g) ? t('Device class {{name}} already has a volume group on this node: add a device class for this one.', { name: c.name }) : g.devices.map((d) => d.name).join(', '),
      ]}
    />
  );
}

/** Entries that lead to no volume group that is known: they are kept, and said. */
function Elsewhere({ entries }: { entries: { node: string; volumeGroupUUID: string }[] }) {
  const { t } = useT();
  const { c, setDevices } = useDraft();
  if (entries.length === 0) return null;
  const remove = () => {
    const kept = (c.adopt ?? []).filter((a) => !entries.includes(a));
    setDevices(withField(c, 'adopt', kept.length > 0 ? kept : undefined));
  };
  return (
    <Alert isInline variant="info" title={t('{{count}} adopted volume groups are listed by no node, or already used', { count: entries.length })} data-test="adopted-elsewhere" actionLinks={<Button variant="link" isInline onClick={remove}>{t('Remove from adopt')}</Button>}>
      {entries.map((e) => `${e.node}: ${e.volumeGroupUUID}`).join(', ')}
    </Alert>
  );
}
