// Deletes a move, after what that does in its phase was shown.
import { Alert, Button, Content, Modal, ModalBody, ModalFooter, ModalHeader, Stack } from '@patternfly/react-core';
import { useState } from 'react';
import type { VolumeMove } from '../api/types';
import { useT } from '../i18n';
import { deleteMove, type DeleteOutcome } from '../kube/moves';
import { claimOfMove, targetOf, undoOf, type Undo } from '../model/moves';
import { Refusal } from '../recovery/parts';

interface Props {
  /** The move when the dialog was opened. */
  opened: VolumeMove;
  /** The move as it is; undefined if it was deleted. */
  now?: VolumeMove;
  close: () => void;
  deleted: () => void;
}

/** What the button and the title of the dialog say. */
export function useUndoNames(): Record<Undo, string> {
  const { t } = useT();
  return { stays: t('Undo move'), switching: t('Undo move'), removesSource: t('Remove old logical volume'), record: t('Delete'), failed: t('Delete') };
}

export function UndoDialog({ opened, now, close, deleted }: Props) {
  const { t } = useT();
  const names = useUndoNames();
  // What is confirmed is what was shown when the dialog was opened, or what the user asked to see after a change.
  const [undo, setUndo] = useState(undoOf(opened));
  const [sending, setSending] = useState(false);
  const [outcome, setOutcome] = useState<DeleteOutcome>();
  const move = now ?? opened;
  const gone = !now || now.metadata.uid !== opened.metadata.uid || !!now.metadata.deletionTimestamp;
  const current = undoOf(move);
  // The answer of the API server can be newer than what is watched.
  const next = outcome?.kind === 'stale' && current === undo ? outcome.undo : current;
  const changed = !gone && next !== undo;
  const press = async () => {
    setOutcome(undefined);
    setSending(true);
    const result = await deleteMove(opened, undo);
    setSending(false);
    if (result.kind === 'accepted') return deleted();
    return setOutcome(result);
  };
  const showNew = () => {
    setUndo(next);
    setOutcome(undefined);
  };
  const stale = !sending && (gone || changed);
  return (
    <Modal isOpen variant="small" onClose={close} aria-labelledby="undo-title" aria-describedby="undo-body" data-test="dialog">
      <ModalHeader title={undo === 'record' || undo === 'failed' ? t('Delete move?') : undo === 'removesSource' ? t('Remove old logical volume?') : t('Undo move?')} labelId="undo-title" titleIconVariant="warning" description={t('Claim {{claim}}', { claim: claimOfMove(move) })} />
      <ModalBody id="undo-body">
        <Stack hasGutter>
          {stale && (
            <Alert
              isInline variant="warning" title={gone ? t('The move was deleted in the meantime.') : t('The phase of the move has changed in the meantime. Nothing was deleted.')} data-test="obstacle"
              actionLinks={gone ? undefined : <Button variant="link" isInline onClick={showNew} data-test="show-new">{t('Show what happens now')}</Button>}
            />
          )}
          <Effect undo={undo} move={move} />
          {outcome && outcome.kind !== 'stale' && <Refusal title={t('The move was not deleted')} outcome={outcome} />}
        </Stack>
      </ModalBody>
      <ModalFooter>
        <Button variant="danger" isLoading={sending} isDisabled={sending || stale} onClick={() => void press()} data-test="apply">{names[undo]}</Button>
        <Button variant="link" onClick={close}>{t('Close')}</Button>
      </ModalFooter>
    </Modal>
  );
}

/** What the deletion does: docs/how-to/move-volumes.md, "Undo a move". */
function Effect({ undo, move }: { undo: Undo; move: VolumeMove }) {
  const { t } = useT();
  const [source, target] = [move.status?.sourceNode || t('Unknown'), targetOf(move) ?? t('Unknown')];
  const kept = t('Until then, it is kept, because it may have the last copy of the data, and so is the move, whose message says why. To remove it nevertheless, set the annotation {{annotation}} on the move.', { annotation: 'lvm.topolvm.io/allow-source-removal=true' });
  const back = t('To move the volume back, create another move.');
  const staying = move.status?.sourceNode ? t('The volume stays on node {{node}}.', { node: source }) : t('The volume stays on its node.');
  // A thick volume is closed while it is copied.
  const isClosed = move.status?.thick && move.status.phase === 'Copying';
  const lines: Record<Undo, string[]> = {
    stays: isClosed ? [t('The volume is opened at once, and the copy is discarded.'), staying] : [move.status?.sourceNode ? t('The copy is deleted, and the volume stays on node {{node}}.', { node: source }) : t('The copy is deleted, and the volume stays on its node.')],
    switching: [
      t('If the volume is not switched yet, the copy is deleted, and the volume stays on node {{node}}.', { node: source }),
      t('If the volume is already switched, it stays on node {{target}}. The old logical volume on node {{source}} is removed as soon as the volume on node {{target}} is known to be good, and is erased like a deleted volume.', { target, source }),
      kept,
    ],
    removesSource: [t('The volume stays on node {{node}}.', { node: target }), t('The old logical volume on node {{source}} is removed as soon as the volume on node {{target}} is known to be good, and is erased like a deleted volume.', { source, target }), kept, back],
    record: [t('The volume stays on node {{node}}.', { node: target }), t('Only the record of the move is deleted.'), back],
    failed: [staying, t('Only the record of the move is deleted, with what is left of the copy.')],
  };
  return <div data-test="effect">{lines[undo].map((line) => <Content key={line} component="p">{line}</Content>)}</div>;
}
