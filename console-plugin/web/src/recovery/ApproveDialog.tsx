// Approves one plan: the one that is shown, and no newer one.
import { Alert, Button, Checkbox, Content, Modal, ModalBody, ModalFooter, ModalHeader, Stack } from '@patternfly/react-core';
import { useState } from 'react';
import type { LVMRecovery, RecoveryPlan } from '../api/types';
import { VirtualTable } from '../components/VirtualTable';
import { useT } from '../i18n';
import { approveRecovery, type RecoveryOutcome } from '../kube/recover';
import { formatBytes } from '../model/quantity';
import { lossesOf, losesData, obstacleOf, unlisted, type Loss } from '../model/recovery';
import { ClaimLink, Refusal } from './parts';

interface Props {
  /** The recovery when the dialog was opened, with the plan that is shown. */
  opened: LVMRecovery;
  /** The recovery as it is now. */
  recovery?: LVMRecovery;
  close: () => void;
}

/** The API server gives no reason if the plan is another one than the patch is for. */
const isOutdated = (outcome: RecoveryOutcome): outcome is RecoveryOutcome & { kind: 'refused' } => outcome.kind === 'refused' && outcome.code === 422 && outcome.causes.length === 0;

export function ApproveDialog({ opened, recovery, close }: Props) {
  const { t } = useT();
  const [shown, setShown] = useState<RecoveryPlan | undefined>(opened.status?.plan);
  const [accepted, setAccepted] = useState(false);
  const [sending, setSending] = useState(false);
  const [why, setWhy] = useState<string>();
  const [outcome, setOutcome] = useState<RecoveryOutcome>();
  if (!shown) return null;
  const obstacle = obstacleOf(shown, opened.metadata.uid, recovery);
  const losing = losesData(shown);
  const showNew = () => {
    setShown(recovery?.status?.plan);
    setAccepted(false);
    setWhy(undefined);
    setOutcome(undefined);
  };
  const press = async () => {
    if (losing && !accepted) return setWhy(t('Confirm that the data is lost.'));
    setWhy(undefined);
    setOutcome(undefined);
    setSending(true);
    const result = await approveRecovery(opened, shown);
    setSending(false);
    if (result.kind === 'accepted') close();
    else setOutcome(isOutdated(result) ? { ...result, message: t('The recovery no longer has plan {{id}}.', { id: shown.id }) } : result);
    return undefined;
  };
  return (
    <Modal isOpen variant="medium" onClose={close} aria-labelledby="approve-title" aria-describedby="approve-body" data-test="dialog">
      <ModalHeader title={t('Approve plan {{id}}', { id: shown.id })} labelId="approve-title" description={t('{{action}}, device class {{name}} on node {{node}}', { action: opened.spec.action, name: opened.spec.deviceClassName, node: opened.spec.nodeName })} />
      <ModalBody id="approve-body">
        <Stack hasGutter>
          {obstacle && <Obstacle obstacle={obstacle} showNew={showNew} />}
          {losing ? <Losses plan={shown} /> : <Alert isInline variant="info" data-test="no-loss" title={t('No volume is lost.')} />}
          {opened.spec.action === 'CheckFileSystems' && <Alert isInline variant="warning" title={t('A repair can remove damaged files. If you need them, copy the volumes first.')} />}
          <Content component="p">{t('The approval is for this plan only: if more would be lost, the node agent stops and creates a new plan.')}</Content>
          {losing && !obstacle && (
            <Checkbox
              id="accept-loss" isChecked={accepted} data-test="accept-loss" label={t('I understand that the listed data is lost, and that I can restore it only from a backup.')}
              onChange={(_, on) => {
                setAccepted(on);
                setWhy(undefined);
              }}
            />
          )}
          {why && <Alert isInline variant="danger" title={why} data-test="unconfirmed" />}
          <Refusal title={t('The plan was not approved')} outcome={outcome} />
        </Stack>
      </ModalBody>
      <ModalFooter>
        <Button variant={losing ? 'danger' : 'primary'} isLoading={sending} isDisabled={sending || obstacle !== undefined} onClick={() => void press()} data-test="apply">{t('Approve')}</Button>
        <Button variant="link" onClick={close}>{t('Close')}</Button>
      </ModalFooter>
    </Modal>
  );
}

function Obstacle({ obstacle, showNew }: { obstacle: 'gone' | 'changed' | 'approved' | 'ended'; showNew: () => void }) {
  const { t } = useT();
  const texts = {
    gone: t('The recovery was deleted in the meantime.'), changed: t('The plan has changed in the meantime. Nothing was approved.'),
    approved: t('This plan is already approved.'), ended: t('The recovery no longer awaits approval.'),
  };
  return (
    <Alert
      isInline variant={obstacle === 'approved' ? 'info' : 'warning'} title={texts[obstacle]} data-test="obstacle"
      actionLinks={obstacle === 'changed' ? <Button variant="link" isInline onClick={showNew} data-test="show-new">{t('Show the new plan')}</Button> : undefined}
    />
  );
}

function Losses({ plan }: { plan: RecoveryPlan }) {
  const { t, locale } = useT();
  const losses = lossesOf(plan);
  const more = unlisted(plan);
  const damaged = plan.damagedVolumes?.length ?? 0;
  const text = (l: Loss) => (l.kind === 'lost' ? t('All data') : formatBytes(l.lostBytes, locale));
  return (
    <>
      <Alert isInline variant="danger" data-test="loss" title={plan.lostVolumeCount ? t('{{count}} volumes are lost.', { count: plan.lostVolumeCount }) : t('{{count}} volumes lose data.', { count: damaged })}>
        {plan.lostVolumeCount > 0 && damaged > 0 && <Content component="p">{t('{{count}} more volumes lose some of their data.', { count: damaged })}</Content>}
        {more > 0 && <Content component="p">{t('{{count}} of the lost volumes are not listed, because the plan would be too long.', { count: more })}</Content>}
      </Alert>
      <VirtualTable
        label={t('Lost data')} rows={losses} maxHeight={300} rowHeight={48} rowKey={(l) => `${l.kind} ${l.volumes[0]}`} empty={t('Unknown')}
        columns={[{ key: 'claim', title: t('Claim'), lines: 2 }, { key: 'volumes', title: t('Logical volumes'), width: 20, lines: 2 }, { key: 'size', title: t('Size'), width: 6 }, { key: 'lost', title: t('Lost data'), width: 8 }]}
        cells={(l) => [<ClaimLink key="c" claim={l.claim && `${l.claim.namespace}/${l.claim.name}`} />, l.volumes.join(', '), formatBytes(l.size, locale), text(l)]}
      />
    </>
  );
}
