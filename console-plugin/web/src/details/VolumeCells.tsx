import { Button } from '@patternfly/react-core';
import { AngleRightIcon } from '@patternfly/react-icons';
import type { KeyboardEvent } from 'react';
import { Link } from '../router';
import { Second, ShareBar } from '../components/parts';
import { useT } from '../i18n';
import type { Volume } from '../model/volumes';
import type { TreeRow } from '../model/volumeTree';
import { claimPath } from '../paths';

/** A volume in its tree: a button expands it, which the arrow keys do too. */
export function Branch({ row: { volume, level, children, expanded }, toggle }: { row: TreeRow; toggle: (name: string) => void }) {
  const { t } = useT();
  const onKeyDown = (e: KeyboardEvent) => {
    if (e.key !== (expanded ? 'ArrowLeft' : 'ArrowRight')) return;
    e.preventDefault();
    toggle(volume.name);
  };
  return (
    <div style={{ display: 'flex', alignItems: 'center', marginInlineStart: '-1.25rem', paddingInlineStart: `${(level - 1) * 0.75}rem` }}>
      <span style={{ flex: 'none', width: '1.25rem' }}>
        {children > 0 && (
          <Button
            variant="plain" hasNoPadding aria-label={t('Snapshots and clones of {{name}}', { name: volume.claim ?? volume.name })} aria-expanded={expanded} onClick={() => toggle(volume.name)} onKeyDown={onKeyDown}
            icon={<AngleRightIcon style={{ transform: expanded ? 'rotate(90deg)' : undefined }} />}
          />
        )}
      </span>
      <div style={{ minWidth: 0, overflow: 'hidden', textOverflow: 'ellipsis' }}>
        <Purpose volume={volume} />
      </div>
    </div>
  );
}

/** What a volume is for. */
export function Purpose({ volume: v }: { volume: Volume }) {
  const { t } = useT();
  if (!v.claim || !v.namespace) return <span title={v.name}>{v.name}<Second text={v.kind === 'snapshot' ? t('Snapshot') : t('Owner unknown')} /></span>;
  if (v.kind === 'snapshot') return <span title={v.name}>{v.claim}<Second text={t('Snapshot in {{namespace}}', { namespace: v.namespace })} /></span>;
  return (
    <>
      <Link to={claimPath(v.namespace, v.claim)} title={v.name}>{v.claim}</Link>
      <Second text={v.namespace} />
    </>
  );
}

/** How much of a thin volume is written. */
export const Written = ({ volume, percent }: { volume: Volume; percent?: number }) => {
  const { t } = useT();
  const part = percent === undefined || volume.size === undefined ? undefined : (volume.size * percent) / 100;
  return <ShareBar label={t('Data written to {{name}}', { name: volume.claim ?? volume.name })} part={part} whole={volume.size} plain />;
};
