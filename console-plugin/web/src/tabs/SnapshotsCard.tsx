import { Card, CardBody, CardTitle } from '@patternfly/react-core';
import { useMemo } from 'react';
import { Link } from '../router';
import type { LogicalVolume } from '../api/types';
import { VirtualTable } from '../components/VirtualTable';
import { useT } from '../i18n';
import type { Watched } from '../kube/watch';
import { formatBytes } from '../model/quantity';
import { isPartOfMove, volumesOf, type Volume } from '../model/volumes';
import { claimPath } from '../paths';

/** The snapshots of a volume, and the volumes that were created from it. */
export function SnapshotsCard({ source, all }: { source: LogicalVolume; all: Watched<LogicalVolume[]> }) {
  const { t, locale } = useT();
  const rows = useMemo(() => volumesOf(all.data.filter((lv) => lv.spec.source === source.metadata.name && !isPartOfMove(lv)), undefined), [all.data, source.metadata.name]);
  return (
    <Card data-test="snapshots">
      <CardTitle component="h2">{t('Snapshots and clones')}</CardTitle>
      <CardBody>
        <VirtualTable
          label={t('Snapshots and clones')}
          rows={rows}
          maxHeight={260}
          rowKey={(v) => v.name}
          empty={all.loaded && !all.error ? t('This volume has no snapshots or clones.') : t('Unknown')}
          columns={[{ key: 'name', title: t('Name') }, { key: 'kind', title: t('Type'), width: 7 }, { key: 'size', title: t('Size'), width: 7 }, { key: 'created', title: t('Created'), width: 13, lines: 2 }]}
          cells={(v) => [<Name key="n" volume={v} />, v.kind === 'snapshot' ? t('Snapshot') : t('Clone'), formatBytes(v.size, locale), v.lv.metadata.creationTimestamp ? new Date(v.lv.metadata.creationTimestamp).toLocaleString(locale) : '–']}
        />
      </CardBody>
    </Card>
  );
}

/** The VolumeSnapshot or claim, or else the LogicalVolume. */
function Name({ volume: v }: { volume: Volume }) {
  if (!v.namespace || !v.claim) return <span title={v.name}>{v.name}</span>;
  const text = `${v.namespace}/${v.claim}`;
  return v.kind === 'volume' ? <Link to={claimPath(v.namespace, v.claim)} title={text}>{text}</Link> : <span title={text}>{text}</span>;
}
