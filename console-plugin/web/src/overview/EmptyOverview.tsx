import { Alert, Button, Content, EmptyState, EmptyStateActions, EmptyStateBody, EmptyStateFooter } from '@patternfly/react-core';
import { useState } from 'react';
import { Link } from 'react-router';
import { useT } from '../i18n';
import { send } from '../kube/submit';
import type { Rights } from '../kube/watch';
import { newCluster } from '../model/cluster';
import { createPath } from '../paths';

/** What local volumes are, and how to begin. */
export function EmptyOverview({ namespace, rights }: { namespace: string; rights: Rights }) {
  const { t } = useT();
  return (
    <EmptyState headingLevel="h2" titleText={t('No local storage is set up')} data-test="empty">
      <EmptyStateBody>
        <Content component="p">
          {t('LVM Storage turns blank disks of the nodes into volume groups. Each device class becomes a StorageClass, and claims get volumes on the node where their Pod runs.')}
        </Content>
        <Content component="p">
          {t('First let the nodes list their devices: that changes nothing on them. Then choose disks. A disk that carries anything is left alone unless you say otherwise.')}
        </Content>
      </EmptyStateBody>
      <EmptyStateFooter>
        {rights.loaded && !rights.create ? (
          <Alert isInline variant="info" title={t('You may not create LVMClusters in {{namespace}}', { namespace })}>
            {t('Ask an administrator for permission to create lvmclusters.lvm.topolvm.io in this namespace.')}
          </Alert>
        ) : (
          <EmptyStateActions>
            <Discover namespace={namespace} />
            <Button variant="link" component={(props) => <Link {...props} to={createPath(namespace)} />} data-test="create">
              {t('Create without looking at the devices first')}
            </Button>
          </EmptyStateActions>
        )}
      </EmptyStateFooter>
    </EmptyState>
  );
}

/** Makes an LVMCluster without device classes: its agents list the devices of the nodes and change nothing. */
export function Discover({ namespace, variant = 'primary' }: { namespace: string; variant?: 'primary' | 'secondary' }) {
  const { t } = useT();
  const [running, setRunning] = useState(false);
  const [error, setError] = useState<string>();
  const discover = async () => {
    setRunning(true);
    setError(undefined);
    const outcome = await send(newCluster(namespace), { dryRun: false });
    if (outcome.kind !== 'accepted') setError(outcome.message);
    setRunning(false);
  };
  return (
    <>
      <Button variant={variant} onClick={() => void discover()} isLoading={running} isDisabled={running} data-test="discover">
        {t('List the devices of the nodes')}
      </Button>
      {error && (
        <Alert isInline variant="danger" title={t('The LVMCluster could not be created')} data-test="discover-error">
          {error}
        </Alert>
      )}
    </>
  );
}
