import { Button, Content, Modal, ModalBody, ModalFooter, ModalHeader, Stack } from '@patternfly/react-core';
import { useState } from 'react';
import type { DeviceApproval } from '../api/types';
import { useT } from '../i18n';
import { revoke } from '../kube/approve';
import { effectOfRevocation, type ApprovalState } from '../model/approval';
import { Refusal } from '../recovery/parts';

interface Props {
  approval: DeviceApproval;
  state: ApprovalState;
  /** The device class requires approvals. If it does not, none has an effect. */
  required: boolean;
  close: () => void;
}

/** Deletes an approval. */
export function RevokeDialog({ approval, state, required, close }: Props) {
  const { t, m } = useT();
  const [sending, setSending] = useState(false);
  const [outcome, setOutcome] = useState<Awaited<ReturnType<typeof revoke>>>();
  const { device, nodeName, deviceClassName } = approval.spec;
  const press = async () => {
    setSending(true);
    const result = await revoke(approval);
    setSending(false);
    if (result.kind === 'accepted') close();
    else setOutcome(result);
  };
  return (
    <Modal isOpen variant="small" onClose={close} aria-labelledby="revoke-title" aria-describedby="revoke-body" data-test="dialog">
      <ModalHeader title={t('Revoke approval?')} labelId="revoke-title" titleIconVariant="warning" description={t('{{device}} on node {{node}}, device class {{name}}', { device, node: nodeName, name: deviceClassName })} />
      <ModalBody id="revoke-body">
        <Stack hasGutter>
          <Content component="p" data-test="effect">
            {required || state === 'used' ? m(effectOfRevocation[state]) : t('The device class requires no approvals at present, so nothing changes before it does.')}
          </Content>
          <Refusal title={t('The approval was not revoked')} outcome={outcome?.kind === 'accepted' ? undefined : outcome} />
        </Stack>
      </ModalBody>
      <ModalFooter>
        <Button variant="danger" isLoading={sending} isDisabled={sending} onClick={() => void press()} data-test="apply">{t('Revoke')}</Button>
        <Button variant="link" onClick={close}>{t('Close')}</Button>
      </ModalFooter>
    </Modal>
  );
}
