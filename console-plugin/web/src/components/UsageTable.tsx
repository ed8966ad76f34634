import { useMemo } from 'react';
import { useT } from '../i18n';
import type { Metrics } from '../kube/prometheus';
import { ahead, forecastKey, forecastsOf, type Forecast } from '../model/alerting';
import type { Usage } from '../model/health';
import { formatBytes, formatPercent } from '../model/quantity';
import { Second, ShareBar, StateLabel } from './parts';
import { VirtualTable } from './VirtualTable';

interface Props {
  name: string;
  thin: boolean;
  usage: Usage[];
  loaded: boolean;
  /** When space will be full; none where nobody asked. */
  forecasts?: Metrics;
}

/** The volume groups of a device class, one a node. */
export function UsageTable({ name, thin, usage, loaded, forecasts }: Props) {
  const { t } = useT();
  const known = useMemo(() => forecastsOf(forecasts?.samples ?? []), [forecasts?.samples]);
  const columns = [
    { key: 'node', title: t('Node'), width: 6.25 },
    { key: 'state', title: t('State'), width: 7.5 },
    { key: 'used', title: t('Used'), width: 14 },
    { key: 'free', title: t('Free'), width: thin ? 10.25 : 5.5 },
    ...(forecasts ? [{ key: 'full', title: t('Estimated full'), width: 9.25 }] : []),
    { key: 'reason', title: t('Problem'), lines: 2 },
  ];
  return (
    <VirtualTable
      label={t('Capacity of device class {{name}} by node', { name })}
      columns={columns}
      rows={usage}
      rowKey={(u) => u.node}
      rowHeight={56}
      empty={loaded ? t('No node has a volume group of this device class yet.') : t('Unknown')}
      cells={(u) => [
        u.stale ? t('{{node}} (not ready, old data)', { node: u.node }) : u.node,
        <StateLabel key="s" state={u.group.status ?? 'Unknown'} />,
        <ShareBar key="u" label={t('Usage on {{node}}', { node: u.node })} part={u.used} whole={u.size} />,
        <Free key="v" usage={u} metadata={!forecasts} />,
        ...(forecasts ? [<Full key="f" usage={u} forecast={known.get(forecastKey(u.node, u.deviceClass))} />] : []),
        wrongWith(u),
      ]}
    />
  );
}

/** What is free, and what volumes of a pool have together. */
function Free({ usage, metadata }: { usage: Usage; metadata: boolean }) {
  const { t, locale } = useT();
  return (
    <>
      {formatBytes(usage.free, locale)}
      {usage.virtual !== undefined && <Second text={t('{{label}}: {{value}}', { label: t('Provisioned'), value: formatBytes(usage.virtual, locale) })} />}
      {metadata && <Metadata usage={usage} />}
    </>
  );
}

/** When it will be full, and how full the metadata of a pool is. */
const Full = ({ usage, forecast }: { usage: Usage; forecast?: Forecast }) => (
  <>
    <When usage={usage} forecast={forecast} />
    <Metadata usage={usage} />
  </>
);

function Metadata({ usage }: { usage: Usage }) {
  const { t, locale } = useT();
  return usage.metadataPercent === undefined ? null : <Second text={t('{{label}}: {{value}}', { label: t('Metadata'), value: formatPercent(usage.metadataPercent, locale) })} />;
}

/** When a volume group or its pool will be full, as it has grown so far. */
function When({ usage, forecast }: { usage: Usage; forecast?: Forecast }) {
  const { t, locale } = useT();
  if (forecast?.seconds !== undefined && !(forecast.space === 'data' && isBacked(usage))) {
    const [n, unit] = ahead(forecast.seconds);
    return <span title={forecast.space === 'metadata' ? t('Metadata of the thin pool') : undefined}>{new Intl.RelativeTimeFormat(locale).format(n, unit)}</span>;
  }
  if (isBacked(usage)) return <>{t('Not overcommitted')}</>;
  return <>{forecast ? t('Not expected') : t('Unknown')}</>;
}

/** A pool that has all that it promises. */
const isBacked = ({ virtual, size, group }: Usage): boolean => !!group.thinPool && virtual !== undefined && size !== undefined && virtual <= size;

function wrongWith({ group }: Usage): string {
  const unhealthy = (group.conditions ?? []).filter((c) => c.status !== 'True' && c.reason !== 'NotEvaluated').map((c) => c.message ?? c.reason ?? c.type);
  return [group.reason, ...unhealthy].filter(Boolean).join('; ') || '–';
}
