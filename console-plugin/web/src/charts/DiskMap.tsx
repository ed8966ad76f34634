import { Content, Stack, StackItem } from '@patternfly/react-core';
import { memo, useLayoutEffect, useMemo, useRef, useState, type CSSProperties, type KeyboardEvent } from 'react';
import { Link } from '../router';
import type { NodeStatus } from '../api/types';
import { useStateNames } from '../components/parts';
import { useT } from '../i18n';
import { diskMap, inSight, moved, scrolledTo, widthOf, type Level, type MapRow, type Place, type Tile } from '../model/diskMap';
import { formatBytes, formatPercent } from '../model/quantity';
import { nodePath } from '../paths';
import { DANGER, PROMISED, SUBTLE, USED, WARNING } from './colors';
import { Legend } from './Legend';

/** Pixels. */
const ROW = 40;
const MOST_HEIGHT = 400;

const colors: Record<Level, string> = { used: USED, available: 'var(--pf-t--global--icon--color--status--success--default)', other: SUBTLE, changing: PROMISED, warning: WARNING, danger: DANGER };

/** The devices of all nodes, one tile a device. Only the rows in sight are in the document. */
export default function DiskMap({ statuses, loaded }: { statuses: NodeStatus[]; loaded: boolean }) {
  const { t } = useT();
  const rows = useMemo(() => diskMap(statuses), [statuses]);
  const [said, say] = useState('');
  const legend: [Level, string][] = [
    ['used', t('In a volume group')], ['available', t('Available')], ['other', t('Not used for volumes')], ['changing', t('Cordoned or being drained')], ['warning', t('Blocked or unknown')], ['danger', t('Failing or missing')],
  ];
  if (rows.length === 0) return <Content component="p">{loaded ? t('No node has reported its devices yet.') : t('Unknown')}</Content>;
  return (
    <Stack hasGutter>
      <StackItem>
        <Grid rows={rows} say={say} />
      </StackItem>
      <StackItem>
        <div aria-hidden="true" data-test="disk-said" style={{ minHeight: '1.5em', overflowWrap: 'anywhere' }}>{said}</div>
        <Legend inline rows={legend.map(([level, label]) => ({ label, color: colors[level], mark: 'box' }))} />
        <Content component="small">{t('The width of a tile follows the size of the device. Its filled part is allocated to logical volumes, or to thin pools.')}</Content>
      </StackItem>
    </Stack>
  );
}

const Grid = memo(function Grid({ rows, say }: { rows: MapRow[]; say: (text: string) => void }) {
  const { t } = useT();
  const box = useRef<HTMLDivElement>(null);
  const [top, setTop] = useState(0);
  const [place, setPlace] = useState<Place>({ row: 0, column: 0 });
  const moving = useRef(false);
  const largest = useMemo(() => rows.reduce((most, r) => r.tiles.reduce((m, tile) => Math.max(m, tile.size ?? 0), most), 0), [rows]);
  const height = Math.min(MOST_HEIGHT, rows.length * ROW);
  const [first, last] = inSight(top, height, ROW, rows.length);
  // The place that the Tab key leads to is always in the document.
  const tabbed = place.row >= first && place.row < last ? place : { row: first, column: 0 };
  // At once: the row that had the focus may leave the document.
  useLayoutEffect(() => {
    if (!moving.current) return;
    moving.current = false;
    box.current?.querySelector<HTMLElement>(`[data-place="${place.row}-${place.column}"]`)?.focus({ preventScroll: true });
  }, [place, top]);
  const onKeyDown = (e: KeyboardEvent) => {
    const next = moved(e.key, tabbed, rows);
    if (!next || !box.current) return;
    e.preventDefault();
    moving.current = true;
    box.current.scrollTop = scrolledTo(next.row * ROW, box.current.scrollTop, height, ROW);
    setTop(box.current.scrollTop);
    setPlace(next);
  };
  return (
    <div
      ref={box}
      role="grid"
      aria-label={t('Devices by node')}
      aria-rowcount={rows.length}
      onScroll={() => setTop(box.current?.scrollTop ?? 0)}
      onKeyDown={onKeyDown}
      style={{ height: height + 16, overflow: 'auto', position: 'relative' }}
      data-test="disk-grid"
    >
      <div role="presentation" style={{ height: first * ROW }} />
      {rows.slice(first, last).map((r, i) => (
        <Row key={r.node} row={r} index={first + i} largest={largest} tabbed={tabbed.row === first + i ? tabbed.column : undefined} visit={setPlace} say={say} />
      ))}
      <div role="presentation" style={{ height: (rows.length - last) * ROW }} />
    </div>
  );
});

interface RowProps {
  row: MapRow;
  index: number;
  largest: number;
  /** The column that the Tab key leads to, if it is in this row. */
  tabbed?: number;
  visit: (place: Place) => void;
  say: (text: string) => void;
}

const Row = memo(function Row({ row, index, largest, tabbed, visit, say }: RowProps) {
  const { t, locale } = useT();
  const names = useStateNames();
  const at = (column: number) => ({ 'data-place': `${index}-${column}`, tabIndex: tabbed === column ? 0 : -1 });
  const textOf = ({ device, state, size, filled }: Tile): string =>
    [
      t('{{device}} on {{node}}: {{state}}', { device: device.name, node: row.node, state: names[state] ?? state }), formatBytes(size, locale),
      ...(filled === undefined ? [] : [t('{{percent}} allocated', { percent: formatPercent(Math.round(filled * 100), locale) })]),
    ].join(', ');
  return (
    <div role="row" aria-rowindex={index + 1} style={{ display: 'flex', alignItems: 'center', gap: 4, height: ROW, width: 'max-content', minWidth: '100%' }}>
      <span role="rowheader" style={{ ...nodeStyle }}>
        <Link to={nodePath(row.node)} title={row.node} {...at(0)} onFocus={() => visit({ row: index, column: 0 })}>{row.node}</Link>
      </span>
      {row.tiles.map((tile, i) => (
        <span key={tile.device.id ?? tile.device.name} role="gridcell">
          <Link
            to={nodePath(row.node)}
            aria-label={textOf(tile)}
            {...at(i + 1)}
            onFocus={() => (visit({ row: index, column: i + 1 }), say(textOf(tile)))}
            onMouseEnter={() => say(textOf(tile))}
            style={tileStyle(tile, largest)}
            data-level={tile.level}
          />
        </span>
      ))}
    </div>
  );
});

const nodeStyle: CSSProperties = {
  position: 'sticky', left: 0, zIndex: 1, flex: 'none', width: 'clamp(6rem, 18vw, 16rem)', overflow: 'hidden', textOverflow: 'ellipsis', whiteSpace: 'nowrap',
  backgroundColor: 'var(--pf-t--global--background--color--primary--default)', paddingInline: 4,
};

/** A tile is not told by its color alone: what needs attention has a thick border, and what is broken is hatched. */
function tileStyle({ level, size, filled = 0 }: Tile, largest: number): CSSProperties {
  const color = colors[level];
  const broken = level === 'danger' ? `repeating-linear-gradient(45deg, ${color} 0 3px, transparent 3px 8px)` : undefined;
  const share = `linear-gradient(to right, ${color} ${filled * 100}%, transparent ${filled * 100}%)`;
  return {
    display: 'block', boxSizing: 'border-box', width: widthOf(size, largest), height: 28, borderRadius: 4, background: broken ?? share,
    border: `${level === 'danger' || level === 'warning' ? 3 : 1}px ${level === 'warning' ? 'dashed' : 'solid'} ${color}`,
  };
}
