import { Button, Content, Flex } from '@patternfly/react-core';
import { useState } from 'react';
import type { LVMCluster } from '../api/types';
import { useT } from '../i18n';
import { useMovePermissions, useMoves, type Watched } from '../kube/watch';
import { isThick, whyStays } from '../model/evacuation';
import { openMove } from '../model/moves';
import { classOf, titleOf, type Volume } from '../model/volumes';
import { MoveDialog } from './MoveDialog';

interface Props {
  namespace: string;
  volume: Volume;
  clusters: Watched<LVMCluster[]>;
}

/** The button that moves the volume of a claim, or why it cannot be moved. ClaimMove shows a move that runs. */
export function MoveAction({ namespace, volume, clusters }: Props) {
  const { t, m } = useT();
  const moves = useMoves(namespace);
  const permissions = useMovePermissions(namespace);
  const [open, setOpen] = useState(false);
  const claim = titleOf(volume);
  const deviceClass = classOf(volume.lv, clusters.data[0]);
  const running = openMove(moves.data, claim);
  const stays = clusters.loaded && !clusters.error ? whyStays(volume.lv, deviceClass ?? '', clusters.data[0], volume.claim) : undefined;
  const why =
    permissions.loaded && !permissions.create ? t('You lack permission to create volumemoves.lvm.topolvm.io in {{namespace}}.', { namespace })
    : stays && t('The volume cannot be moved: {{why}}.', { why: m(stays) });
  return (
    <Flex alignItems={{ default: 'alignItemsCenter' }}>
      {why && <Content component="small" id="no-move" data-test="no-move">{why}</Content>}
      <Button variant="secondary" style={{ whiteSpace: 'nowrap' }} data-test="move-volume" isAriaDisabled={!!why || !!running} aria-describedby={why ? 'no-move' : running ? 'claim-move' : undefined} aria-label={t('Move volume {{name}}', { name: claim })} onClick={() => setOpen(true)}>
        {t('Move volume')}
      </Button>
      {open && <MoveDialog namespace={namespace} volume={volume} deviceClass={deviceClass} thick={isThick(clusters.data[0], deviceClass)} running={running} close={() => setOpen(false)} />}
    </Flex>
  );
}
