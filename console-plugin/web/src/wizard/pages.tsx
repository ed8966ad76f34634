import { DocumentTitle } from '@openshift-console/dynamic-plugin-sdk';
import { Alert, Button, EmptyState, EmptyStateBody, PageSection, Title } from '@patternfly/react-core';
import { useRef, useState } from 'react';
import { Link, useNavigate, useSearchParams } from '../router';
import { classesOf, type LVMCluster } from '../api/types';
import { ConnectionBanner, Loading, ReadErrors } from '../components/parts';
import { useT } from '../i18n';
import { useClusters, useConnection, useNamespace, useNodes, useNodeStatuses, usePermissions } from '../kube/watch';
import { newClass, newCluster, withClasses } from '../model/cluster';
import { editPath, overviewPath } from '../paths';
import { DraftProvider } from './draft';
import { Progress } from './Progress';
import { ClusterWizard } from './Wizard';

/** Takes the place of the console's YAML page for a new LVMCluster. */
export const CreatePage = () => <Page mode="create" />;
/** The same form for the device classes that there are. */
export const EditPage = () => <Page mode="edit" />;

function Page({ mode }: { mode: 'create' | 'edit' }) {
  const { t } = useT();
  const namespace = useNamespace();
  const title = mode === 'create' ? t('Create local storage') : t('Edit local storage');
  return (
    <>
      <DocumentTitle>{title}</DocumentTitle>
      <PageSection>
        <Title headingLevel="h1">{title}</Title>
      </PageSection>
      {namespace ? <Loader mode={mode} namespace={namespace} /> : <Loading />}
    </>
  );
}

function Loader({ mode, namespace }: { mode: 'create' | 'edit'; namespace: string }) {
  const { t } = useT();
  const navigate = useNavigate();
  const clusters = useClusters(namespace);
  const statuses = useNodeStatuses(namespace);
  const nodes = useNodes();
  const permissions = usePermissions(namespace);
  const connection = useConnection();
  const [done, setDone] = useState<LVMCluster>();
  const [asked] = useSearchParams();
  const live = clusters.data[0];
  // The wizard begins with what is there when it is opened, and does not lose what was typed when that changes.
  const begun = useRef<LVMCluster>();
  const ready = clusters.loaded && nodes.loaded && statuses.loaded && permissions.loaded;
  const reads: Parameters<typeof ReadErrors>[0]['reads'] = [[t('LVMClusters'), clusters], [t('Nodes'), nodes], [t('Node statuses'), statuses]];
  if (done) return <Progress namespace={namespace} created={done} />;
  if (clusters.error && !begun.current)
    return (
      <PageSection>
        <ReadErrors reads={reads} />
      </PageSection>
    );
  if (!begun.current && !(ready || (clusters.loaded && permissions.loaded && (nodes.error || statuses.error)))) return <Loading />;
  if (mode === 'create' && !begun.current && classesOf(live).length > 0) return <Exists name={live?.metadata.name ?? ''} />;
  if (mode === 'edit' && !begun.current && !live) return <Missing />;
  const before = mode === 'edit' && classesOf(live).length > 0 ? live : undefined;
  const base = live ?? newCluster(namespace);
  const initialIndex = Math.max(0, classesOf(begun.current ?? base).findIndex((c) => c.name === asked.get('class')));
  begun.current ??= classesOf(base).length ? base : withClasses(base, [newClass([])]);
  return (
    <Frozen before={before}>
      {(first) => (
        <DraftProvider
          namespace={namespace} permissions={permissions} before={first} live={live} initial={begun.current as LVMCluster} initialIndex={initialIndex}
          nodes={nodes.data} statuses={statuses.data} inventoryError={statuses.error}
        >
          <PageSection isFilled padding={{ default: 'noPadding' }}>
            <ConnectionBanner connection={connection} />
            <ReadErrors reads={reads} />
            <ClusterWizard
              startAt={asked.get('step') ?? undefined}
              onDone={(saved) => {
                if (mode === 'edit' && classesOf(saved).length === 0) void navigate(overviewPath);
                else setDone(saved);
              }}
            />
          </PageSection>
        </DraftProvider>
      )}
    </Frozen>
  );
}

/** Keeps the LVMCluster that the wizard began with. */
function Frozen({ before, children }: { before?: LVMCluster; children: (before?: LVMCluster) => JSX.Element }) {
  const [first] = useState(before);
  return children(first);
}

function Exists({ name }: { name: string }) {
  const { t } = useT();
  return (
    <PageSection>
      <Alert isInline variant="info" title={t('LVMCluster {{name}} already exists; a cluster can have only one', { name })} data-test="exists">
        <Button variant="link" isInline component={(props) => <Link {...props} to={editPath} />}>
          {t('Edit or add device classes')}
        </Button>
      </Alert>
    </PageSection>
  );
}

function Missing() {
  const { t } = useT();
  return (
    <EmptyState headingLevel="h2" titleText={t('No LVMCluster exists')}>
      <EmptyStateBody>
        <Button variant="link" isInline component={(props) => <Link {...props} to={overviewPath} />}>
          {t('Go to the overview')}
        </Button>
      </EmptyStateBody>
    </EmptyState>
  );
}
