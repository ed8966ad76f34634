import { Card, CardBody, CardTitle, Content } from '@patternfly/react-core';
import { useMemo } from 'react';
import { Link } from '../router';
import type { Device, NodeStatus } from '../api/types';
import { DeviceName, ReadErrors, Second, ShareBar, StateLabel } from '../components/parts';
import { useT } from '../i18n';
import { useMetrics } from '../kube/prometheus';
import { useLogicalVolumes } from '../kube/watch';
import { contentOf } from '../model/devices';
import { usedOf, type Member } from '../model/members';
import { placesOf, placesQuery, type Places } from '../model/placement';
import { bytesOf, formatBytes } from '../model/quantity';
import { reasonsOf } from '../model/reasons';
import { slotsOf, type Slot } from '../model/slots';
import { limited, volumesBeside } from '../model/suspension';
import { titleOf, volumesOf, type Volume } from '../model/volumes';
import { classPath } from '../paths';

/** The maximum number of disks that are shown. The table of the tab has all of them. */
const MOST = 64;

const tile = { border: '1px solid var(--pf-t--global--border--color--default)', borderRadius: 'var(--pf-t--global--border--radius--small)', padding: '0.75rem', overflowWrap: 'anywhere' } as const;

/** The disks of a node by slot, with what lies on each. */
export function SlotsCard({ status, known }: { status?: NodeStatus; known: boolean }) {
  const { t } = useT();
  const slots = useMemo(() => slotsOf(status), [status]);
  const logicalVolumes = useLogicalVolumes(slots.some((s) => s.member));
  const volumes = useMemo(
    () => (logicalVolumes.loaded && !logicalVolumes.error ? volumesOf(logicalVolumes.data, undefined) : undefined),
    [logicalVolumes.data, logicalVolumes.loaded, logicalVolumes.error],
  );
  const node = status?.metadata.name;
  const metrics = useMetrics(node && slots.some((s) => s.member) ? placesQuery(node) : undefined);
  const places = useMemo(() => placesOf(metrics.samples), [metrics.samples]);
  return (
    <Card data-test="slots">
      <CardTitle component="h2">{t('Disk slots')}</CardTitle>
      <CardBody>
        <ReadErrors reads={[[t('LogicalVolumes'), logicalVolumes]]} />
        {slots.length === 0 && <Content component="p">{known ? t('No node has listed its devices yet.') : t('Unknown')}</Content>}
        <ul style={{ display: 'grid', gap: '1rem', gridTemplateColumns: 'repeat(auto-fill, minmax(min(17rem, 100%), 1fr))', listStyle: 'none', margin: 0, padding: 0 }}>
          {slots.slice(0, MOST).map((s) => (
            <li key={s.device.name} style={tile} data-test={`slot-${s.device.name}`}>
              <Disk slot={s} volumes={volumes} places={places} />
            </li>
          ))}
        </ul>
        {slots.length > MOST && <Content component="p">{t('{{count}} more disks are in the table Local disks.', { count: slots.length - MOST })}</Content>}
      </CardBody>
    </Card>
  );
}

function Disk({ slot: { device, place, member }, volumes, places }: { slot: Slot; volumes?: Volume[]; places?: Places }) {
  const { t, locale } = useT();
  return (
    <>
      <h3>
        <b>{place?.slot ?? t('No slot reported')}</b>
      </h3>
      {place?.controller && <Second text={place.controller} />}
      <div>
        <DeviceName device={device} />
      </div>
      <div>{[[device.vendor, device.model].filter(Boolean).join(' '), device.serial, formatBytes(bytesOf(device.size), locale)].filter(Boolean).join(', ')}</div>
      <div>
        <StateLabel state={member && device.state === 'InUse' && member.pv.state !== 'Ready' ? member.pv.state : device.state} />
      </div>
      {member ? <Data member={member} volumes={volumes} places={places} /> : <Other device={device} />}
    </>
  );
}

/** What a disk of a device class has. */
function Data({ member, volumes, places }: { member: Member; volumes?: Volume[]; places?: Places }) {
  const { t } = useT();
  return (
    <>
      <Link to={classPath(member.group.name)}>{t('Device class {{name}}', { name: member.group.name })}</Link>
      <ShareBar label={t('Usage of {{name}} on {{node}}', { name: member.pv.name ?? member.pv.uuid, node: member.node })} part={usedOf(member)} whole={bytesOf(member.pv.size)} plain />
      {volumes && (places ? <Placed member={member} volumes={volumesBeside(member, volumes)} places={places} /> : <Beside member={member} volumes={volumesBeside(member, volumes)} />)}
    </>
  );
}

/** The volumes on a disk, and those of which the node agent has not said where they are. */
function Placed({ member, volumes, places }: { member: Member; volumes: Volume[]; places: Places }) {
  const { t } = useT();
  const there = places.byDisk.get(member.pv.uuid);
  const here = volumes.filter((v) => there?.has(v.lv.metadata.uid ?? ''));
  const unknown = volumes.filter((v) => !places.known.has(v.lv.metadata.uid ?? ''));
  return (
    <>
      {here.length > 0 && <div>{member.group.thinPool ? t('Volumes of the thin pool, which has data on this disk ({{number}}): {{list}}', listed(here)) : t('Volumes with data on the device ({{number}}): {{list}}', listed(here))}</div>}
      {here.length === 0 && unknown.length === 0 && <div>{t('No volume of a claim has data on this disk.')}</div>}
      {unknown.length > 0 && <div>{t('Volumes whose disks are unknown ({{number}}): {{list}}', listed(unknown))}</div>}
    </>
  );
}

/** The volumes that can be on a disk, if the node agent has not said where they are. */
function Beside({ member, volumes }: { member: Member; volumes: Volume[] }) {
  const { t } = useT();
  const alone = (member.group.physicalVolumes ?? []).length < 2;
  if (volumes.length === 0) return <div>{t('The volume group has no volumes.')}</div>;
  return <div>{alone ? t('Volumes with data on the device ({{number}}): {{list}}', listed(volumes)) : t('Volumes of the volume group, which can have data on this disk ({{number}}): {{list}}', listed(volumes))}</div>;
}

function listed(volumes: Volume[]): { number: number; list: string } {
  const { names, more } = limited(volumes.map(titleOf).sort());
  return { number: volumes.length, list: more ? `${names}, …` : names };
}

/** What is on a disk that no device class has: the reasons of the node agent name it. */
function Other({ device }: { device: Device }) {
  const { t, m } = useT();
  const lines = (device.reasons ?? []).length ? reasonsOf(device).map(m) : [contentOf(device, m) || t('Blank')];
  return <>{lines.map((line) => <div key={line}>{line}</div>)}</>;
}
