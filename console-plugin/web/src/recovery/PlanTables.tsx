import { Content, Title } from '@patternfly/react-core';
import type { ReactNode } from 'react';
import { Link } from '../router';
import type { RecoveryPlan, RecoveryVolume } from '../api/types';
import { VirtualTable, type Column } from '../components/VirtualTable';
import { useT } from '../i18n';
import { formatBytes } from '../model/quantity';
import { unlisted } from '../model/recovery';
import { persistentVolumePath } from '../paths';
import { Age, ClaimLink } from './parts';

/** The devices and volumes of a plan; a list that is empty is left out. done: what was imported exists. */
export function PlanTables({ plan, done }: { plan: RecoveryPlan; done: boolean }) {
  const { t, locale } = useT();
  const size = (bytes?: number) => (bytes === undefined ? '–' : formatBytes(bytes, locale));
  const claim = { key: 'claim', title: t('Claim'), width: 13, lines: 2 };
  const bytes = { key: 'size', title: t('Size'), width: 6 };
  const name = { key: 'name', title: t('Logical volume'), lines: 2 };
  const claimOf = (v: RecoveryVolume) => <ClaimLink claim={v.claim} />;
  const more = unlisted(plan);
  // How old volumes are matters for those that have no objects, and the node for those that have.
  const moves = plan.importedVolumes?.some((v) => v.fromNode);
  return (
    <>
      <Section
        id="plan-devices" title={t('Devices')} rows={plan.devices} rowKey={(d) => d.uuid}
        columns={[{ key: 'name', title: t('Device'), width: 12, lines: 2 }, { key: 'id', title: t('Identity'), width: 16, lines: 2 }, { key: 'uuid', title: t('Physical volume UUID'), lines: 2 }]} cells={(d) => [d.name ?? '–', d.deviceID ?? '–', d.uuid]}
      />
      <Section
        id="plan-failing" title={t('Failing devices')} rows={plan.failingDevices} rowKey={(d) => d.uuid}
        columns={[{ key: 'name', title: t('Device'), width: 12, lines: 2 }, { key: 'id', title: t('Identity'), width: 16, lines: 2 }, { key: 'uuid', title: t('Physical volume UUID'), lines: 2 }]} cells={(d) => [d.name ?? '–', d.deviceID ?? '–', d.uuid]}
        note={t('These devices stay in the volume group. Request their removal afterwards, which moves their data to other devices.')}
      />
      <Section
        id="plan-pools" title={t('Thin pools')} rows={plan.thinPools} rowKey={keyOf} columns={[{ ...name, title: t('Thin pool') }, bytes, { key: 'used', title: t('Used'), width: 8 }]}
        cells={(v) => [v.name, size(v.size), size(v.allocatedBytes)]}
      />
      <Section
        id="plan-lost" title={t('Lost volumes')} rows={plan.lostVolumes} rowKey={keyOf} columns={[claim, name, bytes]} cells={(v) => [claimOf(v), v.name, size(v.size)]}
        note={more ? t('{{count}} of the lost volumes are not listed, because the plan would be too long.', { count: more }) : undefined}
      />
      <Section
        id="plan-damaged" title={t('Damaged volumes')} rows={plan.damagedVolumes} rowKey={keyOf} columns={[claim, name, bytes, { key: 'lost', title: t('Lost data'), width: 7 }]} cells={(v) => [claimOf(v), v.name, size(v.size), size(v.lostBytes)]}
        note={t('These volumes are kept. Their lost blocks read as zeros: check their file systems, or restore them from a backup.')}
      />
      <Section
        id="plan-mounted" title={t('Volumes to trim')} rows={plan.mountedVolumes} rowKey={keyOf}
        columns={[claim, name, bytes, { key: 'pool', title: t('Used in the pool'), width: 7 }, { key: 'used', title: t('Used in the file system'), width: 7 }]} cells={(v) => [claimOf(v), v.name, size(v.size), size(v.allocatedBytes), size(v.usedBytes)]}
      />
      <Section
        id="plan-imported" title={t('Volumes to import')} rows={plan.importedVolumes} rowKey={keyOf}
        columns={[{ ...claim, width: 11 }, name, bytes, { key: 'pv', title: 'PersistentVolume', width: 10, lines: 2 }, { key: 'fs', title: t('File system'), width: 6 }, ...(moves ? [{ key: 'from', title: t('From node'), width: 7, lines: 2 }] : [{ key: 'age', title: t('Age'), width: 5.5 }, { key: 'mounted', title: t('Last mounted'), width: 7 }])]}
        cells={(v) => [
          // They exist after the import, and before it if they only move.
          <ClaimLink key="c" claim={v.claim} plain={!done && !v.fromNode} />, v.name, size(v.size),
          v.persistentVolume && (done || v.fromNode) ? <Link key="p" to={persistentVolumePath(v.persistentVolume)} title={v.persistentVolume}>{v.persistentVolume}</Link> : (v.persistentVolume ?? '–'),
          v.fsType ?? t('Block'), ...(moves ? [v.fromNode ?? '–'] : [<Age key="a" time={v.created} />, <Age key="m" time={v.lastMountTime} />]),
        ]}
      />
      <Section
        id="plan-checked" title={t('File systems to repair')} rows={plan.checkedVolumes} rowKey={keyOf}
        columns={[claim, { ...name, width: 12 }, bytes, { key: 'fs', title: t('File system'), width: 6 }, { key: 'finding', title: t('Finding'), lines: 2 }]} cells={(v) => [claimOf(v), v.name, size(v.size), v.fsType ?? '–', v.finding ?? '–']}
      />
    </>
  );
}

const keyOf = (v: RecoveryVolume): string => `${v.uuid ?? ''} ${v.name}`;

interface SectionProps<T> {
  id: string;
  title: string;
  rows?: T[];
  rowKey: (row: T) => string;
  columns: Column[];
  cells: (row: T) => ReactNode[];
  note?: string;
}

function Section<T>({ id, title, rows = [], rowKey, columns, cells, note }: SectionProps<T>) {
  const { t } = useT();
  if (rows.length === 0) return null;
  return (
    <div data-test={id}>
      <Title headingLevel="h3" size="md">{t('{{title}} ({{number}})', { title, number: rows.length })}</Title>
      {note && <Content component="small">{note}</Content>}
      <VirtualTable label={title} rows={rows} maxHeight={360} rowHeight={48} rowKey={rowKey} empty="" columns={columns} cells={cells} />
    </div>
  );
}
