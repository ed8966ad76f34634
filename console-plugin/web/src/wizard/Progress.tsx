import { Button, Card, CardBody, CardTitle, Content, PageSection, Stack, StackItem } from '@patternfly/react-core';
import { useMemo } from 'react';
import { Link } from '../router';
import { classesOf, storageClassName, type LVMCluster, type NodeStatus } from '../api/types';
import { WaitingAlerts } from '../approval/WaitingAlerts';
import { ConnectionBanner, HealthAlert, ReadErrors, StateLabel } from '../components/parts';
import { VirtualTable } from '../components/VirtualTable';
import { useT } from '../i18n';
import { useClusters, useConnection, useNodes, useNodeStatuses, useStorageClasses } from '../kube/watch';
import { progressOf } from '../model/progress';
import { formatBytes } from '../model/quantity';
import { overviewPath } from '../paths';
import { FirstVolume } from './FirstVolume';

/** What became of what was asked for, live, on each node. */
export function Progress({ namespace, created }: { namespace: string; created: LVMCluster }) {
  const { t, m, locale } = useT();
  const clusters = useClusters(namespace);
  const statuses = useNodeStatuses(namespace);
  const nodes = useNodes();
  const storageClasses = useStorageClasses();
  const connection = useConnection();
  const cluster = clusters.data.find((c) => c.metadata.name === created.metadata.name) ?? created;
  const rows = useMemo(() => progressOf(cluster, nodes.data, statuses.data as NodeStatus[]), [cluster, nodes.data, statuses.data]);
  const there = (name: string) => storageClasses.data.some((s) => s.metadata.name === storageClassName(name));
  return (
    <PageSection data-test="progress" data-state={cluster.status?.state ?? ''}>
      <Stack hasGutter>
        <ConnectionBanner connection={connection} />
        <ReadErrors reads={[[t('LVMClusters'), clusters], [t('Node statuses'), statuses], [t('Nodes'), nodes]]} />
        <HealthAlert cluster={cluster} namespace={namespace} />
        <WaitingAlerts statuses={statuses.data} />
        {classesOf(cluster).map((c) => (
          <StackItem key={c.name}>
            <Card>
              <CardTitle component="h2">{t('Device class {{name}}', { name: c.name })}</CardTitle>
              <CardBody>
                <Content component="p">
                  {there(c.name) ? t('StorageClass {{name}} is available.', { name: storageClassName(c.name) }) : t('StorageClass {{name}} does not exist yet.', { name: storageClassName(c.name) })}
                </Content>
                <VirtualTable
                  label={t('Device class {{name}}', { name: c.name })}
                  rows={rows.filter((r) => r.deviceClass === c.name)}
                  rowKey={(r) => r.node}
                  empty={t('No node is selected.')}
                  columns={[{ key: 'node', title: t('Node'), width: 16, lines: 2 }, { key: 'state', title: t('State'), width: 9.5 }, { key: 'size', title: t('Size'), width: 7 }, { key: 'text', title: t('Activity'), lines: 2 }]}
                  cells={(r) => [r.node, <StateLabel key="s" state={r.state} />, formatBytes(r.size, locale), m(r.text)]}
                />
                {there(c.name) && rows.some((r) => r.deviceClass === c.name && r.state === 'Ready') && <FirstVolume c={c} open={classesOf(cluster).length === 1} />}
              </CardBody>
            </Card>
          </StackItem>
        ))}
        <StackItem>
          <Button component={(props) => <Link {...props} to={overviewPath} />}>{t('Go to the overview')}</Button>
        </StackItem>
      </Stack>
    </PageSection>
  );
}
