import { Alert, Card, CardBody, CardHeader, CardTitle, Content, DescriptionList, DescriptionListDescription, DescriptionListGroup, DescriptionListTerm, Flex, List, ListItem, PageSection, Stack, StackItem } from '@patternfly/react-core';
import { useMemo, useState, type ReactNode } from 'react';
import { Link } from '../router';
import { DRIVER, type Claim, type LogicalVolume, type PersistentVolume } from '../api/types';
import { IOCard } from '../charts/IOCard';
import { Lazy, NotLoaded } from '../charts/lazy';
import { ConnectionBanner, Loading, ReadErrors, ShareBar, StateLabel } from '../components/parts';
import { UsageTable } from '../components/UsageTable';
import { useT } from '../i18n';
import { useMetrics } from '../kube/prometheus';
import { useClusters, useConnection, useLogicalVolume, useLogicalVolumes, useNamespace, useNodeStatus, usePersistentVolume, type Watched } from '../kube/watch';
import { stablePath } from '../model/devices';
import { usageOf } from '../model/health';
import { limitsOf } from '../model/iolimits';
import { membersOf, type Member } from '../model/members';
import { disksOf, disksQuery, type Disk } from '../model/placement';
import { formatBytes } from '../model/quantity';
import { classOf, copyingOf, titleOf, volumesOf, type Volume } from '../model/volumes';
import { ClaimMove, MoveAction } from '../moves/lazy';
import { classPath, nodePath, persistentVolumePath } from '../paths';
import { SuspendedVolume, useSuspensionDetails } from '../suspension/SuspendedLabel';
import { useForbidden, VolumeAction, WhyForbidden, type Chosen } from '../suspension/VolumeAction';
import { VolumeDialog } from '../suspension/VolumeDialog';
import { SnapshotsCard } from './SnapshotsCard';
import { UseCard } from './UseCard';

/** The maximum number of disks that are listed. */
const MOST = 16;

/** The tab of a claim: the logical volume that it has, where that is, and how it is. */
export default function ClaimTab({ obj }: { obj?: Claim }) {
  const { t } = useT();
  const namespace = useNamespace();
  const connection = useConnection();
  const volumeName = obj?.spec?.volumeName;
  const persistentVolume = usePersistentVolume(volumeName);
  const pv = persistentVolume.data;
  const ours = pv?.spec.csi?.driver === DRIVER;
  return (
    <PageSection data-test="claim-tab">
      <Stack hasGutter>
        <ConnectionBanner connection={connection} />
        <ReadErrors reads={[[t('PersistentVolumes'), persistentVolume]]} />
        {!volumeName && obj && <Unbound claim={obj} />}
        {volumeName && !persistentVolume.loaded && !persistentVolume.error && <Loading />}
        {persistentVolume.loaded && !persistentVolume.error && !pv && <Alert isInline variant="warning" data-test="no-pv" title={t('PersistentVolume {{name}} does not exist', { name: volumeName ?? '' })} />}
        {pv && !ours && <Alert isInline variant="info" data-test="not-ours" title={t('The volume is not managed by LVM Storage')}>{pv.spec.csi ? t('Its CSI driver is {{driver}}.', { driver: pv.spec.csi.driver }) : t('It has no CSI driver.')}</Alert>}
        {pv && ours && namespace && obj && <Known namespace={namespace} claim={obj} pv={pv} />}
      </Stack>
    </PageSection>
  );
}

/** A claim without a volume. The LogicalVolume that is created for it has the name that its PersistentVolume will have. */
export function Unbound({ claim }: { claim: Claim }) {
  const { t } = useT();
  const created = useLogicalVolume(claim.metadata.uid && `pvc-${claim.metadata.uid}`);
  const copying = created.data && copyingOf(created.data);
  if (copying !== undefined) return <Alert isInline variant="info" data-test="copying" title={t('The volume is being copied')}>{copying}</Alert>;
  return (
    <>
      <ReadErrors reads={[[t('LogicalVolumes'), created]]} />
      <Alert isInline variant="info" data-test="unbound" title={t('The claim has no volume yet')} >{t('The volume is created when a Pod uses the claim, or immediately if the volume binding mode of the StorageClass is Immediate. For its status, see the events of the claim.')}</Alert>
    </>
  );
}

