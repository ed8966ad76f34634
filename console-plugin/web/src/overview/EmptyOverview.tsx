import { useQuickStartContext } from '@openshift-console/dynamic-plugin-sdk';
import { Alert, Button, Content, EmptyState, EmptyStateActions, EmptyStateBody, EmptyStateFooter } from '@patternfly/react-core';
import { useState } from 'react';
import { Link } from '../router';
import { useT } from '../i18n';
import { send } from '../kube/submit';
import type { Permissions } from '../kube/watch';
import { newCluster } from '../model/cluster';
import { createPath } from '../paths';

/** The ConsoleQuickStart that the operator creates (controllers/consoleplugin/quickstart.yaml). */
const QUICK_START = 'lvms-local-volumes';

/** What local volumes are, and how to begin. */
export function EmptyOverview({ namespace, permissions }: { namespace: string; permissions: Permissions }) {
  const { t } = useT();
  return (
    <EmptyState headingLevel="h2" titleText={t('Local storage is not set up')} data-test="empty">
      <EmptyStateBody>
        <Content component="p">
          {t('LVM Storage creates volume groups on blank disks of the nodes. Each device class has a StorageClass, and its claims get volumes on the node of their Pod.')}
        </Content>
        <Content component="p">
          {t('First list the devices of the nodes: this changes nothing on them. Then select disks. Disks that contain data are not used unless you allow it.')}
        </Content>
      </EmptyStateBody>
      <EmptyStateFooter>
        {permissions.loaded && !permissions.create ? (
          <Alert isInline variant="info" title={t('You lack permission to create LVMClusters in {{namespace}}', { namespace })}>
            {t('Ask an administrator for permission to create lvmclusters.lvm.topolvm.io in this namespace.')}
          </Alert>
        ) : (
          <EmptyStateActions>
            <Discover namespace={namespace} />
            <Button variant="link" component={(props) => <Link {...props} to={createPath(namespace)} />} data-test="create">
              {t('Create without listing devices')}
            </Button>
            <Tour />
          </EmptyStateActions>
        )}
      </EmptyStateFooter>
    </EmptyState>
  );
}

/** Opens the quick start beside the page, which stays usable. */
function Tour() {
  const { t } = useT();
  const { setActiveQuickStart } = useQuickStartContext();
  return (
    <Button variant="link" onClick={() => setActiveQuickStart?.(QUICK_START)} data-test="tour">
      {t('Start the guided tour')}
    </Button>
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
        {t('List devices')}
      </Button>
      {error && (
        <Alert isInline variant="danger" title={t('The LVMCluster could not be created')} data-test="discover-error">
          {error}
        </Alert>
      )}
    </>
  );
}
