import { Button, Card, CardBody, CardHeader, CardTitle, Content, Flex, Stack } from '@patternfly/react-core';
import { useMemo, useState } from 'react';
import { ReadErrors } from '../components/parts';
import { useT } from '../i18n';
import { useMovePermissions, useMoves } from '../kube/watch';
import { movesOfNode } from '../model/moves';
import { EvacuateDialog } from './EvacuateDialog';
import { MovesTable } from './MovesTable';

/** The moves of volumes; with a node, those from and to it, and the way to move all of its volumes. */
export function MovesCard({ namespace, node }: { namespace: string; node?: string }) {
  const { t } = useT();
  const moves = useMoves(namespace);
  const permissions = useMovePermissions(namespace);
  const [evacuating, setEvacuating] = useState(false);
  const shown = useMemo(() => (node ? { ...moves, data: movesOfNode(moves.data, node) } : moves), [moves, node]);
  const forbidden = permissions.loaded && !permissions.create;
  const actions = node && (
    <Flex alignItems={{ default: 'alignItemsCenter' }}>
      {forbidden && <Content component="small" id="no-evacuate">{t('You lack permission to create volumemoves.lvm.topolvm.io in {{namespace}}.', { namespace })}</Content>}
      <Button variant="secondary" isAriaDisabled={forbidden} aria-describedby={forbidden ? 'no-evacuate' : undefined} onClick={() => setEvacuating(true)} data-test="evacuate">{t('Evacuate node')}</Button>
    </Flex>
  );
  return (
    <Card data-test="moves">
      <CardHeader actions={actions ? { actions, hasNoOffset: true } : undefined}>
        <CardTitle component="h2">{t('Moves of volumes')}</CardTitle>
      </CardHeader>
      <CardBody>
        <Stack hasGutter>
          <ReadErrors reads={[[t('Moves of volumes'), moves]]} />
          <MovesTable moves={shown} />
        </Stack>
        {evacuating && node && <EvacuateDialog namespace={namespace} node={node} moves={moves} close={() => setEvacuating(false)} />}
      </CardBody>
    </Card>
  );
}
