import { Button, Card, CardBody, CardTitle, Content, Flex, FlexItem, SearchInput, Stack, ToggleGroup, ToggleGroupItem } from '@patternfly/react-core';
import { useMemo, useState } from 'react';
import { Link } from '../router';
import type { LVMCluster } from '../api/types';
import { Noted, ReadErrors, Second } from '../components/parts';
import { VirtualTable } from '../components/VirtualTable';
import { useT } from '../i18n';
import { useMetrics, type Metrics } from '../kube/prometheus';
import { useLogicalVolumes, usePersistentVolumes } from '../kube/watch';
import { formatBytes } from '../model/quantity';
import { classOf, titleOf, volumesOf, type Volume } from '../model/volumes';
import { rowsOf, treeOf, withAncestors, type TreeRow } from '../model/volumeTree';
import { persistentVolumePath } from '../paths';
import { SuspendedVolume } from '../suspension/SuspendedLabel';
import { useForbidden, VolumeAction, WhyForbidden, type Chosen } from '../suspension/VolumeAction';
import { VolumeDialog } from '../suspension/VolumeDialog';
import { Branch, Written } from './VolumeCells';

/** So many volumes at most are asked for: those that hold most. */
const MOST = 1000;

const none: ReadonlySet<string> = new Set();

/** The volumes and snapshots of a device class, on all nodes. */
export function VolumesCard({ cluster, name, thin }: { cluster: LVMCluster; name: string; thin: boolean }) {
  const { t, m, locale } = useT();
  const logicalVolumes = useLogicalVolumes();
  const persistentVolumes = usePersistentVolumes();
  const written = useMetrics(thin ? `topk(${MOST}, lvms_volume_data_percent{device_class="${name}"})` : undefined);
  const [text, setText] = useState('');
  const [all, setAll] = useState(false);
  const [toggled, setToggled] = useState<ReadonlySet<string>>(none);
  const [kind, setKind] = useState<Volume['kind']>();
  const [chosen, setChosen] = useState<Chosen>();
  const forbidden = useForbidden();
  const volumes = useMemo(
    () => volumesOf(logicalVolumes.data.filter((lv) => classOf(lv, cluster) === name), persistentVolumes.error ? undefined : persistentVolumes.data),
    [logicalVolumes.data, persistentVolumes.data, persistentVolumes.error, cluster, name],
  );
  const told = logicalVolumes.loaded && !logicalVolumes.error;
  const tree = useMemo(() => {
    const names = new Set(logicalVolumes.data.map((lv) => lv.metadata.name));
    const shown = withAncestors(kind ? volumes.filter((v) => v.kind === kind) : volumes, (v) => contains(v, text));
    return treeOf(shown, told ? (source) => names.has(source) : undefined);
  }, [logicalVolumes.data, told, volumes, kind, text]);
  // What a filter finds is shown, wherever it is in the tree.
  const open = all || text !== '';
  const rows = useMemo(() => rowsOf(tree, (n) => toggled.has(n) !== open), [tree, toggled, open]);
  const toggle = (n: string) => setToggled((old) => new Set(old.has(n) ? [...old].filter((o) => o !== n) : [...old, n]));
  const expandAll = (is: boolean) => {
    setAll(is);
    setToggled(none);
  };
  const find = (next: string) => {
    if ((next === '') !== (text === '')) setToggled(none);
    setText(next);
  };
  const percents = useMemo(() => new Map(written.samples.map((s) => [s.labels['volume'], s.value])), [written.samples]);
  const snapshots = volumes.filter((v) => v.kind === 'snapshot').length;
  const notes = ({ volume: v, problems, orphan }: TreeRow): string[] => [
    ...(v.isPartOfMove ? [t('Part of the move of {{claim}}', { claim: titleOf(v) })] : orphan ? [t('The source {{source}} no longer exists', { source: v.source ?? '' })] : v.source ? [v.kind === 'snapshot' ? t('Snapshot of {{source}}', { source: v.source }) : t('Copy of {{source}}', { source: v.source })] : []),
    ...(v.copying === undefined ? [] : [t('The volume is being copied') + (v.copying && `: ${v.copying}`)]),
    ...(problems ? [t('{{count}} snapshots or clones with problems', { count: problems })] : []),
    ...(v.snapshots ? [t('{{count}} snapshots', { count: v.snapshots })] : []),
  ];
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
                <ToggleGroupItem text={t('All ({{count}})', { count: volumes.length })} buttonId="kind-all" isSelected={!kind} onChange={() => setKind(undefined)} />
                <ToggleGroupItem text={t('Volumes ({{count}})', { count: volumes.length - snapshots })} buttonId="kind-volume" isSelected={kind === 'volume'} onChange={() => setKind('volume')} />
                <ToggleGroupItem text={t('Snapshots ({{count}})', { count: snapshots })} buttonId="kind-snapshot" isSelected={kind === 'snapshot'} onChange={() => setKind('snapshot')} />
              </ToggleGroup>
            </FlexItem>
            <FlexItem>
              <SearchInput aria-label={t('Find a volume')} placeholder={t('Claim, namespace, node, name')} value={text} onChange={(_, v) => find(v)} onClear={() => find('')} />
            </FlexItem>
            {tree.children.size > 0 && text === '' && (
              <FlexItem>
                <Button variant="link" isInline onClick={() => expandAll(!all)} data-test="expand-all">
                  {all ? t('Collapse all') : t('Expand all')}
                </Button>
              </FlexItem>
            )}
          </Flex>
          <WhyForbidden forbidden={forbidden} />
          <VirtualTable
            label={t('Volumes and snapshots')}
            rows={rows}
            rowKey={({ volume }) => volume.name}
            place={(r) => ({ level: r.level, position: r.position, siblings: r.siblings, expanded: r.children ? r.expanded : undefined })}
            rowHeight={56}
            empty={!told ? t('Unknown') : volumes.length ? t('No volumes match the filter.') : t('This device class has no volumes.')}
            columns={[
              { key: 'claim', title: t('Claim or snapshot'), width: 11.5 }, { key: 'node', title: t('Node'), width: 6.25, lines: 2 },
              thin ? { key: 'used', title: t('Data written'), width: 13 } : { key: 'size', title: t('Size'), width: 6 },
              { key: 'pv', title: 'PersistentVolume', width: 9 }, { key: 'note', title: t('Details'), lines: 2 }, { key: 'do', title: t('Action'), width: 7 },
            ]}
            cells={({ volume: v, ...row }) => [
              <Branch key="c" row={{ volume: v, ...row }} toggle={toggle} />, v.node, thin ? <Written key="w" volume={v} percent={percents.get(v.lv.metadata.uid ?? '')} /> : formatBytes(v.size, locale),
              v.persistentVolume ? <Link key="p" to={persistentVolumePath(v.persistentVolume)} title={v.persistentVolume}>{v.persistentVolume}<Second text={v.phase ?? ''} /></Link> : persistentVolumes.error || !persistentVolumes.loaded ? t('Unknown') : '–',
              <Noted key="n" label={v.suspension && <SuspendedVolume suspension={v.suspension} />} text={[...v.problems.map(m), ...notes({ volume: v, ...row })].join('; ') || (v.suspension ? '' : '–')} />,
              <VolumeAction key="a" volume={v} forbidden={forbidden} choose={setChosen} />,
            ]}
          />
        </Stack>
        {chosen && <VolumeDialog key={chosen.volume.name} opened={chosen} now={volumes.find((v) => v.lv.metadata.uid === chosen.volume.lv.metadata.uid)} close={() => setChosen(undefined)} />}
      </CardBody>
    </Card>
  );
}

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
