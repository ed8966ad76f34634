import { Card, CardBody, CardTitle, Content, Flex, FlexItem, SearchInput, Stack, ToggleGroup, ToggleGroupItem } from '@patternfly/react-core';
import { useMemo, useState } from 'react';
import { Link } from 'react-router';
import type { LVMCluster } from '../api/types';
import { Noted, ReadErrors, Second, ShareBar } from '../components/parts';
import { VirtualTable } from '../components/VirtualTable';
import { useT } from '../i18n';
import { useMetrics, type Metrics } from '../kube/prometheus';
import { useLogicalVolumes, usePersistentVolumes } from '../kube/watch';
import { formatBytes } from '../model/quantity';
import { classOf, volumesOf, type Volume } from '../model/volumes';
import { claimPath, persistentVolumePath } from '../paths';
import { SuspendedVolume } from '../suspension/SuspendedLabel';
import { useForbidden, VolumeAction, WhyForbidden, type Chosen } from '../suspension/VolumeAction';
import { VolumeDialog } from '../suspension/VolumeDialog';

/** So many volumes at most are asked for: those that hold most. */
const MOST = 1000;

/** The volumes and snapshots of a device class, on all nodes. */
export function VolumesCard({ cluster, name, thin }: { cluster: LVMCluster; name: string; thin: boolean }) {
  const { t, m, locale } = useT();
  const logicalVolumes = useLogicalVolumes();
  const persistentVolumes = usePersistentVolumes();
  const written = useMetrics(thin ? `topk(${MOST}, lvms_volume_data_percent{device_class="${name}"})` : undefined);
  const [text, setText] = useState('');
  const [kind, setKind] = useState<Volume['kind']>();
  const [chosen, setChosen] = useState<Chosen>();
  const forbidden = useForbidden();
  const all = useMemo(
    () => volumesOf(logicalVolumes.data.filter((lv) => classOf(lv, cluster) === name), persistentVolumes.error ? undefined : persistentVolumes.data),
    [logicalVolumes.data, persistentVolumes.data, persistentVolumes.error, cluster, name],
  );
  const rows = useMemo(() => all.filter((v) => (!kind || v.kind === kind) && contains(v, text)), [all, kind, text]);
  const percents = useMemo(() => new Map(written.samples.map((s) => [s.labels['volume'], s.value])), [written.samples]);
  const snapshots = all.filter((v) => v.kind === 'snapshot').length;
  const told = logicalVolumes.loaded && !logicalVolumes.error;
  return (
    <Card data-test="volumes">
      <CardTitle component="h2">{t('Volumes and snapshots')}</CardTitle>
      <CardBody>
        <Stack hasGutter>
          <ReadErrors reads={[[t('LogicalVolumes'), logicalVolumes], [t('PersistentVolumes'), persistentVolumes]]} />
          {thin && <Unmeasured metrics={written} />}
          <Flex>
            <FlexItem>
              <ToggleGroup aria-label={t('Type')}>
                <ToggleGroupItem text={t('All ({{count}})', { count: all.length })} buttonId="kind-all" isSelected={!kind} onChange={() => setKind(undefined)} />
                <ToggleGroupItem text={t('Volumes ({{count}})', { count: all.length - snapshots })} buttonId="kind-volume" isSelected={kind === 'volume'} onChange={() => setKind('volume')} />
                <ToggleGroupItem text={t('Snapshots ({{count}})', { count: snapshots })} buttonId="kind-snapshot" isSelected={kind === 'snapshot'} onChange={() => setKind('snapshot')} />
              </ToggleGroup>
            </FlexItem>
            <FlexItem>
              <SearchInput aria-label={t('Find a volume')} placeholder={t('Claim, namespace, node, name')} value={text} onChange={(_, v) => setText(v)} onClear={() => setText('')} />
            </FlexItem>
          </Flex>
          <WhyForbidden forbidden={forbidden} />
          <VirtualTable
            label={t('Volumes and snapshots')}
            rows={rows}
            rowKey={(v) => v.name}
            rowHeight={56}
            empty={!told ? t('Unknown') : all.length ? t('No volumes match the filter.') : t('This device class has no volumes.')}
            columns={[
              { key: 'claim', title: t('Claim or snapshot'), width: 11.5 }, { key: 'node', title: t('Node'), width: 6.25, lines: 2 },
              thin ? { key: 'used', title: t('Data written'), width: 13 } : { key: 'size', title: t('Size'), width: 6 },
              { key: 'pv', title: 'PersistentVolume', width: 9 }, { key: 'note', title: t('Details'), lines: 2 }, { key: 'do', title: t('Action'), width: 7 },
            ]}
            cells={(v) => [
              <Purpose key="c" volume={v} />, v.node, thin ? <Written key="w" volume={v} percent={percents.get(v.lv.metadata.uid ?? '')} /> : formatBytes(v.size, locale),
              v.persistentVolume ? <Link key="p" to={persistentVolumePath(v.persistentVolume)} title={v.persistentVolume}>{v.persistentVolume}<Second text={v.phase ?? ''} /></Link> : persistentVolumes.error || !persistentVolumes.loaded ? t('Unknown') : '–',
              <Noted key="n" label={v.suspension && <SuspendedVolume suspension={v.suspension} />} text={[...v.problems.map(m), ...(v.source ? [v.kind === 'snapshot' ? t('Snapshot of {{source}}', { source: v.source }) : t('Copy of {{source}}', { source: v.source })] : []), ...(v.snapshots ? [t('{{count}} snapshots', { count: v.snapshots })] : [])].join('; ') || (v.suspension ? '' : '–')} />,
              <VolumeAction key="a" volume={v} forbidden={forbidden} choose={setChosen} />,
            ]}
          />
        </Stack>
        {chosen && <VolumeDialog key={chosen.volume.name} opened={chosen} now={all.find((v) => v.lv.metadata.uid === chosen.volume.lv.metadata.uid)} close={() => setChosen(undefined)} />}
      </CardBody>
    </Card>
  );
}

