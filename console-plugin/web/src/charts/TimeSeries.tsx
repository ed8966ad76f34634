import { Content, Flex, Skeleton, Stack, StackItem, ToggleGroup, ToggleGroupItem } from '@patternfly/react-core';
import { lazy, useEffect, useRef, useState, type ReactNode } from 'react';
import { MetricsUnavailable } from '../components/MetricsUnavailable';
import { VirtualTable } from '../components/VirtualTable';
import { useT } from '../i18n';
import type { History, Point } from '../kube/prometheus';
import { currentOf, summaryOf } from '../model/series';
import { color, DANGER, WARNING } from './colors';
import { Lazy } from './lazy';
import { Legend, type LegendRow } from './Legend';

const SeriesChart = lazy(() => import('./SeriesChart'));

export interface Line {
  label: string;
  points: Point[];
  /** From the last point on; none without a forecast. */
  forecast?: Point[];
  /** Milliseconds between two points. With it, times without a point are gaps in the line. */
  step?: number;
}

export interface Threshold {
  label: string;
  value: number;
  level: 'warning' | 'danger';
}

interface Props {
  /** What the lines are, for screen readers. */
  label: string;
  lines: Line[];
  thresholds?: Threshold[];
  /** What Prometheus answered: whether the lines are known. */
  history: Pick<History, 'loaded' | 'error' | 'forbidden'>;
  /** The namespace whose metrics were asked for; none for those of all. */
  namespace?: string;
  from: number;
  to: number;
  most: number;
  format: (value: number) => string;
  /** What chooses the lines, such as their period. */
  controls?: ReactNode;
}

/** Pixels. */
const HEIGHT = 260;

/** Lines over time, or why there are none. Everything that the drawing says is in the legend and the table too. */
export function TimeSeries({ label, lines, thresholds = [], history, namespace, from, to, most, format, controls }: Props) {
  const { t, locale } = useT();
  const [table, setTable] = useState(false);
  const drawn = lines.filter((l) => l.points.length > 0);
  return (
    <Stack hasGutter>
      <StackItem>
        <Flex>
          {controls}
          {drawn.length > 0 && (
            <ToggleGroup isCompact aria-label={t('Presentation of {{what}}', { what: label })}>
              <ToggleGroupItem text={t('Chart')} isSelected={!table} onChange={() => setTable(false)} />
              <ToggleGroupItem text={t('Table')} isSelected={table} onChange={() => setTable(true)} />
            </ToggleGroup>
          )}
        </Flex>
      </StackItem>
      {history.error && (
        <StackItem>
          <MetricsUnavailable metrics={history} namespace={namespace} />
        </StackItem>
      )}
      {!history.loaded && (
        <StackItem>
          <Skeleton height={`${HEIGHT}px`} screenreaderText={t('Loading metrics')} />
        </StackItem>
      )}
      {history.loaded && !history.error && drawn.length === 0 && (
        <StackItem data-test="series-empty">
          <Content component="p">{t('No metrics in this period yet.')}</Content>
        </StackItem>
      )}
      {drawn.length > 0 &&
        (table ? (
          <StackItem>
            <Values label={label} lines={drawn} format={format} to={to} />
          </StackItem>
        ) : (
          <StackItem role="group" aria-label={label}>
            <Drawing lines={drawn} thresholds={thresholds} from={from} to={to} most={most} format={format} locale={locale} />
            <Legend inline rows={legendOf(drawn, thresholds, format, t('Forecast'), to)} />
          </StackItem>
        ))}
    </Stack>
  );
}

function legendOf(lines: Line[], thresholds: Threshold[], format: Props['format'], forecast: string, to: number): LegendRow[] {
  const now = (l: Line): string => {
    const value = currentOf(l.points, l.step, to);
    return value === undefined ? '–' : format(value);
  };
  return [
    ...lines.map((l, i): LegendRow => ({ label: l.label, text: now(l), color: color(i), mark: 'line' })),
    ...(lines.some((l) => l.forecast) ? [{ label: forecast, color: 'currentColor', mark: 'dashes' as const }] : []),
    ...thresholds.map((t): LegendRow => ({ label: t.label, text: format(t.value), color: t.level === 'danger' ? DANGER : WARNING, mark: 'dashes' })),
  ];
}

/** As wide as its place. */
function Drawing(props: Omit<Parameters<typeof SeriesChart>[0], 'width' | 'height'>) {
  const box = useRef<HTMLDivElement>(null);
  const [width, setWidth] = useState(0);
  useEffect(() => {
    if (!box.current) return undefined;
    const observer = new ResizeObserver(([entry]) => setWidth(Math.floor(entry?.contentRect.width ?? 0)));
    observer.observe(box.current);
    return () => observer.disconnect();
  }, []);
  return (
    <div ref={box} aria-hidden="true" data-test="series" style={{ height: HEIGHT, overflow: 'hidden' }}>
      {width > 0 && (
        <Lazy fallback={null}>
          <SeriesChart {...props} width={width} height={HEIGHT} />
        </Lazy>
      )}
    </div>
  );
}

function Values({ label, lines, format, to }: Pick<Props, 'label' | 'lines' | 'format' | 'to'>) {
  const { t } = useT();
  const text = (value?: number): string => (value === undefined ? '–' : format(value));
  return (
    <VirtualTable
      label={label}
      rows={lines}
      maxHeight={HEIGHT}
      rowKey={(l) => l.label}
      empty=""
      columns={[
        { key: 'name', title: t('Name') }, { key: 'now', title: t('Now'), width: 7 }, { key: 'lowest', title: t('Lowest'), width: 7 }, { key: 'highest', title: t('Highest'), width: 7 },
        ...(lines.some((l) => l.forecast) ? [{ key: 'ahead', title: t('Forecast'), width: 7 }] : []),
      ]}
      cells={(l) => {
        const s = summaryOf(l.points, l.forecast);
        return [l.label, text(currentOf(l.points, l.step, to)), text(s.lowest), text(s.highest), ...(lines.some((o) => o.forecast) ? [text(s.ahead)] : [])];
      }}
    />
  );
}
