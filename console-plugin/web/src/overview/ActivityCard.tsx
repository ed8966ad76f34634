import { Card, CardBody, CardTitle, Progress, ProgressMeasureLocation } from '@patternfly/react-core';
import { useEffect, useMemo, useState } from 'react';
import { Link } from '../router';
import type { LVMRecovery, NodeStatus } from '../api/types';
import { VirtualTable } from '../components/VirtualTable';
import { useT } from '../i18n';
import type { Watched } from '../kube/watch';
import { activitiesOf, remainingOf, tracked, type Activity, type Track } from '../model/activity';
import { classPath, nodePath, recoveryPath } from '../paths';

/** What is being done to the storage, with progress and remaining time. */
export default function ActivityCard({ statuses, recoveries }: { statuses: Watched<NodeStatus[]>; recoveries: Watched<LVMRecovery[]> }) {
  const { t } = useT();
  const rows = useMemo(() => activitiesOf(statuses.data, recoveries.data), [statuses.data, recoveries.data]);
  const [tracks, setTracks] = useState(new Map<string, Track>());
  useEffect(() => setTracks((before) => tracked(before, rows, Date.now())), [rows]);
  const known = statuses.loaded && !statuses.error && recoveries.loaded && !recoveries.error;
  const kinds = { move: t('Moving data off a device'), resync: t('Synchronizing a volume'), recovery: t('Recovery') };
  return (
    <Card data-test="activity">
      <CardTitle component="h2">{t('Activity')}</CardTitle>
      <CardBody>
        <VirtualTable
          label={t('Activity')}
          rows={rows}
          maxHeight={300}
          rowHeight={56}
          rowKey={(a) => a.key}
          empty={known ? t('No data is being moved, synchronized or recovered.') : t('Unknown')}
          columns={[
            { key: 'kind', title: t('Activity'), width: 9, lines: 2 }, { key: 'name', title: t('Name'), lines: 2 }, { key: 'node', title: t('Node'), width: 7.5, lines: 2 }, { key: 'class', title: t('Device class'), width: 6.5 },
            { key: 'progress', title: t('Progress'), width: 9 }, { key: 'remaining', title: t('Remaining time'), width: 7, lines: 2 }, { key: 'message', title: t('Details'), lines: 2 },
          ]}
          cells={(a) => [
            kinds[a.kind], a.kind === 'recovery' ? <Link key="n" to={recoveryPath(a.name)}>{a.name}</Link> : a.name, <Link key="o" to={nodePath(a.node)}>{a.node}</Link>,
            <Link key="c" to={classPath(a.deviceClass)}>{a.deviceClass}</Link>, <Done key="p" activity={a} />, <Remaining key="r" track={tracks.get(a.key)} />, a.message || '–',
          ]}
        />
      </CardBody>
    </Card>
  );
}

function Done({ activity: { name, percent } }: { activity: Activity }) {
  const { t } = useT();
  if (percent === undefined) return <>{t('Unknown')}</>;
  return <Progress aria-label={t('Progress of {{name}}', { name })} value={percent} size="sm" measureLocation={ProgressMeasureLocation.outside} />;
}

/** At the speed since the page is open. It is counted with each answer of the cluster, and not each second. */
function Remaining({ track }: { track?: Track }) {
  const { t, locale } = useT();
  const seconds = remainingOf(track, Date.now());
  if (seconds === undefined) return <>{t('Not known yet')}</>;
  const [value, unit] = seconds < 5400 ? [Math.ceil(seconds / 60), 'minute'] : [Math.round(seconds / 3600), 'hour'];
  return <>{new Intl.NumberFormat(locale, { style: 'unit', unit, unitDisplay: 'short' }).format(value)}</>;
}