function Purpose({ volume: v }: { volume: Volume }) {
  const { t } = useT();
  if (!v.claim || !v.namespace) return <span title={v.name}>{v.name}<Second text={v.kind === 'snapshot' ? t('Snapshot') : t('Owner unknown')} /></span>;
  if (v.kind === 'snapshot') return <span title={v.name}>{v.claim}<Second text={t('Snapshot in {{namespace}}', { namespace: v.namespace })} /></span>;
  return (
    <>
      <Link to={claimPath(v.namespace, v.claim)} title={v.name}>{v.claim}</Link>
      <Second text={v.namespace} />
    </>
  );
}

const Written = ({ volume, percent }: { volume: Volume; percent?: number }) => {
  const { t } = useT();
  const part = percent === undefined || volume.size === undefined ? undefined : (volume.size * percent) / 100;
  return <ShareBar label={t('Data written to {{name}}', { name: volume.claim ?? volume.name })} part={part} whole={volume.size} plain />;
};

/** Says why it is not known how much is written. */
export function Unmeasured({ metrics }: { metrics: Metrics }) {
  const { t } = useT();
  if (!metrics.error) return null;
  return (
    <Content component="small" data-test="unmeasured">
      {metrics.forbidden
        ? t('Written data unavailable: you lack permission to see the metrics of all namespaces (ClusterRole cluster-monitoring-view).')
        : t('Written data unavailable: Prometheus is unreachable ({{error}})', { error: metrics.error })}
    </Content>
  );
}

const contains = (v: Volume, text: string): boolean =>
  !text || [v.claim, v.namespace, v.node, v.name, v.persistentVolume, v.lv.metadata.uid].some((s) => s?.toLowerCase().includes(text.toLowerCase()));
