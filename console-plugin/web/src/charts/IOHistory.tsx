import { Content, Stack, StackItem, ToggleGroup, ToggleGroupItem } from '@patternfly/react-core';
import { useState } from 'react';
import { useT } from '../i18n';
import { stepOf, useHistory } from '../kube/prometheus';
import { formatLatency, IO_KINDS, IO_PERIODS, ioQuery, pointsOf, type IOKind, type IOPeriod, type IOScope } from '../model/io';
import { formatBytes } from '../model/quantity';
import { mostOf } from '../model/series';
import { TimeSeries, type Line } from './TimeSeries';

interface Props {
  scope: IOScope;
  /** The namespace whose metrics are asked for; none for those of all. */
  namespace?: string;
}

/** Throughput, operations and latency of volumes over time, of reads and writes. */
export default function IOHistory({ scope, namespace }: Props) {
  const { t } = useT();
  const [period, setPeriod] = useState<IOPeriod>(IO_PERIODS[0]);
  const periods: Record<IOPeriod, string> = { 3600: t('1 hour'), 86400: t('24 hours'), 604800: t('7 days') };
  return (
    <Stack hasGutter>
      <StackItem>
        <ToggleGroup isCompact aria-label={t('Period')}>
          {IO_PERIODS.map((p) => (
            <ToggleGroupItem key={p} text={periods[p]} isSelected={p === period} onChange={() => setPeriod(p)} />
          ))}
        </ToggleGroup>
      </StackItem>
      <StackItem style={{ display: 'grid', gap: '1.5rem', gridTemplateColumns: 'repeat(auto-fit, minmax(min(22rem, 100%), 1fr))' }}>
        {IO_KINDS.map((kind) => (
          <OneKind key={kind} kind={kind} scope={scope} namespace={namespace} period={period} />
        ))}
      </StackItem>
      <StackItem>
        <Content component="small">{t('Latency is the average time that an operation takes. It has gaps if there is no I/O.')}</Content>
      </StackItem>
    </Stack>
  );
}

function OneKind({ kind, scope, namespace, period }: Props & { kind: IOKind; period: IOPeriod }) {
  const { t, locale } = useT();
  const step = stepOf(period);
  const history = useHistory(ioQuery(kind, scope, step), period, namespace);
  const title: Record<IOKind, string> = { throughput: t('Throughput'), operations: t('Operations per second (IOPS)'), latency: t('Latency') };
  const format: Record<IOKind, (n: number) => string> = {
    throughput: (n) => `${formatBytes(n, locale)}/s`,
    operations: (n) => new Intl.NumberFormat(locale, { maximumFractionDigits: n < 10 ? 1 : 0 }).format(n),
    latency: (n) => formatLatency(n, locale),
  };
  const lines: Line[] = [
    { label: t('Read'), points: pointsOf(history.series, 'read'), step: step * 1000 },
    { label: t('Write'), points: pointsOf(history.series, 'write'), step: step * 1000 },
  ];
  const to = Date.now();
  return (
    <section data-test={`io-${kind}`} style={{ minWidth: 0 }}>
      <Content component="h3">{title[kind]}</Content>
      <TimeSeries
        label={title[kind]} lines={lines} history={history} namespace={namespace} from={to - period * 1000} to={to}
        most={kind === 'latency' ? mostOf(lines.map((l) => l.points), 0.001) : mostOf(lines.map((l) => l.points))} format={format[kind]}
      />
    </section>
  );
}
