import { DocumentTitle } from '@openshift-console/dynamic-plugin-sdk';
import {
  Alert, Breadcrumb, BreadcrumbItem, Button, Card, CardBody, CardTitle, Content, DescriptionList, DescriptionListDescription, DescriptionListGroup, DescriptionListTerm,
  EmptyState, EmptyStateBody, Flex, PageSection, Stack, StackItem, Title,
} from '@patternfly/react-core';
import { useState, type ReactNode } from 'react';
import { Link, useNavigate, useParams } from '../router';
import type { MovePhase, VolumeMove } from '../api/types';
import { ConnectionBanner, Loading, ReadErrors } from '../components/parts';
import { useT } from '../i18n';
import { useConnection, useMove, useMovePermissions, useNamespace } from '../kube/watch';
import { claimOfMove, copiedOf, formatDuration, levelOf, targetOf, undoOf } from '../model/moves';
import { formatBytes } from '../model/quantity';
import { classPath, nodePath, overviewPath, persistentVolumePath } from '../paths';
import { Age, ClaimLink } from '../recovery/parts';
import { MovePhaseLabel, MoveProgress, PodList } from './parts';
import { UndoDialog, useUndoNames } from './UndoDialog';

/** One move of a volume: its progress, what it waits for, and how to undo it. */
export function MovePage() {
  const { name = '' } = useParams();
  const { t } = useT();
  const namespace = useNamespace();
  return (
    <>
      <DocumentTitle>{t('Move {{name}}', { name })}</DocumentTitle>
      {namespace ? <Details key={name} namespace={namespace} name={name} /> : <Loading />}
    </>
  );
}

function Details({ namespace, name }: { namespace: string; name: string }) {
  const { t } = useT();
  const navigate = useNavigate();
  const watched = useMove(namespace, name);
  const permissions = useMovePermissions(namespace);
  const connection = useConnection();
  const names = useUndoNames();
  const move = watched.data;
  // The dialog is about what was shown when it was opened.
  const [opened, setOpened] = useState<VolumeMove>();
  const forbidden = permissions.loaded && !permissions.remove;
  return (
    <>
      <PageSection>
        <Breadcrumb>
          <BreadcrumbItem><Link to={overviewPath}>{t('Local volumes')}</Link></BreadcrumbItem>
          {move?.status?.deviceClass && <BreadcrumbItem><Link to={classPath(move.status.deviceClass)}>{move.status.deviceClass}</Link></BreadcrumbItem>}
          <BreadcrumbItem isActive>{name}</BreadcrumbItem>
        </Breadcrumb>
        <Flex justifyContent={{ default: 'justifyContentSpaceBetween' }}>
          <Flex alignItems={{ default: 'alignItemsCenter' }}>
            <Title headingLevel="h1" style={{ overflowWrap: 'anywhere' }}>{t('Move {{name}}', { name })}</Title>
            {move && <MovePhaseLabel phase={move.status?.phase} compact={false} />}
          </Flex>
          {move && !move.metadata.deletionTimestamp && (
            <Button variant="secondary" isDanger isAriaDisabled={forbidden} aria-describedby={forbidden ? 'no-undo' : undefined} onClick={() => setOpened(move)} data-test="undo">{names[undoOf(move)]}</Button>
          )}
        </Flex>
        {forbidden && <Content component="small" id="no-undo">{t('You lack permission to delete volumemoves.lvm.topolvm.io in {{namespace}}.', { namespace })}</Content>}
      </PageSection>
      <PageSection isFilled>
        <Stack hasGutter>
          <ConnectionBanner connection={connection} />
          <ReadErrors reads={[[t('Move {{name}}', { name }), watched]]} />
          {!watched.loaded && !watched.error && <Loading />}
          {watched.loaded && !watched.error && !move && (
            <EmptyState headingLevel="h2" titleText={t('Move {{name}} does not exist', { name })} data-test="no-move">
              <EmptyStateBody><Link to={overviewPath}>{t('Go to the overview')}</Link></EmptyStateBody>
            </EmptyState>
          )}
          {move && <Body move={move} />}
        </Stack>
      </PageSection>
      {opened && <UndoDialog opened={opened} now={move} close={() => setOpened(undefined)} deleted={() => navigate(overviewPath)} />}
    </>
  );
}

