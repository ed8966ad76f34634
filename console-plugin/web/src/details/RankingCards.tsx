import { Card, CardBody, CardTitle, Content, StackItem } from '@patternfly/react-core';
import { useMemo } from 'react';
import { Link } from '../router';
import type { LogicalVolume } from '../api/types';
import { MetricsUnavailable } from '../components/MetricsUnavailable';
import { ShareBar } from '../components/parts';
import { VirtualTable } from '../components/VirtualTable';
import { useT } from '../i18n';
import { useMetrics, type Metrics } from '../kube/prometheus';
import { useLogicalVolumes, type Watched } from '../kube/watch';
import { formatBytes } from '../model/quantity';
import { byVolume, fastestQuery, growthQuery, largestQuery, rankedOf, usedQuery, type Ranked } from '../model/ranking';
import { volumesOf, type Volume } from '../model/volumes';
import { nodePath } from '../paths';
import { Purpose } from './VolumeCells';

/** Seconds between two questions about growth, which costs Prometheus more than the others, and changes slowly. */
const SELDOM = 600;

interface Props {
  name: string;
  thin: boolean;
}

/** The largest and the fastest growing volumes of a device class. */
export default function RankingCards({ name, thin }: Props) {
  const { t } = useT();
  const logicalVolumes = useLogicalVolumes();
  const largest = useMetrics(largestQuery(thin, name));
  const fastest = useMetrics(fastestQuery(thin, name), undefined, SELDOM);
  const large = useMemo(() => rankedOf(largest.samples), [largest.samples]);
  const fast = useMemo(() => rankedOf(fastest.samples), [fastest.samples]);
  const growth = useMetrics(large.length ? growthQuery(thin, name, namesOf(large)) : undefined, undefined, SELDOM);
  const used = useMetrics(fast.length ? usedQuery(thin, name, namesOf(fast)) : undefined);
  const grown = useMemo(() => byVolume(growth.samples), [growth.samples]);
  const sizes = useMemo(() => byVolume(used.samples), [used.samples]);
  const what = thin ? t('By the data written to the thin pool.') : t('By the space used in the file system, which the kubelet reports while a Pod uses the volume. Block volumes are not included.');
  return (
    <>
      <StackItem>
        <Ranking id="largest" title={t('Largest volumes')} text={what} metrics={largest} further={growth} logicalVolumes={logicalVolumes} none={t('No metrics of volumes yet.')} rows={large.map((r): Row => ({ ...r, used: r.value, growth: grown.get(r.volume) }))} />
      </StackItem>
      <StackItem>
        <Ranking
          id="fastest" title={t('Fastest growing volumes')} text={[what, t('Growth per day is the growth in the last 7 days, divided by 7.')].join(' ')} metrics={fastest} further={used} logicalVolumes={logicalVolumes} none={t('No volume is known to have grown in the last 7 days.')}
          rows={fast.map((r): Row => ({ ...r, used: sizes.get(r.volume), growth: r.value }))}
        />
      </StackItem>
    </>
  );
}

/** Sorted: a list in another order is the same question. */
const namesOf = (list: Ranked[]): string[] => list.map((r) => r.volume).sort();

interface Row extends Ranked {
  used?: number;
  /** Bytes per day. */
  growth?: number;
}

interface ListProps {
  id: string;
  title: string;
  text: string;
  metrics: Metrics;
  /** The answer that one of the columns is from. */
  further: Metrics;
  logicalVolumes: Watched<LogicalVolume[]>;
  rows: Row[];
  /** Said if the answer has no volume. */
  none: string;
}

function Ranking({ id, title, text, metrics, further, logicalVolumes, rows, none }: ListProps) {
  const { t, locale } = useT();
  const volumes = useMemo(() => {
    const names = new Set(rows.map((r) => r.volume));
    return new Map(volumesOf(logicalVolumes.data.filter((lv) => names.has(lv.metadata.uid ?? '')), undefined).map((v) => [v.lv.metadata.uid, v]));
  }, [logicalVolumes.data, rows]);
  const signed = (bytes: number) => `${bytes < 0 ? '−' : '+'}${formatBytes(Math.abs(bytes), locale)}`;
  return (
    <Card data-test={id}>
      <CardTitle component="h2">{title}</CardTitle>
      <CardBody>
        <Content component="small">{text}</Content>
        <MetricsUnavailable metrics={metrics.error ? metrics : further} />
        <VirtualTable
          label={title}
          rows={rows}
          rowHeight={56}
          maxHeight={620}
          rowKey={(r) => `${r.node} ${r.volume}`}
          empty={!metrics.loaded ? t('Loading metrics') : metrics.error ? t('Unknown') : none}
          columns={[{ key: 'claim', title: t('Claim or snapshot') }, { key: 'node', title: t('Node'), width: 11, lines: 2 }, { key: 'used', title: t('Used'), width: 14 }, { key: 'growth', title: t('Growth per day'), width: 10, lines: 2 }]}
          cells={(r) => {
            const volume = volumes.get(r.volume);
            return [
              <Who key="c" row={r} volume={volume} />, r.node ? <Link key="n" to={nodePath(r.node)}>{r.node}</Link> : t('Unknown'),
              <ShareBar key="u" label={t('Usage of {{name}} on {{node}}', { name: r.purpose ?? r.volume, node: r.node })} part={r.used} whole={volume?.size} plain />,
              r.growth === undefined ? t('Unknown') : signed(r.growth),
            ];
          }}
        />
      </CardBody>
    </Card>
  );
}

/** Without its LogicalVolume, it is not known whether it is a volume or a snapshot: there is no link. */
const Who = ({ row, volume }: { row: Row; volume?: Volume }) => (volume ? <Purpose volume={volume} /> : <span title={row.volume}>{row.purpose ?? row.volume}</span>);
