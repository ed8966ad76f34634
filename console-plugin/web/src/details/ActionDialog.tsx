// Something is asked for one device, after the cluster was asked what it says to it.
import { Alert, Button, Checkbox, CodeBlock, CodeBlockCode, Content, Form, FormGroup, Modal, ModalBody, ModalFooter, ModalHeader, Radio, Stack } from '@patternfly/react-core';
import { useCallback, useMemo, useState, type ReactNode, useRef } from 'react';
import type { Device, DeviceClass, DeviceRequest, LVMCluster } from '../api/types';
import { useT } from '../i18n';
import { useDryRun } from '../kube/dryrun';
import { sendNewest, type Outcome } from '../kube/submit';
import { useLogicalVolumes, usePersistentVolumes, type Permissions } from '../kube/watch';
import { stablePath } from '../model/devices';
import { changesOf, consequencesOf, elsewhere, pathsTo, requestFor, spares, withClassNamed, withDevice, withoutPaths, withoutRequest, withWish, type Consequence, type Member, type Wish } from '../model/members';
import { msg } from '../model/message';
import { bytesOf, formatBytes } from '../model/quantity';
import { alsoTaken, alsoTakes, modeOf, tick, type Seen } from '../model/selection';
import { consequencesOfResumption, consequencesOfSuspension, requestText, volumesBeside, withSuspension } from '../model/suspension';
import { titleOf, volumesOf } from '../model/volumes';
import { Reason, UserError, useRecord } from '../suspension/Reason';

interface Common {
  cluster: LVMCluster;
  c: DeviceClass;
  members: Member[];
  nodes: Seen[];
  permissions: Permissions;
  close: () => void;
}

type Choice = Wish | 'Replace' | 'Suspend' | 'Resume' | 'Nothing';

