import { DocumentTitle } from '@openshift-console/dynamic-plugin-sdk';
import {
  Alert, Breadcrumb, BreadcrumbItem, Button, Card, CardBody, CardTitle, DescriptionList, DescriptionListDescription, DescriptionListGroup, DescriptionListTerm,
  EmptyState, EmptyStateBody, Flex, PageSection, Stack, StackItem, Title,
} from '@patternfly/react-core';
import { lazy, useMemo } from 'react';
import { Link, useParams } from '../router';
import { DEFAULTS } from '../api/limits';
import { classesOf, storageClassName, type DeviceApproval, type DeviceClass, type LVMCluster, type LVMRecovery, type Node, type NodeStatus } from '../api/types';
import { ApprovalsCard } from '../approval/ApprovalsCard';
import { CapacityDonut } from '../charts/CapacityDonut';
import { IOCard } from '../charts/IOCard';
import { Lazy, NotLoaded } from '../charts/lazy';
import { UsageCard } from '../charts/UsageCard';
import { ConnectionBanner, Loading, ReadErrors } from '../components/parts';
import { UsageTable } from '../components/UsageTable';
import { useT } from '../i18n';
import { useMetrics } from '../kube/prometheus';
import { useApprovals, useClusters, useConnection, useNamespace, useNodes, useNodeStatuses, useRecoveries, usePermissions, type Permissions, type Watched } from '../kube/watch';
import { waitingOf } from '../model/approval';
import { provisioningOf } from '../model/cluster';
import { encryptionOf } from '../model/encryption';
import { forecastQuery } from '../model/alerting';
import { usageOf } from '../model/health';
import { formatPercent } from '../model/quantity';
import { isUrgent, suggestionsOf } from '../model/recovery';
import { immutable } from '../model/validate';
import { classSettingsPath, overviewPath } from '../paths';
import { RecoveriesCard } from '../recovery/RecoveriesCard';
import { MembersCard } from './MembersCard';
import { VolumesCard } from './VolumesCard';

// Loaded after the page, which stays small.
const RankingCards = lazy(() => import('./RankingCards'));

/** Everything about one device class. */
export default function ClassPage() {
  const { name = '' } = useParams();
  const { t } = useT();
  const namespace = useNamespace();
  return (
    <>
      <DocumentTitle>{t('Device class {{name}}', { name })}</DocumentTitle>
      {namespace ? <Details namespace={namespace} name={name} /> : <Loading />}
    </>
  );
}

function Details({ namespace, name }: { namespace: string; name: string }) {
  const { t } = useT();
  const clusters = useClusters(namespace);
  const statuses = useNodeStatuses(namespace);
  const nodes = useNodes();
  const recoveries = useRecoveries(namespace);
  const approvals = useApprovals(namespace);
  const connection = useConnection();
  const permissions = usePermissions(namespace);
  const cluster = clusters.data[0];
  const c = classesOf(cluster).find((o) => o.name === name);
  // One that was taken out is there as long as a node has something of it.
  const leaving = !c && statuses.data.some((s) => s.status?.nodeStatus?.some((g) => g.name === name));
  return (
    <>
      <PageSection>
        <Breadcrumb>
          <BreadcrumbItem>
            <Link to={overviewPath}>{t('Local volumes')}</Link>
          </BreadcrumbItem>
          <BreadcrumbItem isActive>{name}</BreadcrumbItem>
        </Breadcrumb>
        <Flex justifyContent={{ default: 'justifyContentSpaceBetween' }}>
          <Title headingLevel="h1">{t('Device class {{name}}', { name })}</Title>
          {c && <Actions name={name} permissions={permissions} />}
        </Flex>
      </PageSection>
      <PageSection isFilled>
        <Stack hasGutter>
          <ConnectionBanner connection={connection} />
          <ReadErrors reads={[[t('LVMClusters'), clusters], [t('Node statuses'), statuses], [t('Nodes'), nodes], [t('Recoveries'), recoveries], [t('Approvals'), approvals]]} />
          {!clusters.loaded && !clusters.error && <Loading />}
          {clusters.loaded && !clusters.error && !c && !leaving && <Unknown name={name} />}
          {leaving && clusters.loaded && !clusters.error && (
            <Alert isInline variant="warning" title={t('Device class {{name}} was removed from the LVMCluster', { name })} data-test="leaving">
              {t('It still exists on some nodes. It is removed when it is no longer in use.')}
            </Alert>
          )}
          {cluster && (c || leaving) && <Body namespace={namespace} cluster={cluster} c={c} name={name} statuses={statuses} nodes={nodes} recoveries={recoveries} approvals={approvals} permissions={permissions} />}
        </Stack>
      </PageSection>
    </>
  );
}

