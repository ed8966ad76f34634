import { Flex, FlexItem } from '@patternfly/react-core';
import { lazy } from 'react';
import { Lazy } from './lazy';
import { Legend } from './Legend';

const DonutChart = lazy(() => import('./DonutChart'));

export interface Slice {
  label: string;
  value: number;
  /** The value in words. */
  text: string;
  color: string;
}

interface Props {
  /** What the donut is about, for screen readers. */
  label: string;
  slices: Slice[];
  /** In the middle. */
  title: string;
  subtitle: string;
  /** Further rows of the legend, which have no slice. */
  more?: [string, string][];
}

/** Pixels. */
const SIZE = 160;

/** Shares of a whole. The legend has every number in words, so that the drawing adds nothing that a screen reader lacks. */
export function Donut({ label, slices, title, subtitle, more = [] }: Props) {
  return (
    <Flex role="group" aria-label={label} alignItems={{ default: 'alignItemsCenter' }} flexWrap={{ default: 'wrap' }}>
      <FlexItem>
        <div aria-hidden="true" data-test="donut" style={{ width: SIZE, height: SIZE }}>
          <Lazy fallback={null}>
            <DonutChart slices={slices} title={title} subtitle={subtitle} size={SIZE} />
          </Lazy>
        </div>
      </FlexItem>
      <FlexItem>
        <Legend rows={[...slices.map((s) => ({ ...s, mark: 'box' as const })), ...more.map(([term, text]) => ({ label: term, text }))]} />
      </FlexItem>
    </Flex>
  );
}