/** What can be asked for a device that is in the volume group. */
export function MemberDialog({ cluster, c, member, members, nodes, permissions, close }: Common & { member: Member }) {
  const { t, locale } = useT();
  const [choice, setChoice] = useState<Choice>();
  const [spare, setSpare] = useState<string>();
  const [paths, setPaths] = useState(false);
  const name = member.pv.name ?? member.pv.uuid;
  const seen = nodes.find((s) => s.node.metadata.name === member.node);
  const request = requestFor(c, member);
  const size = (bytes: number) => formatBytes(bytes, locale);
  const ticked = modeOf(c) === 'paths';
  const disks = spares(seen);
  const disk = disks.find((d) => d.name === spare);
  const pathless = withoutPaths(c, member, members, nodes);
  const suspends = choice === 'Suspend' || choice === 'Resume';
  const wish: Wish | undefined = choice === 'Replace' ? 'Remove' : choice === 'Nothing' || suspends ? undefined : choice;
  const beside = useVolumesBeside(member, choice === 'Suspend');
  const base = choice === 'Replace' && disk && seen ? tick(paths && pathless ? pathless : c, seen, disk, nodes, c) : choice === 'Remove' && paths && pathless ? pathless : c;
  const record = useRecord(choice === 'Suspend');
  const suspended = record.text === undefined ? undefined : withSuspension(c, member, true, record.text);
  const next = choice === 'Suspend' ? suspended : choice === 'Resume' ? withSuspension(c, member, false) : choice && !(choice === 'Replace' && !disk) ? withWish(base, member, wish) : undefined;
  const consequences: Consequence[] =
    !choice ? []
    : choice === 'Suspend' ? consequencesOfSuspension(member, beside.volumes, beside.error)
    : choice === 'Resume' ? consequencesOfResumption(request)
    : !wish ? [{ level: 'info', text: msg('The device accepts new data again. A running move is aborted, and the data stays where it was.') }, ...(request?.suspend ? [resumed] : [])]
    : choice === 'Replace' && !disk ? []
    : [
        ...(choice === 'Replace' && disk
          ? [...joining(disk, alsoTaken(c, base, member.node, nodes)), ...consequencesOf(c, withDevice(member, bytesOf(disk.size) ?? 0), wish, size)]
          : consequencesOf(c, member, wish, size)),
        ...(request?.suspend ? [staysSuspended] : []),
      ];
  const missing = member.pv.state === 'Missing';
  const options: [Choice, string, string, boolean][] = [
    ['Cordon', t('Cordon'), t('Places no new data on the device. Existing data stays.'), !missing],
    ['Drain', t('Drain'), t('Moves its data to the other devices of the node. The device stays in the volume group.'), !missing],
    ['Remove', t('Remove'), missing ? t('Removes the device from the volume group.') : t('Drains the device, then removes it from the volume group.'), true],
    ['Replace', t('Replace'), ticked ? t('Adds another disk of the node, then removes this one.') : t('This device class uses unused disks automatically: attach the new disk, wait until it is listed here, then remove this one.'), ticked],
    request?.suspend
      ? ['Resume', t('Resume'), t('New Pods get the volumes on the device again.'), true]
      : ['Suspend', t('Suspend'), missing ? t('LVM cannot suspend a missing device: suspend its volumes.') : t('New Pods do not get volumes that have data on the device. No new data is placed on it.'), !missing],
    ['Nothing', t('Remove request'), request ? t('Requested: {{action}}', { action: requestText(request) }) : '', !!request],
  ];
  return (
    <ChangeDialog
      title={t('{{name}} on node {{node}}', { name, node: member.node })} label={options.find(([o]) => o === choice)?.[1] ?? t('Apply')}
      cluster={cluster} c={c} next={next} consequences={consequences} permissions={permissions} close={close} danger={wish === 'Remove'}
      unchosen={choice === 'Replace' && !disk ? t('Select the replacement disk.') : choice === 'Suspend' ? t('Your user name, which is recorded, is not known, or the reason is too long.') : t('Select an action.')}
    >
      <Form onSubmit={(e) => e.preventDefault()}>
        <FormGroup role="radiogroup" label={t('Action')} isStack>
          {options
            .filter(([value, , , possible]) => possible || value === 'Replace' || value === 'Suspend')
            .map(([value, label, description, possible]) => (
              <Radio key={value} id={`do-${value}`} name="do" label={label} description={description} isChecked={choice === value} isDisabled={!possible} onChange={() => setChoice(value)} />
            ))}
        </FormGroup>
        {choice === 'Suspend' && (
          <>
            <UserError error={record.user.error} />
            <Reason text={record.reason} set={record.setReason} help={t('Recorded with your user name and the time, and shown in the status of the device.')} />
          </>
        )}
        {choice === 'Replace' && <Spares disks={disks} node={member.node} chosen={spare} choose={setSpare} />}
        {wish === 'Remove' && pathless && (
          <Checkbox
            id="paths" isChecked={paths} onChange={(_, on) => setPaths(on)} label={t('Also remove its path from the device class')}
            description={t('Otherwise the path stays, and the device class uses the device again when the request is removed.')}
          />
        )}
        {wish === 'Remove' && !pathless && <Elsewhere paths={pathsTo(c, member, seen)} member={member} members={members} nodes={nodes} />}
      </Form>
    </ChangeDialog>
  );
}

const resumed: Consequence = { level: 'info', text: msg('New Pods get the volumes on the device again, except those that were suspended themselves.') };
const staysSuspended: Consequence = { level: 'info', text: msg('The device stays suspended.') };

/** The volumes of the volume group of a member; undefined while they are not known. */
function useVolumesBeside(member: Member, enabled: boolean): { volumes?: string[]; error?: string } {
  const logicalVolumes = useLogicalVolumes(enabled);
  const persistentVolumes = usePersistentVolumes(enabled);
  return useMemo(() => {
    if (!enabled || logicalVolumes.error) return { error: logicalVolumes.error };
    if (!logicalVolumes.loaded || !(persistentVolumes.loaded || persistentVolumes.error)) return {};
    return { volumes: volumesBeside(member, volumesOf(logicalVolumes.data, persistentVolumes.error ? undefined : persistentVolumes.data)).map(titleOf).sort() };
  }, [member, enabled, logicalVolumes, persistentVolumes]);
}

