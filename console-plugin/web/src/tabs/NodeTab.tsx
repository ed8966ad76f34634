import { Alert, Card, CardBody, CardTitle, PageSection, Stack, StackItem } from '@patternfly/react-core';
import { useMemo } from 'react';
import { Link } from '../router';
import { classesOf, type Node } from '../api/types';
import { WaitingSection } from '../approval/WaitingSection';
import { Lazy, NotLoaded } from '../charts/lazy';
import { DeviceTable } from '../components/DeviceTable';
import { ConnectionBanner, Loading, ReadErrors } from '../components/parts';
import { UsageTable } from '../components/UsageTable';
import { useT } from '../i18n';
import { useApprovalPermissions, useClusters, useConnection, useNamespace, useNodeStatus } from '../kube/watch';
import { effectOf, waitingOf, type Waiting } from '../model/approval';
import { observed } from '../model/devices';
import { deviceRows, usageOf } from '../model/health';
import { MovesCard } from '../moves/lazy';
import { classPath } from '../paths';
import { SlotsCard } from './SlotsCard';

/** The tab of a Node: its disks, and what the device classes have there. */
export default function NodeTab({ obj }: { obj?: Node }) {
  const namespace = useNamespace();
  return namespace && obj?.metadata.name ? <Disks namespace={namespace} node={obj} name={obj.metadata.name} /> : <Loading />;
}

function Disks({ namespace, node, name }: { namespace: string; node: Node; name: string }) {
  const { t } = useT();
  const status = useNodeStatus(namespace, name);
  const clusters = useClusters(namespace);
  const permissions = useApprovalPermissions(namespace);
  const connection = useConnection();
  const list = useMemo(() => (status.data ? [status.data] : []), [status.data]);
  const rows = useMemo(() => deviceRows(list), [list]);
  const usage = useMemo(() => usageOf(list, new Map([[name, node]])), [list, name, node]);
  const seen = observed(status.data);
  const waiting = useMemo(() => waitingOf(list), [list]);
  const effect = (w: Waiting) => effectOf(w, classesOf(clusters.data[0]).find((c) => c.name === w.deviceClass), node);
  const known = status.loaded && !status.error;
  return (
    <PageSection data-test="node-tab">
      <Stack hasGutter>
        <ConnectionBanner connection={connection} />
        <ReadErrors reads={[[t('Node statuses'), status]]} />
        {known && !status.data && <Alert isInline variant="info" data-test="no-status" title={t('Node {{node}} has not listed its devices: the node agent does not run there, or no LVMCluster exists.', { node: name })} />}
        {status.data && !seen.ok && <Alert isInline variant="warning" title={t('The node agent could not read the devices, so this data is old: {{message}}', { message: seen.message ?? '' })} />}
        {waiting.length > 0 && (
          <StackItem>
            <Card data-test="approvals">
              <CardTitle component="h2">{t('Device approvals')}</CardTitle>
              <CardBody>
                <WaitingSection namespace={namespace} waiting={waiting} statuses={list} known={known} permissions={permissions} effect={effect} of="node" />
              </CardBody>
            </Card>
          </StackItem>
        )}
        {usage.map((u) => (
          <StackItem key={u.deviceClass}>
            <Card data-test={`class-${u.deviceClass}`}>
              <CardTitle component="h2">
                <Link to={classPath(u.deviceClass)}>{t('Device class {{name}}', { name: u.deviceClass })}</Link>
              </CardTitle>
              <CardBody>
                <UsageTable name={u.deviceClass} thin={!!u.group.thinPool} usage={[u]} loaded={known} />
              </CardBody>
            </Card>
          </StackItem>
        ))}
        {status.data && (
          <StackItem>
            <Lazy fallback={<Loading />} failed={<NotLoaded />}>
              <MovesCard namespace={namespace} node={name} />
            </Lazy>
          </StackItem>
        )}
        <StackItem>
          <SlotsCard status={status.data} known={known} />
        </StackItem>
        <StackItem>
          <Card data-test="devices">
            <CardTitle component="h2">{t('Local disks')}</CardTitle>
            <CardBody>
              <DeviceTable single rows={rows} empty={known ? t('No node has listed its devices yet.') : t('Unknown')} />
            </CardBody>
          </Card>
        </StackItem>
      </Stack>
    </PageSection>
  );
}
