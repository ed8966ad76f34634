// Loaded only with a page that shows it: Victory is large.
import { Chart } from '@patternfly/react-charts/dist/esm/victory/components/Chart/Chart';
import { ChartAxis } from '@patternfly/react-charts/dist/esm/victory/components/ChartAxis/ChartAxis';
import { ChartLine } from '@patternfly/react-charts/dist/esm/victory/components/ChartLine/ChartLine';
import { ChartVoronoiContainer } from '@patternfly/react-charts/dist/esm/victory/components/ChartVoronoiContainer/ChartVoronoiContainer';
import { withGaps } from '../model/series';
import { color, DANGER, LINE, SUBTLE, WARNING } from './colors';
import type { Line, Threshold } from './TimeSeries';

interface Props {
  lines: Line[];
  thresholds: Threshold[];
  /** The times at both ends, in milliseconds since 1970. */
  from: number;
  to: number;
  /** The highest value of the axis. */
  most: number;
  format: (value: number) => string;
  locale: string;
  /** Pixels. */
  width: number;
  height: number;
}

const DAY = 86_400_000;
const label = { fill: SUBTLE, fontSize: 12 };
const axis = { axis: { stroke: LINE }, ticks: { stroke: LINE }, tickLabels: label };

const drawn = ({ points, step }: Line) => (step ? withGaps(points, step) : points);

/** Lines over time. Its container tells what it shows: this is hidden from screen readers. */
export default function SeriesChart({ lines, thresholds, from, to, most, format, locale, width, height }: Props) {
  const times = new Intl.DateTimeFormat(locale, to - from > 2 * DAY ? { month: 'short', day: 'numeric' } : { hour: '2-digit', minute: '2-digit' });
  const exact = new Intl.DateTimeFormat(locale, { dateStyle: 'medium', timeStyle: 'short' });
  const said = ({ datum }: { datum: { said?: string; x: number; y: number } }) => (datum.said ? `${datum.said}, ${exact.format(datum.x)}: ${format(datum.y)}` : '');
  return (
    <Chart
      width={width}
      height={height}
      padding={{ top: 10, right: 20, bottom: 30, left: 70 }}
      domain={{ x: [from, to], y: [0, most] }}
      scale={{ x: 'time', y: 'linear' }}
      containerComponent={<ChartVoronoiContainer labels={said} constrainToVisibleArea voronoiBlacklist={thresholds.map((t) => t.label)} />}
    >
      <ChartAxis tickCount={Math.max(2, Math.floor(width / 120))} tickFormat={(t: number) => times.format(t)} style={axis} />
      <ChartAxis dependentAxis showGrid tickCount={5} tickFormat={format} style={{ ...axis, grid: { stroke: LINE, strokeOpacity: 0.5 } }} />
      {thresholds.map((t) => (
        <ChartLine key={t.label} name={t.label} data={[{ x: from, y: t.value }, { x: to, y: t.value }]} style={{ data: { stroke: t.level === 'danger' ? DANGER : WARNING, strokeWidth: 1, strokeDasharray: '2 3' } }} />
      ))}
      {lines.flatMap((l, i) => [
        <ChartLine key={l.label} data={drawn(l).map((p) => ({ x: p.at, y: p.value, said: l.label }))} style={{ data: { stroke: color(i), strokeWidth: 2 } }} />,
        ...(l.forecast ? [<ChartLine key={`${l.label} forecast`} data={l.forecast.map((p) => ({ x: p.at, y: p.value, said: l.label }))} style={{ data: { stroke: color(i), strokeWidth: 2, strokeDasharray: '6 4' } }} />] : []),
      ])}
    </Chart>
  );
}
