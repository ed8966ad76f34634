import { DocumentTitle } from '@openshift-console/dynamic-plugin-sdk';
import {
  Alert, Button, Card, CardBody, CardTitle, Content, Flex, FlexItem, PageSection, SearchInput, Stack, StackItem, Title,
  ToggleGroup, ToggleGroupItem,
} from '@patternfly/react-core';
import { lazy, useMemo, useState } from 'react';
import { Link } from '../router';
import type { DeviceState, KubeEvent, LVMCluster, LVMRecovery, Node, NodeStatus } from '../api/types';
import { classesOf, storageClassName } from '../api/types';
import { WaitingAlerts } from '../approval/WaitingAlerts';
import { Lazy, NotLoaded } from '../charts/lazy';
import { UsageCard } from '../charts/UsageCard';
import { DeviceTable } from '../components/DeviceTable';
import { ConnectionBanner, HealthAlert, Loading, ReadErrors } from '../components/parts';
import { UsageTable } from '../components/UsageTable';
import { VirtualTable } from '../components/VirtualTable';
import { useT } from '../i18n';
import { useMetrics, type Metrics } from '../kube/prometheus';
import { useClusters, useConnection, useEvents, useNamespace, useNodes, useNodeStatuses, useRecoveries, usePermissions, type Permissions, type Watched } from '../kube/watch';
import { alertQuery, alertsOf, forecastQuery } from '../model/alerting';
import { deviceRows, eventTime, ownEvents, total, usageOf, type DeviceRow, type Usage } from '../model/health';
import { formatBytes } from '../model/quantity';
import { provisioningOf } from '../model/cluster';
import { MovesCard } from '../moves/lazy';
import { classPath, createPath, editPath } from '../paths';
import { RecoveriesTable } from '../recovery/RecoveriesTable';
import { AlertsCard } from './AlertsCard';
import { CapacityCard } from './CapacityCard';
import { DiskMapCard } from './DiskMapCard';
import { EmptyOverview } from './EmptyOverview';

// Loaded after the page, which stays small.
const ActivityCard = lazy(() => import('./ActivityCard'));

export default function OverviewPage() {
  const namespace = useNamespace();
  const { t } = useT();
  return (
    <>
      <DocumentTitle>{t('Local volumes')}</DocumentTitle>
      {namespace ? <Overview namespace={namespace} /> : <Loading />}
    </>
  );
}

function Overview({ namespace }: { namespace: string }) {
  const { t } = useT();
  const clusters = useClusters(namespace);
  const statuses = useNodeStatuses(namespace);
  const nodes = useNodes();
  const events = useEvents(namespace);
  const recoveries = useRecoveries(namespace);
  const connection = useConnection();
  const permissions = usePermissions(namespace);
  const cluster = clusters.data[0];
  const settled = clusters.loaded || clusters.error;
  return (
    <>
      <PageSection>
        <Flex justifyContent={{ default: 'justifyContentSpaceBetween' }}>
          <Title headingLevel="h1">{t('Local volumes')}</Title>
          {cluster && <Actions cluster={cluster} permissions={permissions} namespace={namespace} />}
        </Flex>
      </PageSection>
      <PageSection isFilled>
        <Stack hasGutter>
          <ConnectionBanner connection={connection} />
          <ReadErrors reads={[[t('LVMClusters'), clusters], [t('Node statuses'), statuses], [t('Nodes'), nodes], [t('Events'), events], [t('Recoveries'), recoveries]]} />
          {!settled && <Loading />}
          {clusters.loaded && !clusters.error && !cluster && <EmptyOverview namespace={namespace} permissions={permissions} />}
          {cluster && <Body namespace={namespace} cluster={cluster} statuses={statuses} nodes={nodes} events={events} recoveries={recoveries} />}
        </Stack>
      </PageSection>
    </>
  );
}

function Actions({ cluster, permissions, namespace }: { cluster: LVMCluster; permissions: Permissions; namespace: string }) {
  const { t } = useT();
  const unused = classesOf(cluster).length === 0;
  const to = unused ? createPath(namespace) : editPath;
  const label = unused ? t('Create device class') : t('Edit device classes');
  return (
    <Flex alignItems={{ default: 'alignItemsCenter' }}>
      {permissions.loaded && !permissions.update && <Content component="small">{t('Read-only: you lack permission to update LVMClusters in {{namespace}}.', { namespace })}</Content>}
      <Button component={(props) => <Link {...props} to={to} />} variant="primary" data-test="edit">
        {permissions.loaded && !permissions.update ? t('View settings') : label}
      </Button>
    </Flex>
  );
}

