// A bar of parts. It has no text: what it shows stands beside it in words.
import type { CSSProperties } from 'react';

export type Tone = 'blue' | 'teal' | 'purple' | 'gray' | 'orange' | 'green' | 'striped';

export interface Segment {
  key: string;
  /** The length, from 0 to 1 of the bar. */
  length: number;
  tone: Tone;
}

const color = (name: string): string => `var(--pf-t--global--color--nonstatus--${name}--default)`;

/** Overcommitted space is striped, so that it is told from real space without color. */
const fill = (tone: Tone): CSSProperties =>
  tone === 'striped' ? { backgroundImage: `repeating-linear-gradient(135deg, ${color('blue')} 0 4px, transparent 4px 8px)` } : { backgroundColor: color(tone) };

/** The border tells apart parts of one color, and shows the length of the bar. */
const edge = '1px solid var(--pf-t--global--border--color--default)';

export function SegmentBar({ segments, height = '1rem' }: { segments: Segment[]; height?: string }) {
  return (
    <div aria-hidden="true" data-test="bar" style={{ display: 'flex', height, width: '100%', border: edge, borderRadius: 'var(--pf-t--global--border--radius--tiny)', overflow: 'hidden' }}>
      {segments.map((s) => (
        <div key={s.key} data-tone={s.tone} style={{ width: `${s.length * 100}%`, borderInlineEnd: edge, boxSizing: 'border-box', ...fill(s.tone) }} />
      ))}
    </div>
  );
}

/** The color of a part, before its name. */
export const Swatch = ({ tone }: { tone: Tone }) => (
  <span aria-hidden="true" style={{ display: 'inline-block', width: '0.75rem', height: '0.75rem', marginInlineEnd: '0.375rem', border: edge, verticalAlign: 'baseline', ...fill(tone) }} />
);
