// Small parts of what the pages say about moves of volumes.
import { Label, List, ListItem, Progress, ProgressMeasureLocation } from '@patternfly/react-core';
import { Link } from '../router';
import type { MovePhase, VolumeMove } from '../api/types';
import { useT } from '../i18n';
import { claimOfMove, copiedOf } from '../model/moves';
import { formatBytes } from '../model/quantity';
import { claimOf } from '../model/recovery';
import { podPath } from '../paths';

const colors: Record<MovePhase, 'green' | 'blue' | 'orange' | 'red' | 'grey'> = {
  Pending: 'grey', Copying: 'blue', WaitingForPods: 'orange', Switching: 'blue', KeepingSource: 'green', Completed: 'green', Failed: 'red',
};

export function MovePhaseLabel({ phase, compact = true }: { phase?: MovePhase; compact?: boolean }) {
  const { t } = useT();
  const names: Record<MovePhase, string> = {
    Pending: t('Pending'), Copying: t('Copying'), WaitingForPods: t('Waiting for Pods'), Switching: t('Switching'), KeepingSource: t('Moved'), Completed: t('Completed'), Failed: t('Failed'),
  };
  return (
    <Label isCompact={compact} color={phase ? (colors[phase] ?? 'grey') : 'grey'} data-test="phase">
      {phase ? (names[phase] ?? phase) : t('Not read yet')}
    </Label>
  );
}

/** How much the present round has copied. */
export function MoveProgress({ move }: { move: VolumeMove }) {
  const { t, locale } = useT();
  const copied = copiedOf(move);
  if (!copied) return <>{move.status?.queuePosition ? t('Position {{position}} in the queue', { position: move.status.queuePosition }) : '–'}</>;
  const size = (bytes: number) => formatBytes(bytes, locale);
  return (
    <Progress
      aria-label={t('Progress of {{name}}', { name: claimOfMove(move) })} value={copied.percent} size="sm" measureLocation={ProgressMeasureLocation.top}
      title={t('{{used}} of {{size}}', { used: size(copied.copied), size: size(copied.total) })}
    />
  );
}

function PodLink({ pod }: { pod: string }) {
  const named = claimOf(pod);
  return named ? <Link to={podPath(named.namespace, named.name)} title={pod}>{pod}</Link> : <>{pod}</>;
}

/** Pods that are listed in a table. */
const MOST = 2;

/** The Pods that a move waits for: a few of them, in a cell of a table. */
export function PodsCell({ move }: { move: VolumeMove }) {
  const { t } = useT();
  const { pods = [], podCount = pods.length } = move.status ?? {};
  if (pods.length === 0) return <>–</>;
  const more = podCount - Math.min(MOST, pods.length);
  return (
    <>
      {pods.slice(0, MOST).map((p, i) => <span key={p}>{i > 0 && ', '}<PodLink pod={p} /></span>)}
      {more > 0 && t(' and {{count}} more', { count: more })}
    </>
  );
}

/** The Pods that a move waits for: all that its status has. */
export function PodList({ move }: { move: VolumeMove }) {
  const { t } = useT();
  const { pods = [], podCount = pods.length } = move.status ?? {};
  return (
    <div data-test="pods">
      <List isPlain>{pods.map((p) => <ListItem key={p}><PodLink pod={p} /></ListItem>)}</List>
      {podCount > pods.length && t('{{count}} more', { count: podCount - pods.length })}
    </div>
  );
}
