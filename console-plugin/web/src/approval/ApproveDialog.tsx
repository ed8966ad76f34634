// Approves devices as they are shown, and no device that has changed since.
import { Alert, Button, Checkbox, Content, Modal, ModalBody, ModalFooter, ModalHeader, Stack } from '@patternfly/react-core';
import { useEffect, useRef, useState } from 'react';
import { DeviceName, Second } from '../components/parts';
import { VirtualTable } from '../components/VirtualTable';
import { useT } from '../i18n';
import { approveDevice, type ApprovalOutcome } from '../kube/approve';
import { useUser } from '../kube/user';
import type { NodeStatus } from '../api/types';
import { consequencesOfApproval, destroys, keyOf, namesIn, standingOf, waitingOf, type Effect, type Standing, type Waiting } from '../model/approval';
import { bytesOf, formatBytes } from '../model/quantity';
import { Found, modelOf } from './WaitingTable';

interface Props {
  namespace: string;
  /** The devices when the dialog was opened. */
  opened: Waiting[];
  /** What the nodes list now. */
  statuses: NodeStatus[];
  effect: (w: Waiting) => Effect;
  close: () => void;
}

type Failed = { waiting: Waiting; outcome: Exclude<ApprovalOutcome, { kind: 'accepted' }> };

export function ApproveDialog({ namespace, opened, statuses, effect, close }: Props) {
  const { t, m } = useT();
  const [shown, setShown] = useState(opened);
  const [accepted, setAccepted] = useState(false);
  const [sending, setSending] = useState(false);
  const [unconfirmed, setUnconfirmed] = useState(false);
  const [failed, setFailed] = useState<Failed[]>([]);
  const [approved, setApproved] = useState(0);
  const user = useUser();
  const ended = useRef(false);
  useEffect(() => {
    ended.current = false;
    return () => {
      ended.current = true;
    };
  }, []);
  const stale = sending ? [] : shown.filter((w) => standingOf(w, statuses) !== 'waits');
  const losing = destroys(shown, effect);
  const showNew = () => {
    const wanted = new Set(shown.map(keyOf));
    setShown(waitingOf(statuses).filter((w) => wanted.has(keyOf(w)) && w.device.fingerprint));
    setAccepted(false);
    setUnconfirmed(false);
    setFailed([]);
  };
  const press = async () => {
    setUnconfirmed(losing && !accepted);
    if ((losing && !accepted) || !user.name) return;
    setFailed([]);
    setSending(true);
    const failures: Failed[] = [];
    let left = shown;
    for (const waiting of shown) {
      // Who closes the dialog stops it. If the cluster does not respond, the rest would fail, too.
      if (ended.current || failures.some((f) => f.outcome.kind === 'unknown')) break;
      const outcome = await approveDevice(waiting, namespace, user.name);
      if (outcome.kind !== 'accepted') failures.push({ waiting, outcome });
      else left = left.filter((w) => w !== waiting);
    }
    if (ended.current) return;
    setSending(false);
    if (left.length === 0) return close();
    setApproved((n) => n + shown.length - left.length);
    setFailed(failures);
    setShown(left);
  };
  return (
    <Modal isOpen variant="medium" onClose={close} aria-labelledby="approve-title" aria-describedby="approve-body" data-test="dialog">
      <ModalHeader title={t('Approve {{count}} devices', { count: shown.length })} labelId="approve-title" description={user.name && t('You approve as {{user}}.', { user: user.name })} />
      <ModalBody id="approve-body">
        <Stack hasGutter>
          {user.error && <Alert isInline variant="danger" title={t('Your user name, which an approval must have, could not be read')} data-test="no-user">{user.error}</Alert>}
          {approved > 0 && <Alert isInline variant="success" title={t('{{count}} devices were approved.', { count: approved })} data-test="approved" />}
          {stale.length > 0 && <Stale list={stale} statuses={statuses} showNew={showNew} />}
          <div data-test="consequences">
            {consequencesOfApproval(shown, effect).map((x) => (
              <Alert key={x.text.key} isInline isPlain variant={x.level} title={m(x.text)} />
            ))}
          </div>
          <Devices list={shown} />
          {losing && stale.length === 0 && (
            <Checkbox id="accept-loss" isChecked={accepted} data-test="accept-loss" label={t('I understand that the content of these devices is destroyed.')} onChange={(_, on) => setAccepted(on)} />
          )}
          {unconfirmed && !accepted && <Alert isInline variant="danger" title={t('Confirm that the content is destroyed.')} data-test="unconfirmed" />}
          <Failures list={failed} />
        </Stack>
      </ModalBody>
      <ModalFooter>
        <Button variant={losing ? 'danger' : 'primary'} isLoading={sending} isDisabled={sending || stale.length > 0 || shown.length === 0 || !user.name} onClick={() => void press()} data-test="apply">{t('Approve')}</Button>
        <Button variant="link" onClick={close}>{t('Close')}</Button>
      </ModalFooter>
    </Modal>
  );
}

