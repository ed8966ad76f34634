import { Alert, Card, CardBody, CardTitle, Content, Label } from '@patternfly/react-core';
import { Link } from '../router';
import { VirtualTable } from '../components/VirtualTable';
import { useT } from '../i18n';
import type { Metrics } from '../kube/prometheus';
import { isScraped, type FiringAlert } from '../model/alerting';
import { classPath, runbookPath } from '../paths';

const colors: Record<string, 'red' | 'orange' | 'blue'> = { critical: 'red', warning: 'orange', info: 'blue' };

/** The alerts that fire in the namespace, with their runbooks. Names break between their words: the longest has 36 letters. */
export function AlertsCard({ namespace, metrics, rows }: { namespace: string; metrics: Metrics; rows: FiringAlert[] }) {
  const { t } = useT();
  const names: Record<string, string> = { critical: t('Critical'), warning: t('Warning'), info: t('Info') };
  const known = metrics.loaded && !metrics.error && isScraped(metrics.samples);
  return (
    <Card data-test="alerts">
      <CardTitle component="h2">{t('Firing alerts')}</CardTitle>
      <CardBody>
        <Unknown metrics={metrics} namespace={namespace} />
        {known && rows.length === 0 && <Content component="p">{t('No alerts are firing.')}</Content>}
        {rows.length > 0 && (
          <VirtualTable
            label={t('Firing alerts')}
            rows={rows}
            maxHeight={300}
            rowHeight={68}
            rowKey={(a) => JSON.stringify(a.labels)}
            empty=""
            columns={[
              { key: 'severity', title: t('Severity'), width: 8.25 }, { key: 'what', title: t('Message'), lines: 3 }, { key: 'node', title: t('Node'), width: 7.25 },
              { key: 'class', title: t('Device class'), width: 7.75 }, { key: 'name', title: t('Runbook'), width: 10.5, lines: 2 },
            ]}
            cells={(a) => [
              <Label key="s" isCompact color={colors[a.severity] ?? 'grey'}>{names[a.severity] ?? (a.severity || t('Unknown'))}</Label>, a.summary ?? a.name, a.labels['node'] ?? '–',
              a.labels['device_class'] ? <Link key="c" to={classPath(a.labels['device_class'])}>{a.labels['device_class']}</Link> : '–', <Runbook key="r" alert={a} />,
            ]}
          />
        )}
      </CardBody>
    </Card>
  );
}

function Runbook({ alert }: { alert: FiringAlert }) {
  const { t } = useT();
  const name = alert.name.split(/(?=[A-Z][a-z])/).flatMap((word, i) => (i ? [<wbr key={i} />, word] : [word]));
  if (!alert.summary) return <>{name}</>;
  return <Link to={runbookPath(alert.name)} aria-label={t('Runbook for {{name}}', { name: alert.name })}>{name}</Link>;
}

/** Why it is not known what fires. */
function Unknown({ metrics, namespace }: { metrics: Metrics; namespace: string }) {
  const { t } = useT();
  if (!metrics.loaded) return <Content component="p">{t('Loading alerts')}</Content>;
  if (metrics.forbidden)
    return <Alert isInline isPlain variant="info" data-test="alerts-forbidden" title={t('Alerts unavailable: you lack permission to see the metrics of {{namespace}}. The ClusterRole view in that namespace is sufficient.', { namespace })} />;
  if (metrics.error)
    return <Alert isInline isPlain variant="warning" data-test="alerts-unknown" title={t('Alerts unavailable: Prometheus is unreachable ({{error}})', { error: metrics.error })} />;
  if (!isScraped(metrics.samples))
    return <Alert isInline isPlain variant="warning" data-test="alerts-none" title={t('Alerts may be missing: Prometheus does not collect metrics of LVM Storage. The namespace {{namespace}} must have the label openshift.io/cluster-monitoring=true.', { namespace })} />;
  return null;
}