interface BodyProps {
  namespace: string;
  cluster: LVMCluster;
  statuses: Watched<NodeStatus[]>;
  nodes: Watched<Node[]>;
  events: Watched<KubeEvent[]>;
  recoveries: Watched<LVMRecovery[]>;
}

function Body({ namespace, cluster, statuses, nodes, events, recoveries }: BodyProps) {
  const { t } = useT();
  const forecasts = useMetrics(classesOf(cluster).length ? forecastQuery : undefined, namespace);
  const byName = useMemo(() => new Map(nodes.data.map((n) => [n.metadata.name ?? '', n])), [nodes.data]);
  const usage = useMemo(() => usageOf(statuses.data, byName), [statuses.data, byName]);
  const metrics = useMetrics(alertQuery, namespace);
  const alerts = useMemo(() => alertsOf(metrics.samples), [metrics.samples]);
  return (
    <>
      <HealthAlert cluster={cluster} namespace={namespace} alerts={alerts} />
      <WaitingAlerts statuses={statuses.data} />
      <StackItem>
        <AlertsCard namespace={namespace} metrics={metrics} rows={alerts} />
      </StackItem>
      {classesOf(cluster).length > 0 && (
        <StackItem>
          <CapacityCard classes={classesOf(cluster).map((c) => c.name)} usage={usage} loaded={statuses.loaded && !statuses.error} />
        </StackItem>
      )}
      {classesOf(cluster).length > 0 && (
        <StackItem>
          <UsageCard namespace={namespace} />
        </StackItem>
      )}
      {classesOf(cluster).map((c) => (
        <StackItem key={c.name}>
          <ClassCard name={c.name} kind={provisioningOf(c)} usage={usage.filter((u) => u.deviceClass === c.name)} loaded={statuses.loaded && !statuses.error} forecasts={forecasts} />
        </StackItem>
      ))}
      {classesOf(cluster).length > 0 || recoveries.data.length > 0 ? (
        <StackItem>
          <Card data-test="recoveries">
            <CardTitle component="h2">{t('Recoveries')}</CardTitle>
            <CardBody>
              <RecoveriesTable recoveries={recoveries} />
            </CardBody>
          </Card>
        </StackItem>
      ) : null}
      {classesOf(cluster).length > 0 && (
        <StackItem>
          <Lazy fallback={<Loading />} failed={<NotLoaded />}>
            <MovesCard namespace={namespace} />
          </Lazy>
        </StackItem>
      )}
      <StackItem>
        <Lazy fallback={<Loading />} failed={<NotLoaded />}>
          <ActivityCard statuses={statuses} recoveries={recoveries} />
        </Lazy>
      </StackItem>
      <StackItem>
        <DiskMapCard statuses={statuses} />
      </StackItem>
      <StackItem>
        <DevicesCard statuses={statuses} nodes={byName} />
      </StackItem>
      <StackItem>
        <EventsCard events={events} />
      </StackItem>
    </>
  );
}

function ClassCard({ name, kind, usage, loaded, forecasts }: { name: string; kind: string; usage: Usage[]; loaded: boolean; forecasts: Metrics }) {
  const { t, locale } = useT();
  const size = (n?: number) => formatBytes(n, locale);
  return (
    <Card data-test={`class-${name}`}>
      <CardTitle component="h2">
        <Link to={classPath(name)}>{t('Device class {{name}}', { name })}</Link>
      </CardTitle>
      <CardBody>
        <Content component="p">
          {t('{{kind}}, StorageClass {{storageClass}}. {{used}} of {{size}} used on {{count}} nodes.', {
            kind: kind === 'thin' ? t('Thin') : kind === 'thick' ? t('Thick') : kind, storageClass: storageClassName(name),
            used: size(total(usage.map((u) => u.used))), size: size(total(usage.map((u) => u.size))), count: usage.filter((u) => u.size !== undefined).length,
          })}
        </Content>
        <UsageTable name={name} thin={kind === 'thin'} usage={usage} loaded={loaded} forecasts={forecasts} />
      </CardBody>
    </Card>
  );
}

const states: DeviceState[] = ['Failing', 'Missing', 'Unknown', 'Available', 'Excluded', 'InUse'];

