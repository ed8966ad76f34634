// Moves the volume of a claim to another node.
import { Alert, Button, Content, Form, FormGroup, FormHelperText, FormSelect, FormSelectOption, HelperText, HelperTextItem, Modal, ModalBody, ModalFooter, ModalHeader, Stack, TextInput } from '@patternfly/react-core';
import { useState } from 'react';
import type { VolumeMove } from '../api/types';
import { ReadErrors } from '../components/parts';
import { useT } from '../i18n';
import { createMove, type CreateOutcome } from '../kube/moves';
import { useNodeStatuses } from '../kube/watch';
import { DEFAULT_RATE, thickPause } from '../model/evacuation';
import { emptyMove, formatDuration, newMove, problemOf, targetsOf, type MoveDraft } from '../model/moves';
import { bytesOf, formatBytes } from '../model/quantity';
import { titleOf, type Volume } from '../model/volumes';
import { Refusal } from '../recovery/parts';

interface Props {
  namespace: string;
  volume: Volume;
  deviceClass?: string;
  /** Whether it is copied only while no Pod uses it. */
  thick: boolean;
  /** The open move of the claim, if somebody has created one meanwhile. */
  running?: VolumeMove;
  close: () => void;
}

export function MoveDialog({ namespace, volume, deviceClass, thick, running, close }: Props) {
  const { t, m, locale } = useT();
  const statuses = useNodeStatuses(namespace);
  const [draft, setDraft] = useState(emptyMove);
  const [why, setWhy] = useState<string>();
  const [sending, setSending] = useState(false);
  const [outcome, setOutcome] = useState<CreateOutcome>();
  const claim = titleOf(volume);
  const targets = targetsOf(statuses.data, deviceClass, volume.node, thick);
  const target = targets.find((o) => o.node === draft.node);
  const small = target?.free !== undefined && volume.size !== undefined && target.free < volume.size;
  const change = (next: Partial<typeof emptyMove>) => {
    setWhy(undefined);
    setDraft({ ...draft, ...next });
  };
  const press = async () => {
    const { maxPause, ...others } = draft;
    const asked: MoveDraft = thick ? others : { ...others, maxPause };
    const problem = problemOf(asked);
    if (problem) return setWhy(m(problem));
    setOutcome(undefined);
    setSending(true);
    const result = await createMove(newMove(namespace, claim, asked));
    setSending(false);
    if (result.kind === 'accepted') return close();
    return setOutcome(result);
  };
  // While it is sent, the new move is seen before the answer.
  const obstacle = !sending && running;
  return (
    <Modal isOpen variant="medium" onClose={close} aria-labelledby="move-title" aria-describedby="move-body" data-test="dialog">
      <ModalHeader title={t('Move volume {{name}}', { name: claim })} labelId="move-title" description={t('{{size}} on node {{node}}', { size: formatBytes(volume.size, locale), node: volume.node })} />
      <ModalBody id="move-body">
        <Stack hasGutter>
          {obstacle && <Alert isInline variant="warning" data-test="obstacle" title={t('VolumeMove {{name}} already moves this volume.', { name: obstacle.metadata.name ?? '' })} />}
          <ReadErrors reads={[[t('Node statuses'), statuses]]} />
          <Content component="p" data-test="effect">
            <Effect node={draft.node} thick={thick ? (bytesOf(volume.lv.spec.size) ?? 0) : undefined} />
          </Content>
          <Form onSubmit={(e) => e.preventDefault()}>
            <FormGroup label={t('To node')} fieldId="move-node">
              <FormSelect id="move-node" value={draft.node} onChange={(_, node) => change({ node })} aria-describedby="move-node-help">
                <FormSelectOption value="" label={t('Any node')} />
                {targets.map(({ node, free }) => <FormSelectOption key={node} value={node} label={free === undefined ? node : t('{{node}} ({{size}} free)', { node, size: formatBytes(free, locale) })} />)}
              </FormSelect>
              <Help id="move-node-help" text={t('For any node, the operator selects the node with the most free capacity that the StorageClass and the spread group of the claim allow.')} />
            </FormGroup>
            {small && <Alert isInline isPlain variant="warning" data-test="small" title={t('Node {{node}} has less free capacity than the volume needs. The move stays pending until there is enough.', { node: draft.node })} />}
            {!thick && (
              <FormGroup label={t('Maximum pause')} fieldId="move-pause" isRequired>
                <TextInput id="move-pause" value={draft.maxPause} onChange={(_, maxPause) => change({ maxPause })} aria-describedby="move-pause-help" />
                <Help id="move-pause-help" text={t('The changes are copied again before the switch, until a copy takes less than this time. Pods may have to wait for the volume this long.')} />
              </FormGroup>
            )}
            <FormGroup label={t('Keep old logical volume')} fieldId="move-keep" isRequired>
              <TextInput id="move-keep" value={draft.keepSource} onChange={(_, keepSource) => change({ keepSource })} aria-describedby="move-keep-help" />
              <Help id="move-keep-help" text={t('How long the old logical volume is kept after the switch. It takes up space on the old node until then.')} />
            </FormGroup>
          </Form>
          {why && <Alert isInline variant="danger" title={why} data-test="why-not" />}
          <Refusal title={t('The move could not be created')} outcome={outcome} />
        </Stack>
      </ModalBody>
      <ModalFooter>
        <Button variant="primary" isLoading={sending} isDisabled={sending || !!obstacle} onClick={() => void press()} data-test="apply">{t('Move volume')}</Button>
        <Button variant="link" onClick={close}>{t('Cancel')}</Button>
      </ModalFooter>
    </Modal>
  );
}

/** What the move does; with the size of a thick volume, also how long its Pods cannot start. */
function Effect({ node, thick }: { node: string; thick?: number }) {
  const { t, locale } = useT();
  if (thick === undefined)
    return node
      ? t('The volume is copied to node {{node}} while Pods use it, and switched when no Pod does. Until then, you can undo the move.', { node })
      : t('The volume is copied to another node while Pods use it, and switched when no Pod does. Until then, you can undo the move.');
  const rate = bytesOf(DEFAULT_RATE) ?? 1;
  const values = { duration: formatDuration(thickPause(thick, rate), locale), rate: formatBytes(rate, locale) };
  return node
    ? t('The volume is thick: it is copied to node {{node}} only while no Pod uses it, and its Pods cannot start for about {{duration}} at {{rate}} for each second. Then it is switched. Until then, you can undo the move.', { ...values, node })
    : t('The volume is thick: it is copied to another node only while no Pod uses it, and its Pods cannot start for about {{duration}} at {{rate}} for each second. Then it is switched. Until then, you can undo the move.', values);
}

const Help = ({ id, text }: { id: string; text: string }) => (
  <FormHelperText>
    <HelperText id={id}>
      <HelperTextItem>{text}</HelperTextItem>
    </HelperText>
  </FormHelperText>
);
