import { DocumentTitle } from '@openshift-console/dynamic-plugin-sdk';
import {
  Alert, Breadcrumb, BreadcrumbItem, Button, Card, CardBody, CardTitle, Content, DescriptionList, DescriptionListDescription, DescriptionListGroup, DescriptionListTerm,
  EmptyState, EmptyStateBody, Flex, PageSection, Stack, StackItem, Title,
} from '@patternfly/react-core';
import { useState, type ReactNode } from 'react';
import { Link, useNavigate, useParams } from '../router';
import type { LVMRecovery, RecoveryPlan } from '../api/types';
import { ConnectionBanner, Loading, ReadErrors } from '../components/parts';
import { useT } from '../i18n';
import { useConnection, useNamespace, useRecovery, useRecoveryPermissions, type RecoveryPermissions } from '../kube/watch';
import { formatBytes } from '../model/quantity';
import { actions, isApprovable, levelOf, repairs } from '../model/recovery';
import { classPath, nodePath, overviewPath } from '../paths';
import { ApproveDialog } from './ApproveDialog';
import { DeleteDialog } from './DeleteDialog';
import { Age, PhaseLabel } from './parts';
import { PlanTables } from './PlanTables';

/** One recovery: what it does, what is lost, and its approval. */
export function RecoveryPage() {
  const { name = '' } = useParams();
  const { t } = useT();
  const namespace = useNamespace();
  return (
    <>
      <DocumentTitle>{t('Recovery {{name}}', { name })}</DocumentTitle>
      {namespace ? <Details key={name} namespace={namespace} name={name} /> : <Loading />}
    </>
  );
}

function Details({ namespace, name }: { namespace: string; name: string }) {
  const { t } = useT();
  const navigate = useNavigate();
  const watched = useRecovery(namespace, name);
  const permissions = useRecoveryPermissions(namespace);
  const connection = useConnection();
  const recovery = watched.data;
  // Each dialog is about what was shown when it was opened.
  const [approving, setApproving] = useState<LVMRecovery>();
  const [deleting, setDeleting] = useState<LVMRecovery>();
  return (
    <>
      <PageSection>
        <Breadcrumb>
          <BreadcrumbItem><Link to={overviewPath}>{t('Local volumes')}</Link></BreadcrumbItem>
          {recovery && <BreadcrumbItem><Link to={classPath(recovery.spec.deviceClassName)}>{recovery.spec.deviceClassName}</Link></BreadcrumbItem>}
          <BreadcrumbItem isActive>{name}</BreadcrumbItem>
        </Breadcrumb>
        <Flex justifyContent={{ default: 'justifyContentSpaceBetween' }}>
          <Flex alignItems={{ default: 'alignItemsCenter' }}>
            <Title headingLevel="h1" style={{ overflowWrap: 'anywhere' }}>{t('Recovery {{name}}', { name })}</Title>
            {recovery && <PhaseLabel phase={recovery.status?.phase} compact={false} />}
          </Flex>
          {recovery && <Actions recovery={recovery} permissions={permissions} approve={() => setApproving(recovery)} remove={() => setDeleting(recovery)} />}
        </Flex>
        {recovery && <Forbidden namespace={namespace} permissions={permissions} />}
      </PageSection>
      <PageSection isFilled>
        <Stack hasGutter>
          <ConnectionBanner connection={connection} />
          <ReadErrors reads={[[t('Recovery {{name}}', { name }), watched]]} />
          {!watched.loaded && !watched.error && <Loading />}
          {watched.loaded && !watched.error && !recovery && (
            <EmptyState headingLevel="h2" titleText={t('Recovery {{name}} does not exist', { name })} data-test="no-recovery">
              <EmptyStateBody><Link to={overviewPath}>{t('Go to the overview')}</Link></EmptyStateBody>
            </EmptyState>
          )}
          {recovery && <Body recovery={recovery} />}
        </Stack>
      </PageSection>
      {approving?.status?.plan && <ApproveDialog opened={approving} recovery={recovery} close={() => setApproving(undefined)} />}
      {deleting && <DeleteDialog recovery={deleting} close={() => setDeleting(undefined)} deleted={() => navigate(classPath(deleting.spec.deviceClassName))} />}
    </>
  );
}

