import { Link } from '../router';
import type { VolumeMove } from '../api/types';
import { VirtualTable } from '../components/VirtualTable';
import { useT } from '../i18n';
import type { Watched } from '../kube/watch';
import { claimOfMove, copiedOf, sorted, targetOf } from '../model/moves';
import { movePath, nodePath } from '../paths';
import { ClaimLink } from '../recovery/parts';
import { MovePhaseLabel, MoveProgress, PodsCell } from './parts';

/** The moves of volumes. */
export function MovesTable({ moves }: { moves: Watched<VolumeMove[]> }) {
  const { t } = useT();
  const node = (name: string | undefined) => (name ? <Link to={nodePath(name)} title={name}>{name}</Link> : '–');
  return (
    <VirtualTable
      label={t('Moves of volumes')}
      rows={sorted(moves.data)}
      maxHeight={430}
      rowHeight={76}
      rowKey={(m) => m.metadata.uid ?? m.metadata.name ?? ''}
      empty={moves.error || !moves.loaded ? t('Unknown') : t('There are no moves. A move copies the volume of a claim to another node, and switches it when no Pod uses it. Thin volumes are copied while Pods use them, thick ones only while no Pod does.')}
      columns={[
        { key: 'claim', title: t('Claim'), width: 8.5 }, { key: 'nodes', title: t('From, to node'), width: 7.5, lines: 3 }, { key: 'phase', title: t('Phase'), width: 13.5 },
        { key: 'pods', title: t('Used by Pods'), width: 8.5, lines: 3 }, { key: 'message', title: t('Message'), lines: 3 },
      ]}
      cells={(m) => [
        <Name key="c" move={m} />, <span key="n">{node(m.status?.sourceNode)} → {node(targetOf(m))}</span>, <Phase key="p" move={m} />, <PodsCell key="o" move={m} />,
        m.status?.message ?? '–',
      ]}
    />
  );
}

/** The phase, and how much is copied. */
function Phase({ move }: { move: VolumeMove }) {
  return (
    <>
      <MovePhaseLabel phase={move.status?.phase} />
      {(copiedOf(move) || !!move.status?.queuePosition) && <div><MoveProgress move={move} /></div>}
    </>
  );
}

/** The claim, and below it the move. */
function Name({ move }: { move: VolumeMove }) {
  const name = move.metadata.name ?? '';
  return (
    <>
      <ClaimLink claim={claimOfMove(move)} />
      <div style={{ overflow: 'hidden', textOverflow: 'ellipsis', fontSize: 'var(--pf-t--global--font--size--xs)' }}><Link to={movePath(name)} title={name} data-test="move">{name}</Link></div>
    </>
  );
}