function Actions({ name, permissions }: { name: string; permissions: Permissions }) {
  const { t } = useT();
  const may = !permissions.loaded || permissions.update;
  return (
    <Flex>
      <Button component={(props) => <Link {...props} to={classSettingsPath(name, 'devices')} />} variant="primary" data-test="add-devices">
        {may ? t('Add devices') : t('View devices')}
      </Button>
      <Button component={(props) => <Link {...props} to={classSettingsPath(name, 'class')} />} variant="secondary" data-test="settings">
        {may ? t('Edit settings') : t('View settings')}
      </Button>
    </Flex>
  );
}

function Unknown({ name }: { name: string }) {
  const { t } = useT();
  return (
    <EmptyState headingLevel="h2" titleText={t('Device class {{name}} does not exist', { name })} data-test="no-class">
      <EmptyStateBody>
        <Link to={overviewPath}>{t('Go to the overview')}</Link>
      </EmptyStateBody>
    </EmptyState>
  );
}

interface BodyProps {
  namespace: string;
  cluster: LVMCluster;
  c?: DeviceClass;
  name: string;
  statuses: Watched<NodeStatus[]>;
  nodes: Watched<Node[]>;
  recoveries: Watched<LVMRecovery[]>;
  approvals: Watched<DeviceApproval[]>;
  permissions: Permissions;
}

function Body({ namespace, cluster, c, name, statuses, nodes, recoveries, approvals, permissions }: BodyProps) {
  const { t } = useT();
  const byName = useMemo(() => new Map(nodes.data.map((n) => [n.metadata.name ?? '', n])), [nodes.data]);
  const usage = useMemo(() => usageOf(statuses.data, byName).filter((u) => u.deviceClass === name), [statuses.data, byName, name]);
  const forecasts = useMetrics(forecastQuery, namespace);
  const thin = c ? !!c.thinPoolConfig : usage.some((u) => u.group.thinPool);
  const own = useMemo(() => recoveries.data.filter((r) => r.spec.deviceClassName === name), [recoveries.data, name]);
  const urgent = useMemo(() => isUrgent(statuses.data.flatMap((s) => suggestionsOf(s, name)), own), [statuses.data, name, own]);
  const waiting = useMemo(() => waitingOf(statuses.data, name), [statuses.data, name]);
  const ownApprovals = useMemo(() => ({ ...approvals, data: approvals.data.filter((a) => a.spec.deviceClassName === name) }), [approvals, name]);
  const approving = (c?.approval === 'Required' || waiting.length > 0 || ownApprovals.data.length > 0) && (
    <StackItem key="approvals">
      <ApprovalsCard namespace={namespace} c={c} statuses={statuses} nodes={nodes} waiting={waiting} approvals={ownApprovals} />
    </StackItem>
  );
  const card = (
    <StackItem key="recoveries">
      <RecoveriesCard namespace={namespace} cluster={cluster} name={name} statuses={statuses} recoveries={recoveries} />
    </StackItem>
  );
  return (
    <>
      {urgent && card}
      {waiting.length > 0 && approving}
      {c && <Settings c={c} />}
      <StackItem>
        <Card data-test="capacity">
          <CardTitle component="h2">{t('Capacity')}</CardTitle>
          <CardBody>
            <CapacityDonut label={t('Capacity of device class {{name}}', { name })} usage={usage} loaded={statuses.loaded && !statuses.error} />
          </CardBody>
        </Card>
      </StackItem>
      <StackItem>
        <UsageCard namespace={namespace} deviceClass={name} />
      </StackItem>
      <StackItem>
        <IOCard scope={{ deviceClass: name }} />
      </StackItem>
      <StackItem>
        <Card data-test="nodes">
          <CardTitle component="h2">{t('Nodes')}</CardTitle>
          <CardBody>
            <UsageTable name={name} thin={thin} usage={usage} loaded={statuses.loaded && !statuses.error} forecasts={forecasts} />
          </CardBody>
        </Card>
      </StackItem>
      {waiting.length === 0 && approving}
      {!urgent && card}
      <StackItem>
        <MembersCard cluster={cluster} c={c} name={name} statuses={statuses} nodes={nodes} permissions={permissions} />
      </StackItem>
      <Lazy fallback={<Loading />} failed={<NotLoaded />}>
        <RankingCards name={name} thin={thin} />
      </Lazy>
      <StackItem>
        <VolumesCard cluster={cluster} name={name} thin={thin} />
      </StackItem>
    </>
  );
}

