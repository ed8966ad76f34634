import { Table, Tbody, Td, Th, Thead, Tr } from '@patternfly/react-table';
import { useCallback, useEffect, useRef, useState, type ReactNode } from 'react';

export interface Column {
  key: string;
  title: string;
  /** In rem. A column without one gets what is left, and at least REST. */
  width?: number;
  /** How many lines of text a cell has at most; one without. */
  lines?: number;
}

/** Tables fit in a window of 1280 pixels: 54 rem on the overview, 41 rem in a step of the wizard, 39 rem in a card of a step. */
const REST = 7;

/** The place of a row in a tree. Numbers begin with 1. */
export interface Place {
  level: number;
  position: number;
  siblings: number;
  /** Undefined for a row that has nothing below it. */
  expanded?: boolean;
}

interface Props<T> {
  label: string;
  columns: Column[];
  rows: T[];
  rowKey: (row: T) => string;
  /** The cells of a row, one for each column. */
  cells: (row: T) => ReactNode[];
  empty: string;
  /** Pixels. Every row has this height: that is how it is known which ones are in sight. */
  rowHeight?: number;
  maxHeight?: number;
  rowClass?: (row: T) => 'group' | undefined;
  /** If the rows are a tree, in the order in which they are shown. The cells have the buttons that expand a row. */
  place?: (row: T) => Place;
}

/** Rows above and below those in sight, so that a wheel does not show blank ones. */
const OVERSCAN = 8;

/** A table of any length: only the rows in sight are in the document. */
export function VirtualTable<T>({ label, columns, rows, rowKey, cells, empty, rowHeight = 44, maxHeight = 440, rowClass, place }: Props<T>) {
  const box = useRef<HTMLDivElement>(null);
  const [top, setTop] = useState(0);
  const onScroll = useCallback(() => setTop(box.current?.scrollTop ?? 0), []);
  // Where rows went away, the browser moves the box without an event.
  useEffect(onScroll, [rows.length, onScroll]);
  const minWidth = columns.reduce((sum, c) => sum + (c.width ?? REST), 0);
  const first = Math.max(0, Math.floor(top / rowHeight) - OVERSCAN);
  const last = Math.min(rows.length, Math.ceil((top + maxHeight) / rowHeight) + OVERSCAN);
  return (
    <div ref={box} onScroll={onScroll} role="region" aria-label={label} tabIndex={0} style={{ overflow: 'auto', maxHeight }} data-test="virtual-table">
      <Table aria-label={label} aria-rowcount={rows.length + 1} role={place ? 'treegrid' : 'grid'} variant="compact" isStickyHeader gridBreakPoint="" style={{ tableLayout: 'fixed', minWidth: `${minWidth}rem` }}>
        <colgroup>
          {columns.map((c) => (
            <col key={c.key} style={c.width ? { width: `${c.width}rem` } : undefined} />
          ))}
        </colgroup>
        <Thead>
          <Tr>
            {columns.map((c) => (
              <Th key={c.key} modifier="wrap">
                {c.title}
              </Th>
            ))}
          </Tr>
        </Thead>
        <Tbody>
          {rows.length === 0 && (
            <Tr>
              <Td colSpan={columns.length}>{empty}</Td>
            </Tr>
          )}
          <Space rows={first} height={rowHeight} columns={columns.length} />
          {rows.slice(first, last).map((row, i) => (
            <Tr key={rowKey(row)} aria-rowindex={first + i + 2} {...inTree(place?.(row))} style={{ height: rowHeight, ...(rowClass?.(row) ? group : {}) }}>
              {cells(row).map((cell, c) => (
                <Td key={columns[c]?.key ?? c} dataLabel={columns[c]?.title} modifier={columns[c]?.lines ? undefined : 'truncate'} style={{ height: rowHeight, paddingBlock: 0, verticalAlign: 'middle' }}>
                  {columns[c]?.lines ? <Lines most={columns[c].lines}>{cell}</Lines> : cell}
                </Td>
              ))}
            </Tr>
          ))}
          <Space rows={rows.length - last} height={rowHeight} columns={columns.length} />
        </Tbody>
      </Table>
    </div>
  );
}

const inTree = (p: Place | undefined) => (p ? { 'aria-level': p.level, 'aria-posinset': p.position, 'aria-setsize': p.siblings, 'aria-expanded': p.expanded } : {});

/** The whole text is in the title. */
const Lines = ({ most, children }: { most: number; children: ReactNode }) => (
  <span style={{ display: '-webkit-box', WebkitBoxOrient: 'vertical', WebkitLineClamp: most, overflow: 'hidden', overflowWrap: 'anywhere' }} title={typeof children === 'string' ? children : undefined}>
    {children}
  </span>
);

const group = { backgroundColor: 'var(--pf-t--global--background--color--secondary--default)', fontWeight: 'var(--pf-t--global--font--weight--body--bold)' };

const Space = ({ rows, height, columns }: { rows: number; height: number; columns: number }) =>
  rows > 0 ? (
    <tr aria-hidden="true" style={{ height: rows * height }}>
      <td colSpan={columns} style={{ padding: 0 }} />
    </tr>
  ) : null;