function DevicesCard({ statuses, nodes }: { statuses: Watched<NodeStatus[]>; nodes: Map<string, Node> }) {
  const { t } = useT();
  const [state, setState] = useState<DeviceState>();
  const [text, setText] = useState('');
  const all = useMemo(() => deviceRows(statuses.data), [statuses.data]);
  const counts = useMemo(() => new Map(states.map((s) => [s, all.filter((r) => r.device.state === s).length])), [all]);
  const rows = useMemo(() => all.filter((r) => (!state || r.device.state === state) && contains(r, text)), [all, state, text]);
  const silent = statuses.loaded && !statuses.error ? [...nodes.keys()].filter((n) => !statuses.data.some((s) => s.metadata.name === n)) : [];
  const omitted = statuses.data.reduce((n, s) => n + (s.status?.devicesOmitted ?? 0), 0);
  const names: Record<DeviceState, string> = {
    Failing: t('Failing'), Missing: t('Missing'), Unknown: t('Unknown'), Available: t('Available'), Excluded: t('Excluded'), InUse: t('In use'),
  };
  return (
    <Card data-test="devices">
      <CardTitle component="h2">{t('Node devices')}</CardTitle>
      <CardBody>
        <Stack hasGutter>
          <Flex>
            <FlexItem>
              <ToggleGroup aria-label={t('Device state')}>
                <ToggleGroupItem text={t('All ({{count}})', { count: all.length })} buttonId="state-all" isSelected={!state} onChange={() => setState(undefined)} />
                {states.filter((s) => counts.get(s)).map((s) => (
                  <ToggleGroupItem key={s} text={`${names[s]} (${counts.get(s)})`} buttonId={`state-${s}`} isSelected={state === s} onChange={() => setState(state === s ? undefined : s)} />
                ))}
              </ToggleGroup>
            </FlexItem>
            <FlexItem>
              <SearchInput aria-label={t('Find a device')} placeholder={t('Node, name, model, serial number')} value={text} onChange={(_, v) => setText(v)} onClear={() => setText('')} />
            </FlexItem>
          </Flex>
          {silent.length > 0 && <Alert isInline isPlain variant="info" title={t('No devices are listed for {{count}} nodes, because the node agent does not run there or has not reported yet: {{nodes}}', { count: silent.length, nodes: silent.slice(0, 5).join(', ') })} />}
          {omitted > 0 && <Alert isInline isPlain variant="info" title={t('{{count}} devices that cannot be used are omitted, because the list would be too long.', { count: omitted })} />}
          <DeviceTable rows={rows} empty={statuses.error || !statuses.loaded ? t('Unknown') : all.length ? t('No devices match the filter.') : t('No node has listed its devices yet.')} />
        </Stack>
      </CardBody>
    </Card>
  );
}

const contains = ({ node, device: d }: DeviceRow, text: string): boolean =>
  !text || [node, d.name, d.id, d.model, d.vendor, d.serial, ...(d.byID ?? [])].some((v) => v?.toLowerCase().includes(text.toLowerCase()));

function EventsCard({ events }: { events: Watched<KubeEvent[]> }) {
  const { t, locale } = useT();
  const rows = useMemo(() => ownEvents(events.data, 50), [events.data]);
  return (
    <Card data-test="events">
      <CardTitle component="h2">{t('Recent events')}</CardTitle>
      <CardBody>
        <VirtualTable
          label={t('Recent events')}
          rows={rows}
          maxHeight={260}
          rowKey={(e) => e.metadata.uid ?? e.metadata.name ?? ''}
          empty={events.error || !events.loaded ? t('Unknown') : t('No recent events.')}
          columns={[
            { key: 'time', title: t('Time'), width: 11.5 }, { key: 'type', title: t('Type'), width: 6 }, { key: 'reason', title: t('Reason'), width: 12.5 },
            { key: 'object', title: t('Object'), width: 12, lines: 2 }, { key: 'message', title: t('Message'), lines: 2 },
          ]}
          cells={(e) => [
            new Date(eventTime(e)).toLocaleString(locale), e.type === 'Warning' ? t('Warning') : t('Normal'), e.reason ?? '', `${e.involvedObject?.kind ?? ''} ${e.involvedObject?.name ?? ''}`,
            e.message ?? '',
          ]}
        />
      </CardBody>
    </Card>
  );
}
