import { Alert, Button, Flex, FlexItem, Stack } from '@patternfly/react-core';
import { useState } from 'react';
import { Link } from '../router';
import type { VolumeMove } from '../api/types';
import { ReadErrors } from '../components/parts';
import { useT } from '../i18n';
import { useMovePermissions, useMoves } from '../kube/watch';
import { copiedOf, levelOf, moveOfClaim, targetOf, undoOf } from '../model/moves';
import { movePath } from '../paths';
import { MovePhaseLabel, MoveProgress, PodList } from './parts';
import { UndoDialog, useUndoNames } from './UndoDialog';

/** The move of the volume of a claim, NAMESPACE/NAME, if there is one. */
export function ClaimMove({ namespace, claim }: { namespace: string; claim: string }) {
  const { t } = useT();
  const moves = useMoves(namespace);
  const move = moveOfClaim(moves.data, claim);
  return (
    <>
      <ReadErrors reads={[[t('Moves of volumes'), moves]]} />
      {move && <Move key={move.metadata.uid} namespace={namespace} move={move} />}
    </>
  );
}

function Move({ namespace, move }: { namespace: string; move: VolumeMove }) {
  const { t } = useT();
  const permissions = useMovePermissions(namespace);
  const names = useUndoNames();
  const [opened, setOpened] = useState<VolumeMove>();
  const target = targetOf(move);
  const forbidden = permissions.loaded && !permissions.remove;
  const name = move.metadata.name ?? '';
  return (
    <Alert
      isInline variant={levelOf(move.status?.phase)} id="claim-move" data-test="claim-move" title={undoOf(move) === 'removesSource' ? t('The volume was moved to node {{node}}', { node: target ?? '' }) : target ? t('The volume is being moved to node {{node}}', { node: target }) : t('The volume is being moved to another node')}
      actionLinks={
        <Flex>
          <Link to={movePath(name)}>{t('Show move {{name}}', { name })}</Link>
          {!move.metadata.deletionTimestamp && (
            <Button variant="link" isInline isAriaDisabled={forbidden} aria-describedby={forbidden ? 'no-undo' : undefined} onClick={() => setOpened(move)} data-test="undo">{names[undoOf(move)]}</Button>
          )}
        </Flex>
      }
    >
      <Stack hasGutter>
        <Flex>
          <MovePhaseLabel phase={move.status?.phase} />
          {copiedOf(move) && <FlexItem style={{ width: '14rem' }}><MoveProgress move={move} /></FlexItem>}
        </Flex>
        {move.status?.message && <div>{move.status.message}</div>}
        {!!move.status?.pods?.length && <PodList move={move} />}
        {forbidden && <div id="no-undo">{t('You lack permission to delete volumemoves.lvm.topolvm.io in {{namespace}}.', { namespace })}</div>}
      </Stack>
      {opened && <UndoDialog opened={opened} now={move} close={() => setOpened(undefined)} deleted={() => setOpened(undefined)} />}
    </Alert>
  );
}
