import { Checkbox } from '@patternfly/react-core';
import type { ReactNode } from 'react';
import type { Device } from '../api/types';
import { DeviceName } from '../components/parts';
import { VirtualTable } from '../components/VirtualTable';
import { useT } from '../i18n';
import { canBeApproved, keyOf, type Waiting } from '../model/approval';
import { contentOf, stablePath } from '../model/devices';
import { bytesOf, formatBytes } from '../model/quantity';

interface Props {
  rows: Waiting[];
  empty: string;
  /** The devices are of one node, or of one device class: that column is left out. */
  of: 'node' | 'class';
  selected: ReadonlySet<string>;
  select: (w: Waiting, on: boolean) => void;
  /** What can be done with a device. */
  action: (w: Waiting) => ReactNode;
}

/** The devices that wait for an approval, with what a reviewer needs. */
export function WaitingTable({ rows, empty, of, selected, select, action }: Props) {
  const { t, locale } = useT();
  return (
    <VirtualTable
      label={t('Devices that await approval')}
      rows={rows}
      rowKey={keyOf}
      rowHeight={72}
      empty={empty}
      columns={[
        { key: 'select', title: t('Select'), width: 5.5 }, of === 'class' ? { key: 'node', title: t('Node'), width: 6.5, lines: 2 } : { key: 'class', title: t('Device class'), width: 6.5, lines: 2 },
        { key: 'device', title: t('Device'), width: 12 }, { key: 'size', title: t('Size and model'), width: 7, lines: 3 }, { key: 'content', title: t('Content'), lines: 3 },
        { key: 'fingerprint', title: t('Fingerprint'), width: 8.5, lines: 3 }, { key: 'do', title: t('Action'), width: 7.5 },
      ]}
      cells={(w) => [
        <Checkbox
          key="s" id={`approve-${keyOf(w)}`} aria-label={t('Select {{path}} on node {{node}}', { path: stablePath(w.device), node: w.node })} isChecked={canBeApproved(w) && selected.has(keyOf(w))}
          isDisabled={!canBeApproved(w)} onChange={(_, on) => select(w, on)}
        />,
        of === 'class' ? w.node : w.deviceClass, <DeviceName key="d" device={w.device} />, <Pair key="m" first={formatBytes(bytesOf(w.device.size), locale)} second={modelOf(w.device)} />, <Found key="c" waiting={w} />,
        <Fingerprint key="f" waiting={w} />, action(w),
      ]}
    />
  );
}

/** Who made a device, and its serial number. */
export const modelOf = (d: Device): string => [d.vendor, d.model, d.serial].filter(Boolean).join(' ');

/** A line, and below it a small text that can take several. */
const Pair = ({ first, second }: { first: ReactNode; second?: string }) => (
  <>
    {first}
    {second && <div style={{ fontSize: 'var(--pf-t--global--font--size--xs)', color: 'var(--pf-t--global--text--color--subtle)' }}>{second}</div>}
  </>
);

/** What is on a device, and what the node agent says about it. */
export function Found({ waiting: w }: { waiting: Waiting }) {
  const { t, m } = useT();
  const content = contentOf(w.device, m) || (w.device.state === 'Available' ? t('Blank') : t('Unknown'));
  const text = [
    content,
    w.reason === 'ChangedSinceReview' && (w.message ?? t('has changed since it was approved')),
    !canBeApproved(w) && t('Cannot be approved, because it has no fingerprint: it could not be read, or nothing but its name or content identifies it.'),
  ].filter(Boolean).join('; ');
  return <span title={text}>{text}</span>;
}

/** How much of a fingerprint tells it from others. */
const SHORT = 11;

function Fingerprint({ waiting: { device } }: { waiting: Waiting }) {
  const { t, locale } = useT();
  const short = device.fingerprint ? `${device.fingerprint.slice(0, SHORT)}…` : '–';
  return <Pair first={<code title={device.fingerprint}>{short}</code>} second={device.firstSeen && t('Since {{time}}', { time: new Date(device.firstSeen).toLocaleDateString(locale) })} />;
}