/** What the class is like, with why what is fixed cannot be changed. */
function Settings({ c }: { c: DeviceClass }) {
  const { t, m, locale } = useT();
  const kind = provisioningOf(c);
  const pool = c.thinPoolConfig;
  const encryption = encryptionOf(c);
  const schedules = { Off: t('Off'), Weekly: t('Weekly'), Daily: t('Daily'), None: t('Only above the pool usage threshold') };
  const names: Record<string, string> = { thin: t('Thin'), thick: t('Thick') };
  const rows: [string, string, string | undefined][] = [
    [t('Volume type'), names[kind] ?? kind, c.raidConfig ? 'raidConfig' : 'provisioning'],
    ['StorageClass', storageClassName(c.name) + (c.default ? ` (${t('default')})` : ''), 'name'],
    [t('File system'), c.fstype ?? DEFAULTS.fstype, 'fstype'],
    [t('Reclaim policy'), c.storageClassOptions?.reclaimPolicy === 'Retain' ? t('Retain: the volume is kept') : t('Delete: the volume is deleted with its claim'), 'storageClassOptions.reclaimPolicy'],
    ...(c.existingVolumeGroup ? [] : [[t('Approval of devices'), c.approval === 'Required' ? t('Required for each new device') : t('Not required'), undefined] as [string, string, undefined]]),
    ...(pool
      ? ([
          [t('Thin pool size (share of volume group)'), formatPercent(pool.sizePercent ?? DEFAULTS['thinPoolConfig.sizePercent'], locale), 'thinPoolConfig.sizePercent'],
          [t('Overprovision ratio'), String(pool.overprovisionRatio), undefined],
          [t('High-water mark'), formatPercent(pool.highWaterMarkPercent ?? DEFAULTS['thinPoolConfig.highWaterMarkPercent'], locale), undefined],
          ...(pool.stripes ? [[t('Stripes'), String(pool.stripes), 'thinPoolConfig.stripes']] : []),
          [t('Automatic extension'), pool.autoExtend ? t('At {{percent}}', { percent: formatPercent(pool.autoExtend.thresholdPercent ?? DEFAULTS['thinPoolConfig.autoExtend.thresholdPercent'], locale) }) : t('No'), undefined],
        ] as [string, string, string | undefined][])
      : []),
    [t('Encryption'), encryption ? t('LUKS2, with the key in Secret {{name}}', { name: `${encryption.namespace}/${encryption.name}` }) : t('No'), 'storageClassOptions.additionalParameters'],
    [t('Erase deleted volumes'), c.eraseOnDelete ?? (pool ? 'None' : 'Zero'), undefined],
    [t('Trim of file systems'), schedules[c.trim ? (c.trim.schedule ?? 'Weekly') : 'Off'], undefined],
  ];
  return (
    <StackItem>
      <Card data-test="settings-card">
        <CardTitle component="h2">{t('Settings')}</CardTitle>
        <CardBody>
          <DescriptionList isCompact columnModifier={{ default: '1Col', lg: '3Col' }}>
            {rows.map(([term, text, fixed]) => (
              <DescriptionListGroup key={term}>
                <DescriptionListTerm>{term}</DescriptionListTerm>
                <DescriptionListDescription>
                  {text}
                  <Why text={fixed && immutable[fixed] ? m(immutable[fixed]) : t('Can be changed.')} />
                </DescriptionListDescription>
              </DescriptionListGroup>
            ))}
          </DescriptionList>
        </CardBody>
      </Card>
    </StackItem>
  );
}

const Why = ({ text }: { text: string }) => <span style={{ display: 'block', fontSize: 'var(--pf-t--global--font--size--xs)', color: 'var(--pf-t--global--text--color--subtle)' }}>{text}</span>;
