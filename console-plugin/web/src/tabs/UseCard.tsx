import { Card, CardBody, CardTitle } from '@patternfly/react-core';
import { TimeSeries, type Line } from '../charts/TimeSeries';
import { useT } from '../i18n';
import { useHistory, type History } from '../kube/prometheus';
import { formatBytes } from '../model/quantity';

/** A week. */
const SECONDS = 7 * 24 * 3600;

interface Props {
  namespace: string;
  claim: string;
  /** The name of the logical volume. */
  volume?: string;
  thin: boolean;
  /** Bytes. */
  size?: number;
}

/** How full a claim was: its file system, as the kubelet reports it, and its logical volume in a thin pool. */
export function UseCard({ namespace, claim, volume, thin, size }: Props) {
  const { t, locale } = useT();
  const files = useHistory(`max(kubelet_volume_stats_used_bytes{namespace="${namespace}",persistentvolumeclaim="${claim}"})`, SECONDS, namespace);
  const query = `max(lvms_volume_data_percent{volume="${volume}"}) / 100 * max(lvms_volume_size_bytes{volume="${volume}"})`;
  const written = useHistory(thin && volume ? query : undefined, SECONDS, namespace);
  const histories = thin && volume ? [files, written] : [files];
  const lines: Line[] = [
    { label: t('Used in the file system'), points: files.series[0]?.points ?? [] },
    ...(thin && volume ? [{ label: t('Data written'), points: written.series[0]?.points ?? [] }] : []),
  ];
  const to = Date.now();
  return (
    <Card data-test="use">
      <CardTitle component="h2">{t('Usage in the last week')}</CardTitle>
      <CardBody>
        <TimeSeries
          label={t('Usage of claim {{name}}', { name: claim })} lines={lines} history={both(histories)} namespace={namespace} from={to - SECONDS * 1000} to={to}
          thresholds={size ? [{ label: t('Size of the volume'), value: size, level: 'danger' }] : []} most={size ?? Math.max(1, ...lines.flatMap((l) => l.points.map((p) => p.value)))} format={(n) => formatBytes(n, locale)}
        />
      </CardBody>
    </Card>
  );
}

/** Known when all answers are; an error of one is an error of both. */
const both = (list: History[]): Pick<History, 'loaded' | 'error' | 'forbidden'> => {
  const failed = list.find((h) => h.error);
  return { loaded: list.every((h) => h.loaded), ...(failed ? { error: failed.error, forbidden: failed.forbidden } : {}) };
};