/** Why a device that is shown is not approved. */
function useStandings(): Record<Exclude<Standing, 'waits'>, string> {
  const { t } = useT();
  return {
    changed: t('The device has changed in the meantime (ChangedSinceReview). It was not approved.'), gone: t('The node no longer lists the device. It was not approved.'),
    settled: t('The device no longer awaits approval.'),
  };
}

function Stale({ list, statuses, showNew }: { list: Waiting[]; statuses: NodeStatus[]; showNew: () => void }) {
  const { t } = useT();
  const standings = useStandings();
  return (
    <Alert
      isInline variant="warning" title={t('{{count}} devices have changed', { count: list.length })} data-test="obstacle"
      actionLinks={<Button variant="link" isInline onClick={showNew} data-test="show-new">{t('Show current devices')}</Button>}
    >
      {list.slice(0, 5).map((w) => (
        <div key={keyOf(w)}>{t('{{label}}: {{value}}', { label: namesIn([w]), value: standings[standingOf(w, statuses) as Exclude<Standing, 'waits'>] })}</div>
      ))}
    </Alert>
  );
}

function Failures({ list }: { list: Failed[] }) {
  const { t } = useT();
  const standings = useStandings();
  if (list.length === 0) return null;
  const why = (o: Failed['outcome']): string =>
    o.kind === 'stale' ? standings[o.standing]
    : o.kind === 'taken' ? t('LVMDeviceApproval {{name}} already exists, and is for another device: delete it, and approve the device again.', { name: o.name })
    : o.kind === 'unknown' ? t('The cluster did not respond, so it is unknown whether the change was saved: {{error}}', { error: o.message })
    : o.message;
  return (
    <Alert isInline variant="danger" title={t('{{count}} devices were not approved', { count: list.length })} data-test="why-not">
      {list.slice(0, 5).map((f) => (
        <div key={keyOf(f.waiting)}>{t('{{label}}: {{value}}', { label: namesIn([f.waiting]), value: why(f.outcome) })}</div>
      ))}
    </Alert>
  );
}

/** What is approved, whole. */
function Devices({ list }: { list: Waiting[] }) {
  const { t, locale } = useT();
  return (
    <VirtualTable
      label={t('Devices to approve')} rows={list} rowKey={keyOf} rowHeight={84} maxHeight={340} empty={t('No device awaits approval.')}
      columns={[
        { key: 'node', title: t('Node'), width: 6.5 }, { key: 'device', title: t('Device'), width: 13 }, { key: 'size', title: t('Size'), width: 5.5 }, { key: 'content', title: t('Content'), lines: 3 },
        { key: 'fingerprint', title: t('Fingerprint'), width: 11.5, lines: 3 },
      ]}
      cells={(w) => [
        <span key="n">{w.node}<Second text={w.deviceClass} /></span>,
        <span key="d"><DeviceName device={w.device} /><Second text={modelOf(w.device) || '–'} /></span>,
        formatBytes(bytesOf(w.device.size), locale), <Found key="c" waiting={w} />, <Content key="f" component="small"><code>{w.device.fingerprint}</code></Content>,
      ]}
    />
  );
}