/** What becomes of the disk that takes the place of another one. */
function joining(disk: Device, others: string[]): Consequence[] {
  return [
    ...(others.length ? [{ level: 'danger' as const, text: alsoTakes(stablePath(disk), others) }] : []),
    { level: 'info', text: msg('{{name}} is added to the volume group first.', { name: disk.name }) },
  ];
}

/** Why the path stays. */
function Elsewhere({ paths, member, members, nodes }: { paths: string[]; member: Member; members: Member[]; nodes: Seen[] }) {
  const { t } = useT();
  const others = elsewhere(paths, member, members, nodes);
  if (others.length === 0) return null;
  return <Content component="small">{t('The path stays in the device class, because it also matches devices of other nodes: {{nodes}}.', { nodes: others.map((o) => o.node).slice(0, 5).join(', ') })}</Content>;
}

function Spares({ disks, node, chosen, choose }: { disks: Device[]; node: string; chosen?: string; choose: (name: string) => void }) {
  const { t, locale } = useT();
  if (disks.length === 0)
    return <Alert isInline isPlain variant="warning" data-test="no-spare" title={t('Node {{node}} has no blank disk: attach one. To add a disk that contains data, use the form and confirm the wipe.', { node })} />;
  return (
    <FormGroup role="radiogroup" label={t('Replacement disk')} isStack>
      {disks.slice(0, 20).map((d) => (
        <Radio
          key={d.name} id={`spare-${d.name}`} name="spare" isChecked={chosen === d.name} onChange={() => choose(d.name)}
          label={`${d.name}, ${formatBytes(bytesOf(d.size), locale)}`} description={[stablePath(d), d.model, d.serial].filter(Boolean).join(', ')}
        />
      ))}
      {disks.length > 20 && <Content component="small">{t('The first {{count}} of {{all}} disks. The form lists all of them.', { count: 20, all: disks.length })}</Content>}
    </FormGroup>
  );
}

/** A request is taken out whose device has left the volume group. */
export function DoneDialog({ cluster, c, request, nodes, permissions, close }: Common & { request: DeviceRequest }) {
  const { t } = useT();
  const seen = nodes.find((s) => s.node.metadata.name === request.node);
  const device = seen?.lookup(request.device);
  const named = device !== undefined && pathsTo(c, { node: request.node, group: { name: c.name }, pv: { uuid: '', state: 'Ready' }, device }, seen).length > 0;
  const text =
    modeOf(c) !== 'paths' || named || !device
      ? msg('If the device is still attached to node {{node}} and the device class selects it, by path or by properties, it is used again.', { node: request.node })
      : msg('No path of the device class matches the device, so it is not used again.');
  return (
    <ChangeDialog
      title={t('Request for {{device}} on node {{node}}', { device: request.device, node: request.node })} label={t('Remove request')} cluster={cluster} c={c} next={withoutRequest(c, request)}
      consequences={[{ level: modeOf(c) !== 'paths' || named || !device ? 'warning' : 'info', text }]} permissions={permissions} close={close} unchosen=""
    />
  );
}

interface ChangeProps {
  title: string;
  /** What the button says. */
  label: string;
  cluster: LVMCluster;
  c: DeviceClass;
  /** The device class as it would be; none while something has to be chosen. */
  next?: DeviceClass;
  consequences: Consequence[];
  permissions: Permissions;
  danger?: boolean;
  /** Why nothing can be done yet. */
  unchosen: string;
  close: () => void;
  children?: ReactNode;
}

