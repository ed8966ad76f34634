import { Alert } from '@patternfly/react-core';
import { useT } from '../i18n';
import type { Metrics } from '../kube/prometheus';

interface Props {
  metrics: Pick<Metrics, 'error' | 'forbidden'>;
  /** The namespace whose metrics were asked for; none for those of all. */
  namespace?: string;
}

/** Why metrics are missing, or may be old. Nothing without an error. */
export function MetricsUnavailable({ metrics: { error, forbidden }, namespace }: Props) {
  const { t } = useT();
  if (!error) return null;
  if (!forbidden) return <Alert isInline isPlain variant="warning" data-test="series-unknown" title={t('Metrics unavailable: Prometheus is unreachable ({{error}})', { error })} />;
  const why = namespace
    ? t('Metrics unavailable: you lack permission to see the metrics of {{namespace}}. The ClusterRole view in that namespace is sufficient.', { namespace })
    : t('Metrics unavailable: you lack permission to see the metrics of all namespaces. The ClusterRole cluster-monitoring-view is sufficient.');
  return <Alert isInline isPlain variant="info" data-test="series-forbidden" title={why} />;
}
