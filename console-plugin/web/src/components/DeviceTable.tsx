import { useT } from '../i18n';
import { waitsFor } from '../model/approval';
import { labelsOf } from '../model/devices';
import type { DeviceRow } from '../model/health';
import { bytesOf, formatBytes } from '../model/quantity';
import { reasonsOf } from '../model/reasons';
import { SuspendedDevice } from '../suspension/SuspendedLabel';
import { DeviceName, Noted, StateLabel } from './parts';
import { VirtualTable } from './VirtualTable';

/** Devices of nodes, with their activity, or why they are not used. */
export function DeviceTable({ rows, empty, single }: { rows: DeviceRow[]; empty: string; single?: boolean }) {
  const { t, m, locale } = useT();
  // The table of all nodes has no room for labels.
  const labeled = !!single && rows.some((r) => labelsOf(r.device));
  return (
    <VirtualTable
      label={t('Node devices')}
      rows={rows}
      rowKey={(r) => `${r.node}/${r.device.name}`}
      empty={empty}
      columns={[
        ...(single ? [] : [{ key: 'node', title: t('Node'), width: 8.5 }]), { key: 'name', title: t('Device'), width: 12.5 }, { key: 'size', title: t('Size'), width: 6 },
        { key: 'state', title: t('State'), width: 9 }, { key: 'model', title: t('Model'), width: 7.5 },
        ...(labeled ? [{ key: 'labels', title: t('Labels'), width: 8, lines: 2 }] : []), { key: 'reason', title: t('Details'), lines: 2 },
      ]}
      cells={({ node, device, going, suspended }) => [
        ...(single ? [] : [node]), <DeviceName key="n" device={device} />, formatBytes(bytesOf(device.size), locale),
        going ? <StateLabel key="s" state={going.state} percent={going.state === 'Draining' ? going.movedPercent : undefined} /> : <StateLabel key="s" state={device.state} />,
        [device.vendor, device.model].filter(Boolean).join(' ') || '–', ...(labeled ? [labelsOf(device) || '–'] : []),
        <Noted key="d" label={suspended && <SuspendedDevice />} text={going?.message || [...waitsFor(device).map((name) => t('Awaits approval for device class {{name}}', { name })), ...reasonsOf(device).map(m)].join('; ') || (device.volumeGroup ? t('In volume group {{name}}', { name: device.volumeGroup }) : '–')} />,
      ]}
    />
  );
}