interface ActionsProps {
  recovery: LVMRecovery;
  permissions: RecoveryPermissions;
  approve: () => void;
  remove: () => void;
}

function Actions({ recovery, permissions, approve, remove }: ActionsProps) {
  const { t } = useT();
  const lacksPatch = permissions.loaded && !permissions.approve;
  const lacksDelete = permissions.loaded && !permissions.remove;
  return (
    <Flex alignItems={{ default: 'alignItemsCenter' }}>
      {isApprovable(recovery) && (
        <Button variant="primary" isAriaDisabled={lacksPatch} aria-describedby={lacksPatch ? 'forbidden' : undefined} onClick={approve} data-test="approve">{t('Approve')}</Button>
      )}
      <Button variant="secondary" isDanger isAriaDisabled={lacksDelete} aria-describedby={lacksDelete ? 'forbidden' : undefined} onClick={remove} data-test="delete">
        {recovery.status?.phase === 'Succeeded' ? t('Delete') : t('Cancel recovery')}
      </Button>
    </Flex>
  );
}

/** Why buttons are disabled. */
function Forbidden({ namespace, permissions }: { namespace: string; permissions: RecoveryPermissions }) {
  const { t } = useT();
  const missing = [...(permissions.approve ? [] : ['patch']), ...(permissions.remove ? [] : ['delete'])];
  if (!permissions.loaded || missing.length === 0) return null;
  return <Content component="small" id="forbidden" data-test="forbidden">{t('You lack permission for lvmrecoveries.lvm.topolvm.io in {{namespace}}: {{verbs}}.', { namespace, verbs: missing.join(', ') })}</Content>;
}

function Body({ recovery }: { recovery: LVMRecovery }) {
  const { t } = useT();
  const { status } = recovery;
  const plan = status?.plan;
  return (
    <>
      <Progress recovery={recovery} />
      <StackItem>
        <Card>
          <CardTitle component="h2">{t('Details')}</CardTitle>
          <CardBody><Facts recovery={recovery} /></CardBody>
        </Card>
      </StackItem>
      <StackItem>
        <Card data-test="plan">
          <CardTitle component="h2">{t('Plan')}</CardTitle>
          <CardBody>
            {plan ? (
              <Stack hasGutter>
                <PlanFacts recovery={recovery} plan={plan} />
                <PlanTables plan={plan} done={status?.phase === 'Succeeded'} />
              </Stack>
            ) : (
              t('The node agent has not created a plan.')
            )}
          </CardBody>
        </Card>
      </StackItem>
    </>
  );
}

/** What happens, in the words of the agent and, for imports, of the operator. */
function Progress({ recovery }: { recovery: LVMRecovery }) {
  const { t } = useT();
  const { metadata, spec, status } = recovery;
  const outdated = spec.approvedPlan && status?.phase === 'AwaitingApproval' && spec.approvedPlan !== status.plan?.id;
  const objects = status?.conditions?.find((c) => c.type === 'ObjectsCreated' && c.status !== 'True');
  const titles: Record<string, string> = {
    NotApplicable: t('This action does not apply at present'), Preparing: t('The node agent prepares the plan'), AwaitingApproval: t('The plan must be approved'),
    Running: t('The node agent performs the plan'), Succeeded: t('The recovery has ended'),
  };
  const waiting = isApprovable(recovery) || status?.phase !== 'AwaitingApproval' ? undefined : t('The plan is approved. The node agent has not started yet.');
  return (
    <>
      {metadata.deletionTimestamp && <Alert isInline variant="warning" title={t('The recovery is being deleted.')} />}
      <Alert isInline variant={levelOf(status?.phase)} data-test="message" title={waiting ?? (status?.phase ? (titles[status.phase] ?? status.phase) : t('The node agent has not read the recovery yet: it may not be running on node {{node}}.', { node: spec.nodeName }))}>
        {status?.message}
      </Alert>
      {outdated && (
        <Alert isInline variant="warning" data-test="outdated" title={t('The plan changed after its approval')}>
          {t('Plan {{old}} was approved, but is no longer valid. The new plan must be approved again.', { old: spec.approvedPlan ?? '' })}
        </Alert>
      )}
      {objects && <Alert isInline variant={objects.reason === 'ObjectsBlocked' ? 'warning' : 'info'} data-test="objects" title={t('The operator creates the objects of the volumes')}>{objects.message}</Alert>}
    </>
  );
}