function Body({ move }: { move: VolumeMove }) {
  const { t } = useT();
  const { metadata, status } = move;
  const titles: Record<MovePhase, string> = {
    Pending: t('The copy has not begun'),
    Copying: status?.thick ? t('The data is being copied, and no Pod can use the volume until it is switched') : t('The data is being copied while Pods can use the volume'),
    WaitingForPods: status?.thick ? t('A thick volume is copied and switched only while no Pod uses it. End the Pods') : t('The target node has a recent copy of the data. End the Pods, so that they start on the target node'),
    Switching: t('Nobody can use the volume while the last changes are copied and the volume is switched'), KeepingSource: t('The volume is on the target node. The old logical volume is kept'),
    Completed: t('The volume is on the target node, and the old logical volume is removed'), Failed: t('The volume cannot be moved, and stays on its node'),
  };
  return (
    <>
      {metadata.deletionTimestamp && <Alert isInline variant="warning" data-test="deleting" title={t('The move is being deleted.')} />}
      <Alert isInline variant={levelOf(status?.phase)} data-test="message" title={status?.phase ? (titles[status.phase] ?? status.phase) : t('The operator has not begun')}>{status?.message}</Alert>
      {!!status?.pods?.length && (
        <StackItem>
          <Card>
            <CardTitle component="h2">{t('Pods that use the volume')}</CardTitle>
            <CardBody><PodList move={move} /></CardBody>
          </Card>
        </StackItem>
      )}
      <StackItem>
        <Card data-test="facts">
          <CardTitle component="h2">{t('Details')}</CardTitle>
          <CardBody><Facts move={move} /></CardBody>
        </Card>
      </StackItem>
    </>
  );
}

function Facts({ move }: { move: VolumeMove }) {
  const { t, locale } = useT();
  const { metadata, spec, status = {} } = move;
  const time = (text?: string) => text && new Date(text).toLocaleString(locale);
  const node = (name?: string) => name && <Link to={nodePath(name)}>{name}</Link>;
  const copied = copiedOf(move);
  const rows: [string, ReactNode][] = [
    [t('Claim'), <ClaimLink key="c" claim={claimOfMove(move)} />],
    [t('From node'), node(status.sourceNode)],
    [t('To node'), node(targetOf(move)) ?? t('Any node')],
    [t('Progress'), copied && <MoveProgress key="p" move={move} />],
    [t('Round'), copied && !status.thick && <>{copied.round}<Content component="small">{t('The first round copies all data, others the changes since the previous one.')}</Content></>],
    [t('Position in the queue'), status.queuePosition],
    [t('Last complete round'), status.lastDeltaSeconds === undefined ? undefined : t('{{size}} in {{duration}}', { size: formatBytes(status.lastDeltaBytes ?? 0, locale), duration: formatDuration(status.lastDeltaSeconds, locale) })],
    [t('Device class'), status.deviceClass && <Link key="d" to={classPath(status.deviceClass)}>{status.deviceClass}</Link>],
    ['PersistentVolume', status.persistentVolume && <Link key="v" to={persistentVolumePath(status.persistentVolume)}>{status.persistentVolume}</Link>],
    [t('Maximum pause'), status.thick ? undefined : spec.maxPause],
    [t('Keep old logical volume'), spec.keepSource],
    [t('Created'), metadata.creationTimestamp && <>{time(metadata.creationTimestamp)} (<Age time={metadata.creationTimestamp} />)</>],
    [t('Started'), time(status.startTime)],
    [t('Switched'), time(status.switchTime)],
    [t('Old logical volume is removed at'), status.phase === 'KeepingSource' ? time(status.sourceRemovalTime) : undefined],
  ];
  return (
    <DescriptionList isCompact columnModifier={{ default: '1Col', lg: '3Col' }}>
      {rows.filter(([, value]) => value !== undefined && value !== '' && value !== 0 && value !== false).map(([term, value]) => (
        <DescriptionListGroup key={term}>
          <DescriptionListTerm>{term}</DescriptionListTerm>
          <DescriptionListDescription style={{ overflowWrap: 'anywhere' }}>{value}</DescriptionListDescription>
        </DescriptionListGroup>
      ))}
    </DescriptionList>
  );
}
