export interface LegendRow {
  label: string;
  text?: string;
  color?: string;
  /** How the chart draws it. */
  mark?: 'box' | 'line' | 'dashes';
}

/** What the marks of a chart mean, with their values in words. */
export function Legend({ rows, inline }: { rows: LegendRow[]; inline?: boolean }) {
  return (
    <dl style={{ display: 'flex', flexFlow: inline ? 'row wrap' : 'column', gap: inline ? '0.25rem 1.5rem' : '0.25rem', margin: 0, fontSize: 'var(--pf-t--global--font--size--body--sm)' }} data-test="legend">
      {rows.map((r) => (
        <div key={r.label} style={{ display: 'flex', alignItems: 'center', gap: '0.5rem' }}>
          <dt style={{ display: 'flex', alignItems: 'center', gap: '0.5rem' }}>
            <Mark row={r} />
            {r.label}
          </dt>
          {r.text !== undefined && <dd style={{ margin: 0, fontWeight: 'var(--pf-t--global--font--weight--body--bold)' }}>{r.text}</dd>}
        </div>
      ))}
    </dl>
  );
}

const Mark = ({ row: { mark, color } }: { row: LegendRow }) =>
  mark ? (
    <svg width="14" height="14" aria-hidden="true" style={{ flex: 'none' }}>
      {mark === 'box' ? <rect width="14" height="14" rx="2" style={{ fill: color }} /> : <line x1="0" x2="14" y1="7" y2="7" style={{ stroke: color, strokeWidth: 3, strokeDasharray: mark === 'dashes' ? '4 3' : undefined }} />}
    </svg>
  ) : (
    <span style={{ width: 14, flex: 'none' }} />
  );
