// Suspends a volume as it is shown, or resumes it, after what that leads to was shown.
import { Alert, Button, Content, Form, Modal, ModalBody, ModalFooter, ModalHeader, Stack } from '@patternfly/react-core';
import { useState } from 'react';
import { useT } from '../i18n';
import { usePods } from '../kube/pods';
import { writeSuspension, type SuspensionOutcome } from '../kube/suspend';
import { useUser } from '../kube/user';
import { formatBytes } from '../model/quantity';
import { consequencesForVolume, limited, suspendedBy } from '../model/suspension';
import type { Volume } from '../model/volumes';
import { Refusal } from '../recovery/parts';
import { isTooLong, Reason, UserError } from './Reason';
import { useSuspensionDetails } from './SuspendedLabel';
import { canBeResumed, type Chosen } from './VolumeAction';

interface Props {
  /** The volume when the dialog was opened. */
  opened: Chosen;
  /** The volume as it is; undefined if it was deleted. */
  now?: Volume;
  close: () => void;
}

export function VolumeDialog({ opened: { volume: before, suspend }, now, close }: Props) {
  const { t, m, locale } = useT();
  const [reason, setReason] = useState('');
  const [sending, setSending] = useState(false);
  const [outcome, setOutcome] = useState<SuspensionOutcome>();
  const user = useUser(suspend);
  const volume = now ?? before;
  const name = volume.claim ?? volume.name;
  // While it is sent, the change shows in the volume before the answer does.
  const stale = !sending && (!now || canBeResumed(now) === suspend);
  const tooLong = isTooLong(reason);
  const press = async () => {
    setOutcome(undefined);
    setSending(true);
    const result = await writeSuspension(volume.lv, suspend ? suspendedBy(user.name ?? '', new Date(), reason) : undefined);
    setSending(false);
    if (result.kind === 'accepted') close();
    else setOutcome(result);
  };
  return (
    <Modal isOpen variant="medium" onClose={close} aria-labelledby="suspend-title" aria-describedby="suspend-body" data-test="dialog">
      <ModalHeader
        title={suspend ? t('Suspend volume {{name}}', { name }) : t('Resume volume {{name}}', { name })} labelId="suspend-title"
        description={t('{{size}} on node {{node}}', { size: formatBytes(volume.size, locale), node: volume.node })}
      />
      <ModalBody id="suspend-body">
        <Stack hasGutter>
          {stale && <Stale volume={now} suspend={suspend} />}
          <UserError error={user.error} />
          <div data-test="consequences">
            {consequencesForVolume(suspend, volume.suspension).map((x) => (
              <Alert key={x.text.key} isInline isPlain variant={x.level} title={m(x.text)} />
            ))}
          </div>
          {suspend ? <Pods volume={volume} /> : <Suspended volume={volume} />}
          {suspend && (
            <Form onSubmit={(e) => e.preventDefault()}>
              <Reason text={reason} set={setReason} help={user.name ? t('Recorded with your user name {{user}} and the time. The events of pending Pods show it.', { user: user.name }) : t('The events of pending Pods show it.')} />
            </Form>
          )}
          <Failure suspend={suspend} outcome={outcome} />
        </Stack>
      </ModalBody>
      <ModalFooter>
        <Button variant="primary" isLoading={sending} isDisabled={sending || stale || tooLong || (suspend && !user.name)} onClick={() => void press()} data-test="apply">
          {suspend ? t('Suspend') : t('Resume')}
        </Button>
        <Button variant="link" onClick={close}>{t('Close')}</Button>
      </ModalFooter>
    </Modal>
  );
}

/** Says that the volume is no longer as it was when the dialog was opened. */
function Stale({ volume, suspend }: { volume?: Volume; suspend: boolean }) {
  const { t } = useT();
  const details = useSuspensionDetails();
  const title = !volume ? t('The volume was deleted in the meantime.') : suspend ? t('The volume was suspended in the meantime.') : t('The volume was resumed in the meantime.');
  return (
    <Alert isInline variant="warning" title={title} data-test="obstacle">
      {(volume?.suspension ? details(volume.suspension) : []).map((line) => <div key={line}>{line}</div>)}
    </Alert>
  );
}

/** Who suspended the volume. */
function Suspended({ volume }: { volume: Volume }) {
  const details = useSuspensionDetails();
  return <Content component="p" data-test="suspension">{(volume.suspension ? details(volume.suspension) : []).map((line) => <span key={line} style={{ display: 'block' }}>{line}</span>)}</Content>;
}

/** The Pods that keep the volume. */
function Pods({ volume }: { volume: Volume }) {
  const { t } = useT();
  const { names, error } = usePods(volume.namespace, volume.claim);
  const list = limited(names ?? []);
  return (
    <Content component="p" data-test="pods" aria-live="polite">
      {error !== undefined ? t('The Pods that use the claim could not be read: {{error}}', { error })
        : !names ? t('Loading')
        : names.length === 0 ? t('No Pod uses the claim.')
        : t('Pods that use the claim: {{pods}}', { pods: list.names }) + (list.more ? t(' and {{count}} more', { count: list.more }) : '')}
    </Content>
  );
}

function Failure({ suspend, outcome }: { suspend: boolean; outcome?: SuspensionOutcome }) {
  const { t } = useT();
  if (!outcome || outcome.kind === 'accepted') return null;
  const title = suspend ? t('The volume was not suspended') : t('The volume was not resumed');
  if (outcome.kind !== 'stale') return <Refusal title={title} outcome={outcome} />;
  return (
    <Alert isInline variant="danger" title={title} data-test="why-not">
      {outcome.standing === 'deleted' ? t('The volume was deleted in the meantime.') : t('Another user changed its suspension in the meantime. The page shows the change in a moment.')}
    </Alert>
  );
}