/** A LogicalVolume has the name of the PersistentVolume that was made with it. One that was made by hand is looked for among all. */
function useVolume(pv: PersistentVolume): { lv?: LogicalVolume; all: Watched<LogicalVolume[]>; reads: Parameters<typeof ReadErrors>[0]['reads']; settled: boolean } {
  const { t } = useT();
  const handle = pv.spec.csi?.volumeHandle;
  const named = useLogicalVolume(pv.metadata.name);
  const other = named.loaded && !named.error && named.data?.status?.volumeID !== handle;
  const all = useLogicalVolumes();
  const lv = other ? all.data.find((o) => o.status?.volumeID === handle) : named.data;
  return { lv, all, reads: [[t('LogicalVolumes'), named.error ? named : all]], settled: other ? all.loaded : named.loaded };
}

function Known({ namespace, claim, pv }: { namespace: string; claim: Claim; pv: PersistentVolume }) {
  const { t, m } = useT();
  const { lv, all, reads, settled } = useVolume(pv);
  const clusters = useClusters(namespace);
  const status = useNodeStatus(namespace, lv?.spec.nodeName);
  const failed = reads.some(([, r]) => r.error);
  const [volume] = lv ? volumesOf([lv], [pv]) : [];
  const [chosen, setChosen] = useState<Chosen>();
  const forbidden = useForbidden();
  const name = lv && classOf(lv, clusters.data[0]);
  const usage = status.data ? usageOf([status.data], new Map()).filter((u) => u.deviceClass === name) : [];
  const pool = usage[0]?.group;
  const members = useMemo(() => (name && status.data ? membersOf(name, [status.data]) : []), [name, status.data]);
  const placed = useMetrics(lv?.metadata.uid ? disksQuery(lv.metadata.uid) : undefined, claim.metadata.namespace);
  const disks = useMemo(() => disksOf(placed.samples, members), [placed.samples, members]);
  const written = useMetrics(lv && pool?.thinPool ? `lvms_volume_data_percent{volume="${lv.metadata.uid}"}` : undefined, claim.metadata.namespace);
  return (
    <>
      <ReadErrors reads={[...reads, [t('LVMClusters'), clusters], [t('Node statuses'), status]]} />
      {settled && !failed && !lv && <Alert isInline variant="danger" data-test="no-lv" title={t('No LogicalVolume has the ID {{id}}', { id: pv.spec.csi?.volumeHandle ?? '' })}>{t('The PersistentVolume refers to a volume that does not exist on any node.')}</Alert>}
      {volume?.problems.map((p) => <Alert key={p.key + JSON.stringify(p.values)} isInline variant="warning" data-test="problem" title={t('Volume problem')}>{m(p)}</Alert>)}
      {volume && (
        <Lazy fallback={null} failed={<NotLoaded />}>
          <ClaimMove namespace={namespace} claim={titleOf(volume)} />
        </Lazy>
      )}
      {volume && (
        <StackItem>
          <Card data-test="logical-volume">
            <CardHeader
              actions={{
                actions: (
                  <Flex alignItems={{ default: 'alignItemsCenter' }}>
                    <Lazy fallback={null}><MoveAction namespace={namespace} volume={volume} clusters={clusters} /></Lazy>
                    <VolumeAction volume={volume} forbidden={forbidden} choose={setChosen} variant="secondary" />
                  </Flex>
                ),
                hasNoOffset: true,
              }}
            >
              <CardTitle component="h2">{t('Logical volume')}</CardTitle>
            </CardHeader>
            <CardBody>
              <WhyForbidden forbidden={forbidden} />
              <Facts volume={volume} deviceClass={name} state={pool?.status && <StateLabel state={pool.status} />} thin={!!pool?.thinPool} written={written.samples[0]?.value} error={written.error} />
            </CardBody>
          </Card>
          {chosen && <VolumeDialog opened={chosen} now={volume} close={() => setChosen(undefined)} />}
        </StackItem>
      )}
      {volume && name && (
        <StackItem>
          <Card data-test="group">
            <CardTitle component="h2">{t('Device class {{name}} on node {{node}}', { name, node: volume.node })}</CardTitle>
            <CardBody>
              <UsageTable name={name} thin={!!pool?.thinPool} usage={usage} loaded={status.loaded && !status.error} />
              {disks ? <Disks disks={disks} thin={!!pool?.thinPool} /> : <Where members={members} />}
            </CardBody>
          </Card>
        </StackItem>
      )}
      {volume && claim.metadata.namespace && claim.metadata.name && (
        <StackItem>
          <UseCard namespace={claim.metadata.namespace} claim={claim.metadata.name} volume={volume.lv.metadata.uid} thin={!!pool?.thinPool} size={volume.size} />
        </StackItem>
      )}
      {volume?.lv.metadata.uid && (
        <StackItem>
          <IOCard scope={{ volume: volume.lv.metadata.uid }} namespace={claim.metadata.namespace} />
        </StackItem>
      )}
      {volume && (
        <StackItem>
          <SnapshotsCard source={volume.lv} all={all} />
        </StackItem>
      )}
    </>
  );
}

