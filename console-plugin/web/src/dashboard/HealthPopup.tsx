import { Alert, Stack, StackItem } from '@patternfly/react-core';
import { Link } from '../router';
import type { LVMCluster } from '../api/types';
import { Details } from '../components/parts';
import { useT } from '../i18n';
import { healthOf } from '../model/health';
import { overviewPath } from '../paths';

/** What is behind the line in the status card. */
export default function HealthPopup({ clusters }: { clusters?: { data?: LVMCluster[]; loaded?: boolean; loadError?: unknown } }) {
  const { t, m } = useT();
  const cluster = clusters?.data?.[0];
  const health = cluster && healthOf(cluster);
  return (
    <Stack hasGutter data-test="health-popup">
      <StackItem>
        {clusters?.loadError ? (
          <Alert isInline isPlain variant="warning" title={t('{{what}} could not be read', { what: t('LVMClusters') })} />
        ) : health ? (
          <Alert isInline isPlain variant={health.level} title={m(health.sentence)}>
            <Details lines={health.details} />
          </Alert>
        ) : (
          <Alert isInline isPlain variant="info" title={t('Local storage is not set up')} />
        )}
      </StackItem>
      <StackItem>
        <Link to={overviewPath}>{t('Go to the overview')}</Link>
      </StackItem>
    </Stack>
  );
}
