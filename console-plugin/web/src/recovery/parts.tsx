// Small parts of the pages about recoveries.
import { Alert, Label } from '@patternfly/react-core';
import { useEffect, useState } from 'react';
import { Link } from '../router';
import type { RecoveryPhase } from '../api/types';
import { useT } from '../i18n';
import type { Outcome } from '../kube/submit';
import { ageOf, claimOf } from '../model/recovery';
import { claimPath } from '../paths';

const colors: Record<string, 'green' | 'blue' | 'orange' | 'grey'> = { NotApplicable: 'grey', Preparing: 'blue', AwaitingApproval: 'orange', Running: 'blue', Succeeded: 'green' };

export function PhaseLabel({ phase, compact = true }: { phase?: RecoveryPhase; compact?: boolean }) {
  const { t } = useT();
  const names: Record<string, string> = {
    NotApplicable: t('Not applicable'), Preparing: t('Preparing'), AwaitingApproval: t('Awaiting approval'), Running: t('Running'), Succeeded: t('Succeeded'),
  };
  return (
    <Label isCompact={compact} color={colors[phase ?? ''] ?? 'grey'} data-test="phase">
      {phase ? (names[phase] ?? phase) : t('Not read yet')}
    </Label>
  );
}

/** Milliseconds between two looks at the clock. */
const TICK = 15_000;

export function Age({ time }: { time?: string }) {
  const { locale } = useT();
  const [now, setNow] = useState(() => Date.now());
  useEffect(() => {
    const timer = setInterval(() => setNow(Date.now()), TICK);
    return () => clearInterval(timer);
  }, []);
  return <span title={time && new Date(time).toLocaleString(locale)}>{ageOf(time, now, locale)}</span>;
}

/** A claim as a link; what is no claim as it is. */
export function ClaimLink({ claim, plain }: { claim?: string; plain?: boolean }) {
  const named = claimOf(claim);
  if (!named || plain) return <span title={claim}>{claim || '–'}</span>;
  return <Link to={claimPath(named.namespace, named.name)} title={claim}>{claim}</Link>;
}

/** Why something was not done, or that this is not known. */
export function Refusal({ title, outcome }: { title: string; outcome?: { kind: 'accepted' } | Exclude<Outcome, { kind: 'accepted' }> }) {
  const { t } = useT();
  if (!outcome || outcome.kind === 'accepted') return null;
  return (
    <Alert isInline variant="danger" title={title} data-test="why-not">
      {outcome.kind === 'unknown' ? t('The cluster did not respond, so it is unknown whether the change was saved: {{error}}', { error: outcome.message }) : outcome.message}
    </Alert>
  );
}
