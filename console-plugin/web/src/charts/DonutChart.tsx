// Loaded only with a page that shows it: Victory is large.
import { ChartDonut } from '@patternfly/react-charts/dist/esm/victory/components/ChartDonut/ChartDonut';
import { ChartLabel } from '@patternfly/react-charts/dist/esm/victory/components/ChartLabel/ChartLabel';
import type { Slice } from './Donut';
import { SUBTLE, TEXT } from './colors';

interface Props {
  slices: Slice[];
  title: string;
  subtitle: string;
  /** Pixels. */
  size: number;
}

/** A donut without a legend. Its container tells what it shows: this is hidden from screen readers. */
export default function DonutChart({ slices, title, subtitle, size }: Props) {
  return (
    <ChartDonut
      width={size}
      height={size}
      padding={0}
      constrainToVisibleArea
      data={slices.map((s) => ({ x: s.label, y: s.value }))}
      labels={({ datum }: { datum: { x: string } }) => `${datum.x}: ${slices.find((s) => s.label === datum.x)?.text ?? ''}`}
      colorScale={slices.map((s) => s.color)}
      title={title}
      subTitle={subtitle}
      titleComponent={<ChartLabel style={[{ fill: TEXT, fontSize: 20 }, { fill: SUBTLE, fontSize: 12 }]} />}
    />
  );
}
