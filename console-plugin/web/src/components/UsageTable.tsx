import { useT } from '../i18n';
import type { Usage } from '../model/health';
import { formatBytes } from '../model/quantity';
import { ShareBar, StateLabel } from './parts';
import { VirtualTable } from './VirtualTable';

/** The volume groups of a device class, one a node. */
export function UsageTable({ name, thin, usage, loaded }: { name: string; thin: boolean; usage: Usage[]; loaded: boolean }) {
  const { t, locale } = useT();
  const size = (n?: number) => formatBytes(n, locale);
  const columns = [
    { key: 'node', title: t('Node'), width: 12 },
    { key: 'state', title: t('State'), width: 8 },
    { key: 'used', title: t('Used'), width: 13 },
    { key: 'free', title: t('Free'), width: 7 },
    ...(thin ? [{ key: 'virtual', title: t('Promised to volumes'), width: 11 }, { key: 'metadata', title: t('Metadata'), width: 7 }] : []),
    { key: 'reason', title: t('What is wrong'), wrap: true },
  ];
  return (
    <VirtualTable
      label={t('Capacity of device class {{name}} by node', { name })}
      columns={columns}
      rows={usage}
      rowKey={(u) => u.node}
      rowHeight={56}
      empty={loaded ? t('No node has a volume group of this device class yet.') : t('Not known.')}
      cells={(u) => [
        u.stale ? t('{{node}} (does not answer, so this is old)', { node: u.node }) : u.node,
        <StateLabel key="s" state={u.group.status ?? 'Unknown'} />,
        <ShareBar key="u" label={t('Used on {{node}}', { node: u.node })} part={u.used} whole={u.size} />,
        size(u.free),
        ...(thin ? [size(u.virtual), u.metadataPercent === undefined ? '–' : `${u.metadataPercent} %`] : []),
        wrongWith(u),
      ]}
    />
  );
}

function wrongWith({ group }: Usage): string {
  const unhealthy = (group.conditions ?? []).filter((c) => c.status !== 'True').map((c) => c.message ?? c.reason ?? c.type);
  return [group.reason, ...unhealthy].filter(Boolean).join('; ') || '–';
}
