import { Content, Stack, StackItem, ToggleGroup, ToggleGroupItem } from '@patternfly/react-core';
import { useMemo, useState } from 'react';
import { useT } from '../i18n';
import { useHistory, useMetrics, type Metrics } from '../kube/prometheus';
import { formatPercent } from '../model/quantity';
import { historyQuery, horizonOf, MOST_LINES, PERIODS, predictionQuery, thresholds, usageLines, type Period } from '../model/usageHistory';
import { TimeSeries } from './TimeSeries';

/** Usage over time, with the forecast and the thresholds of the alerts: of the device classes, or of the nodes of one. */
export default function UsageHistory({ namespace, deviceClass }: { namespace: string; deviceClass?: string }) {
  const { t, locale } = useT();
  const [period, setPeriod] = useState<Period>(PERIODS[0]);
  const history = useHistory(historyQuery(deviceClass), period, namespace);
  const predictions = useMetrics(predictionQuery(horizonOf(period), deviceClass), namespace);
  const lines = useMemo(() => usageLines(history.series, predictions.samples, period, deviceClass), [history.series, predictions.samples, period, deviceClass]);
  // The chart ends now, as of the last answer.
  const now = useMemo(() => Math.max(Date.now(), ...history.series.map((s) => s.points.at(-1)?.at ?? 0)), [history.series]);
  const names = { nearFull: t('Alert threshold: near full'), critical: t('Alert threshold: critical'), full: t('Alert threshold: full') };
  const periods: Record<Period, string> = { 86400: t('1 day'), 604800: t('1 week'), 1209600: t('2 weeks') };
  return (
    <Stack hasGutter>
      <StackItem>
        <TimeSeries
          label={t('Usage over time')}
          lines={lines}
          thresholds={thresholds.map(({ name, value }) => ({ label: names[name], value, level: name === 'nearFull' ? 'warning' : 'danger' }))}
          history={history}
          namespace={namespace}
          from={now - period * 1000}
          to={now + horizonOf(period) * 1000}
          most={1}
          controls={
            <ToggleGroup isCompact aria-label={t('Period')}>
              {PERIODS.map((p) => (
                <ToggleGroupItem key={p} text={periods[p]} isSelected={p === period} onChange={() => setPeriod(p)} />
              ))}
            </ToggleGroup>
          }
          format={(ratio) => formatPercent(Math.round(ratio * 1000) / 10, locale)}
        />
      </StackItem>
      {lines.length > 0 && (
        <StackItem>
          <Content component="small">
            {deviceClass ? t('The {{most}} fullest nodes.', { most: MOST_LINES }) : t('The fullest node of each of the {{most}} fullest device classes.', { most: MOST_LINES })}{' '}
            <Forecast known={lines.some((l) => l.forecast)} predictions={predictions} />
          </Content>
        </StackItem>
      )}
    </Stack>
  );
}

/** Where the forecast comes from, or why there is none. */
function Forecast({ known, predictions }: { known: boolean; predictions: Metrics }) {
  const { t } = useT();
  if (known) return <>{t('Alerts about space that fills up use the same forecast.')}</>;
  if (predictions.error) return <span data-test="forecast-unknown">{t('Forecast unavailable: {{error}}', { error: predictions.error })}</span>;
  return predictions.loaded ? <span data-test="forecast-none">{t('No forecast: it needs metrics of at least one day.')}</span> : null;
}
