import { Button, Content, Modal, ModalBody, ModalFooter, ModalHeader, Stack } from '@patternfly/react-core';
import { useState } from 'react';
import type { LVMRecovery } from '../api/types';
import { useT } from '../i18n';
import { deleteRecovery, type RecoveryOutcome } from '../kube/recover';
import { Refusal } from './parts';

/** Deletes a recovery, which cancels one that has not ended. */
export function DeleteDialog({ recovery, close, deleted }: { recovery: LVMRecovery; close: () => void; deleted: () => void }) {
  const { t } = useT();
  const [sending, setSending] = useState(false);
  const [outcome, setOutcome] = useState<RecoveryOutcome>();
  const { phase, startTime } = recovery.status ?? {};
  const ended = phase === 'Succeeded';
  const started = phase === 'Running' || startTime !== undefined;
  const press = async () => {
    setSending(true);
    const result = await deleteRecovery(recovery);
    setSending(false);
    // What is gone already needs no second deletion.
    if (result.kind === 'accepted' || (result.kind === 'refused' && result.code === 404)) return deleted();
    return setOutcome(result);
  };
  return (
    <Modal isOpen variant="small" onClose={close} aria-labelledby="delete-title" aria-describedby="delete-body" data-test="dialog">
      <ModalHeader title={ended ? t('Delete recovery?') : t('Cancel recovery?')} labelId="delete-title" titleIconVariant="warning" />
      <ModalBody id="delete-body">
        <Stack hasGutter>
          <Content component="p">
            {ended
              ? t('The recovery has ended. Only its record is deleted, with the list of what was lost.')
              : started
                ? t('The node agent stops. What it has already removed or changed stays so, and the rest is kept.')
                : t('No volume has been changed, and nothing is lost. The recovery is deleted.')}
          </Content>
          <Refusal title={t('The recovery was not deleted')} outcome={outcome} />
        </Stack>
      </ModalBody>
      <ModalFooter>
        <Button variant="danger" isLoading={sending} isDisabled={sending} onClick={() => void press()} data-test="apply">{ended ? t('Delete') : t('Cancel recovery')}</Button>
        <Button variant="link" onClick={close}>{t('Close')}</Button>
      </ModalFooter>
    </Modal>
  );
}
