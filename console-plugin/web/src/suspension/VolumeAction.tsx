import { Button, Content } from '@patternfly/react-core';
import { useT } from '../i18n';
import { useSuspensionRight } from '../kube/watch';
import type { Volume } from '../model/volumes';

/** A volume for which a dialog is open. */
export interface Chosen {
  volume: Volume;
  suspend: boolean;
}

/** What can be done: a Pod never uses a snapshot, a volume without a claim, and what a VolumeMove created. */
export const canBeSuspended = (v: Volume): boolean => v.kind === 'volume' && !v.isPartOfMove && !!v.namespace && !!v.claim && !v.lv.metadata.deletionTimestamp;
export const canBeResumed = (v: Volume): boolean => v.suspension?.own !== undefined;

interface Props {
  volume: Volume;
  forbidden: boolean;
  choose: (chosen: Chosen) => void;
  variant?: 'link' | 'secondary';
}

/** The button that suspends a volume, or resumes it. */
export function VolumeAction({ volume, forbidden, choose, variant = 'link' }: Props) {
  const { t } = useT();
  const resumes = canBeResumed(volume);
  if (!resumes && !canBeSuspended(volume)) return <>–</>;
  const name = volume.claim ?? volume.name;
  return (
    <Button
      variant={variant} isInline={variant === 'link'} style={{ whiteSpace: 'nowrap' }} data-test="suspend-volume" isAriaDisabled={forbidden} aria-describedby={forbidden ? 'no-suspend' : undefined}
      aria-label={resumes ? t('Resume volume {{name}}', { name }) : t('Suspend volume {{name}}', { name })} onClick={() => choose({ volume, suspend: !resumes })}
    >
      {resumes ? t('Resume') : t('Suspend')}
    </Button>
  );
}

/** Whether the user lacks the permission that VolumeAction needs. */
export function useForbidden(): boolean {
  const right = useSuspensionRight();
  return right.loaded && !right.patch;
}

/** Why VolumeAction is disabled. */
export function WhyForbidden({ forbidden }: { forbidden: boolean }) {
  const { t } = useT();
  return forbidden ? <Content component="small" id="no-suspend">{t('You lack permission to patch logicalvolumes.topolvm.io.')}</Content> : null;
}