/** Terms with what they are; those without a value are left out. */
function Terms({ rows }: { rows: [string, ReactNode][] }) {
  return (
    <DescriptionList isCompact columnModifier={{ default: '1Col', lg: '3Col' }}>
      {rows.filter(([, value]) => value !== undefined && value !== '').map(([term, value]) => (
        <DescriptionListGroup key={term}>
          <DescriptionListTerm>{term}</DescriptionListTerm>
          <DescriptionListDescription style={{ overflowWrap: 'anywhere' }}>{value}</DescriptionListDescription>
        </DescriptionListGroup>
      ))}
    </DescriptionList>
  );
}

function Facts({ recovery: { metadata, spec, status } }: { recovery: LVMRecovery }) {
  const { t, m, locale } = useT();
  const time = (text?: string) => text && new Date(text).toLocaleString(locale);
  return (
    <Terms
      rows={[
        [t('Action'), <>{spec.action}<Content component="small">{actions[spec.action] ? m(actions[spec.action]) : ''}</Content></>],
        [t('Node'), <Link to={nodePath(spec.nodeName)}>{spec.nodeName}</Link>],
        [t('Device class'), <Link to={classPath(spec.deviceClassName)}>{spec.deviceClassName}</Link>],
        [t('Created'), metadata.creationTimestamp && <>{time(metadata.creationTimestamp)} (<Age time={metadata.creationTimestamp} />)</>],
        [t('Started'), time(status?.startTime)],
        [t('Ended'), time(status?.completionTime)],
        [t('Approved plan'), spec.approvedPlan],
        [t('Requested volumes'), spec.volumes && t('{{count}} volumes', { count: spec.volumes.length })],
        [t('Freed space'), status?.freedBytes === undefined ? undefined : formatBytes(status.freedBytes, locale)],
      ]}
    />
  );
}

function PlanFacts({ recovery: { spec }, plan }: { recovery: LVMRecovery; plan: RecoveryPlan }) {
  const { t, m, locale } = useT();
  const repair = plan.repair ? repairs[plan.repair] : undefined;
  return (
    <Terms
      rows={[
        [t('Lost volumes'), <span key="l" data-test="lost-count">{new Intl.NumberFormat(locale).format(plan.lostVolumeCount)}</span>],
        [t('Kept volumes'), new Intl.NumberFormat(locale).format(plan.keptVolumeCount)],
        [t('Plan ID'), <>{plan.id}<Content component="small">{new Date(plan.creationTime).toLocaleString(locale)}</Content></>],
        [t('Repair'), plan.repair && <>{plan.repair}<Content component="small">{repair ? m(repair) : ''}</Content></>],
        [t('Source of the metadata'), plan.metadataSource],
        [t('Possible extension of the thin pool'), plan.extensibleBytes !== undefined || spec.action === 'FreePoolSpace' ? formatBytes(plan.extensibleBytes ?? 0, locale) : undefined],
        [t('Volumes with a mounted file system'), plan.mountedVolumeCount === undefined ? undefined : new Intl.NumberFormat(locale).format(plan.mountedVolumeCount)],
        [t('Volume group UUID'), plan.volumeGroupUUID],
      ]}
    />
  );
}
