import { Link } from '../router';
import type { LVMRecovery } from '../api/types';
import { VirtualTable } from '../components/VirtualTable';
import { useT } from '../i18n';
import type { Watched } from '../kube/watch';
import { sorted } from '../model/recovery';
import { classPath, recoveryPath } from '../paths';
import { Age, PhaseLabel } from './parts';

/** Recoveries; of one device class, if it is named. */
export function RecoveriesTable({ recoveries, name }: { recoveries: Watched<LVMRecovery[]>; name?: string }) {
  const { t } = useT();
  const rows = sorted(recoveries.data.filter((r) => !name || r.spec.deviceClassName === name));
  return (
    <VirtualTable
      label={t('Recoveries')}
      rows={rows}
      maxHeight={300}
      rowKey={(r) => r.metadata.uid ?? r.metadata.name ?? ''}
      empty={
        recoveries.error || !recoveries.loaded
          ? t('Unknown')
          : t('There are no recoveries. A recovery makes a device class of a node usable again after a failure, for example a dead disk or a damaged thin pool. It lists what is lost, and changes nothing until this is approved.')
      }
      columns={[
        { key: 'name', title: t('Name'), lines: 2 }, { key: 'node', title: t('Node'), width: 7.5, lines: 2 }, ...(name ? [] : [{ key: 'class', title: t('Device class'), width: 6.5 }]),
        { key: 'action', title: t('Action'), width: 11 }, { key: 'phase', title: t('Phase'), width: 11.5 }, { key: 'lost', title: t('Lost volumes'), width: 5.5 }, { key: 'age', title: t('Age'), width: 5 },
      ]}
      cells={(r) => [
        <Link key="n" to={recoveryPath(r.metadata.name ?? '')} title={r.metadata.name}>{r.metadata.name}</Link>, r.spec.nodeName,
        ...(name ? [] : [<Link key="c" to={classPath(r.spec.deviceClassName)}>{r.spec.deviceClassName}</Link>]),
        <span key="a" title={r.spec.action}>{r.spec.action}</span>, <PhaseLabel key="p" phase={r.status?.phase} />, r.status?.plan ? String(r.status.plan.lostVolumeCount) : '–', <Age key="t" time={r.metadata.creationTimestamp} />,
      ]}
    />
  );
}