/** A change of one device class: what it leads to, what is written, what the cluster says, and then the button. */
function ChangeDialog({ title, label, cluster, c, next, consequences, permissions, danger, unchosen, close, children }: ChangeProps) {
  const { t, m } = useT();
  const [server, setServer] = useState<Outcome>();
  const [sending, setSending] = useState(false);
  const [why, setWhy] = useState<string>();
  // The change is made on the newest object: nobody else's is lost.
  const outgoing = next && withClassNamed(cluster, c.name, () => next);
  const latest = useRef(outgoing);
  latest.current = outgoing;
  const settle = useCallback((outcome: Outcome) => setServer(outcome), []);
  const { asking, again } = useDryRun(outgoing, settle);
  const press = async () => {
    if (!outgoing) return setWhy(unchosen);
    if (permissions.loaded && !permissions.update) return setWhy(t('You lack permission to update lvmclusters.lvm.topolvm.io in {{namespace}}.', { namespace: cluster.metadata.namespace ?? '' }));
    if (asking) return setWhy(t('Dry run in progress …'));
    if (server?.kind === 'refused') return setWhy(server.message);
    setSending(true);
    setWhy(undefined);
    const outcome = await sendNewest(() => latest.current, { dryRun: false });
    setSending(false);
    if (outcome.kind === 'accepted') close();
    else setWhy(outcome.kind === 'unknown' ? t('The cluster did not respond, so it is unknown whether the change was saved: {{error}}', { error: outcome.message }) : outcome.message);
    return undefined;
  };
  return (
    <Modal isOpen variant="medium" onClose={close} aria-labelledby="change-title" aria-describedby="change-body" data-test="dialog">
      <ModalHeader title={title} labelId="change-title" />
      <ModalBody id="change-body">
        <Stack hasGutter>
          {children}
          {consequences.length > 0 && (
            <div data-test="consequences" aria-live="polite">
              {consequences.map((x) => (
                <Alert key={x.text.key} isInline isPlain variant={x.level} title={m(x.text)} />
              ))}
            </div>
          )}
          {next && (
            <>
              <Content component="small">{t('Changes to device class {{name}}:', { name: c.name })}</Content>
              <CodeBlock data-test="written">
                <CodeBlockCode>{changesOf(c, next).join('\n')}</CodeBlockCode>
              </CodeBlock>
              <Answer asking={asking} server={server} again={again} />
            </>
          )}
          {why && <Alert isInline variant="danger" title={t('The change cannot be applied')} data-test="why-not">{why}</Alert>}
        </Stack>
      </ModalBody>
      <ModalFooter>
        <Button variant={danger ? 'danger' : 'primary'} isLoading={sending} isDisabled={sending} onClick={() => void press()} data-test="apply">
          {label}
        </Button>
        <Button variant="link" onClick={close}>
          {t('Cancel')}
        </Button>
      </ModalFooter>
    </Modal>
  );
}

function Answer({ asking, server, again }: { asking: boolean; server?: Outcome; again: () => void }) {
  const { t } = useT();
  const warnings = !asking && server && server.kind !== 'unknown' ? server.warnings : [];
  return (
    <div aria-live="polite" data-test="dry-run" data-state={asking || !server ? 'asking' : server.kind}>
      {(asking || !server) && <Content component="p">{t('Dry run in progress …')}</Content>}
      {!asking && server?.kind === 'accepted' && <Alert isInline variant="success" title={t('Dry run succeeded')}>{t('No changes have been made yet.')}</Alert>}
      {!asking && server && server.kind !== 'accepted' && (
        <Alert
          isInline variant={server.kind === 'refused' ? 'danger' : 'warning'} title={server.kind === 'refused' ? t('Dry run failed') : t('Dry run not completed')}
          actionLinks={<Button variant="link" isInline onClick={again}>{t('Retry')}</Button>}
        >
          {server.message}
        </Alert>
      )}
      {warnings.length > 0 && (
        <Alert isInline variant="warning" title={t('Warnings')} data-test="warnings">
          {warnings.map((w) => (
            <div key={w}>{w}</div>
          ))}
        </Alert>
      )}
    </div>
  );
}