/** The disks that the volume is on. */
function Disks({ disks, thin }: { disks: Disk[]; thin: boolean }) {
  const { t } = useT();
  const only = disks.length === 1 ? t('The volume is on this disk:') : t('The volume is on these disks:');
  return (
    <div data-test="disks">
      <Content component="p">{thin ? t('The thin pool has its data on these disks. Each of them can have data of the volume:') : only}</Content>
      <List>
        {disks.slice(0, MOST).map(({ uuid, device, member }) => (
          <ListItem key={uuid}>
            {device} <StateLabel state={member?.pv.state ?? 'Unknown'} /> {member?.device && stablePath(member.device).replace('/dev/disk/', '')}
          </ListItem>
        ))}
      </List>
      {disks.length > MOST && <Content component="p">{t('{{count}} more', { count: disks.length - MOST })}</Content>}
    </div>
  );
}

/** On which disks the volume can be, if the node agent has not said it. */
function Where({ members }: { members: Member[] }) {
  const { t } = useT();
  if (members.length === 0) return null;
  return (
    <div data-test="where">
      <Content component="p">{members.length === 1 ? t('The volume is on this disk:') : t('LVM placed the volume on one or more of these disks:')}</Content>
      <List>
        {members.slice(0, MOST).map(({ pv, device }) => (
          <ListItem key={pv.uuid}>
            {pv.name ?? pv.uuid} <StateLabel state={pv.state} /> {(device ? stablePath(device) : (pv.path ?? '')).replace('/dev/disk/', '')}
          </ListItem>
        ))}
      </List>
      {members.length > MOST && <Content component="p">{t('{{count}} more', { count: members.length - MOST })}</Content>}
    </div>
  );
}

function Facts({ volume: v, deviceClass, state, thin, written, error }: { volume: Volume; deviceClass?: string; state: ReactNode; thin: boolean; written?: number; error?: string }) {
  const { t, m, locale } = useT();
  const details = useSuspensionDetails();
  const rows: [string, ReactNode][] = [
    [t('Node'), <Link key="n" to={nodePath(v.node)}>{v.node}</Link>],
    [t('Device class'), deviceClass ? <Link key="c" to={classPath(deviceClass)}>{deviceClass}</Link> : t('Unknown')],
    [t('Volume group'), state || t('Unknown')],
    [t('Size'), formatBytes(v.size, locale)],
    ...(v.suspension ? ([[t('Suspension'), <><SuspendedVolume suspension={v.suspension} />{details(v.suspension).map((line) => <div key={line}>{line}</div>)}</>]] as [string, ReactNode][]) : []),
    ...(thin ? ([[t('Data written'), written === undefined ? (error ? t('Unknown: Prometheus is unreachable ({{error}})', { error }) : t('Unknown')) : <ShareBar key="w" label={t('Data written')} part={((v.size ?? 0) * written) / 100} whole={v.size} plain />]] as [string, ReactNode][]) : []),
    [t('I/O limits'), limitsOf(v.lv).map(m).map((line) => <div key={line}>{line}</div>)],
    ['PersistentVolume', v.persistentVolume ? <Link key="p" to={persistentVolumePath(v.persistentVolume)}>{v.persistentVolume}</Link> : '–'],
    [t('Logical volume name'), v.lv.metadata.uid ?? '–'],
    ...(v.source ? ([[t('Copy of'), v.source]] as [string, ReactNode][]) : []),
  ];
  return (
    <DescriptionList isCompact columnModifier={{ default: '1Col', lg: '2Col' }}>
      {rows.map(([term, text]) => (
        <DescriptionListGroup key={term}>
          <DescriptionListTerm>{term}</DescriptionListTerm>
          <DescriptionListDescription>{text}</DescriptionListDescription>
        </DescriptionListGroup>
      ))}
    </DescriptionList>
  );
}
