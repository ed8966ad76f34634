// Small parts that several pages have.
import { Alert, Bullseye, ExpandableSection, Label, List, ListItem, Progress, ProgressMeasureLocation, ProgressVariant, Spinner } from '@patternfly/react-core';
import { useState, type ReactNode } from 'react';
import type { Device, DeviceState, LVMCluster, PhysicalVolumeState, State } from '../api/types';
import { useT } from '../i18n';
import { useGatherCommand } from '../kube/gather';
import type { FiringAlert } from '../model/alerting';
import { headlineOf } from '../model/health';
import { formatBytes, formatPercent } from '../model/quantity';
import { stablePath } from '../model/devices';
import type { Connection, Watched } from '../kube/watch';

export function Loading() {
  const { t } = useT();
  return (
    <Bullseye>
      <Spinner aria-label={t('Loading')} />
    </Bullseye>
  );
}

/** Says when what is shown is old. */
export function ConnectionBanner({ connection }: { connection: Connection }) {
  const { t, locale } = useT();
  if (connection.alive) return null;
  return (
    <Alert isInline variant="warning" data-test="stale" title={t('The cluster does not respond')} role="status">
      {t('The data is from {{time}} and may be outdated. It is updated when the cluster responds.', { time: connection.since.toLocaleTimeString(locale) })}
    </Alert>
  );
}

/** Names what could not be read, and why. */
export function ReadErrors({ reads }: { reads: [string, Watched<unknown>][] }) {
  const { t } = useT();
  return (
    <>
      {reads
        .filter(([, w]) => w.error)
        .map(([what, w]) => (
          <Alert key={what} isInline variant="danger" data-test="read-error" title={t('{{what}} could not be read', { what })}>
            {t('There may be objects that cannot be shown. Error from the API server: {{error}}', { error: w.error ?? '' })}
          </Alert>
        ))}
    </>
  );
}

const stateColor: Record<string, 'green' | 'blue' | 'orange' | 'red' | 'grey' | 'purple'> = {
  Ready: 'green', Available: 'green', InUse: 'blue', Progressing: 'blue', Degraded: 'orange', Excluded: 'grey', Failed: 'red', Failing: 'red', Missing: 'red', Unknown: 'orange', Removed: 'grey',
  Cordoned: 'grey', Draining: 'blue', Drained: 'purple', Blocked: 'orange',
};

/** The states in the user's language. */
export function useStateNames(): Record<string, string> {
  const { t } = useT();
  return {
    Ready: t('Ready'), Available: t('Available'), InUse: t('In use'), Progressing: t('In progress'), Degraded: t('Degraded'), Excluded: t('Excluded'),
    Failed: t('Failed'), Failing: t('Failing'), Missing: t('Missing'), Unknown: t('Unknown'), Removed: t('Removed'),
    Cordoned: t('Cordoned'), Draining: t('Draining'), Drained: t('Drained'), Blocked: t('Blocked'),
  };
}

export function StateLabel({ state, percent }: { state: State | DeviceState | PhysicalVolumeState; percent?: number }) {
  const { locale } = useT();
  const names = useStateNames();
  return (
    <Label isCompact color={stateColor[state] ?? 'grey'}>
      {names[state] ?? state}
      {percent !== undefined && ` ${formatPercent(percent, locale)}`}
    </Label>
  );
}

/** A share as a bar with its numbers in words, so that it is not told by colour alone. plain: to be full is no fault. */
export function ShareBar({ label, part, whole, warnAt = 80, plain }: { label: string; part?: number; whole?: number; warnAt?: number; plain?: boolean }) {
  const { t, locale } = useT();
  if (part === undefined || !whole)
    return (
      <span>
        {t('Unknown')}
        {!!whole && <Second text={t('{{label}}: {{value}}', { label: t('Size'), value: formatBytes(whole, locale) })} />}
      </span>
    );
  const percent = Math.min(100, Math.round((part / whole) * 100));
  const variant = plain ? undefined : percent >= 95 ? ProgressVariant.danger : percent >= warnAt ? ProgressVariant.warning : undefined;
  return (
    <Progress
      aria-label={label}
      value={percent}
      size="sm"
      variant={variant}
      measureLocation={ProgressMeasureLocation.top}
      title={t('{{used}} of {{size}}', { used: formatBytes(part, locale), size: formatBytes(whole, locale) })}
    />
  );
}

/** The kernel's name, and below it the one that stays. */
export function DeviceName({ device }: { device: Device }) {
  const path = stablePath(device);
  return (
    <span title={path}>
      {device.name}
      {path !== device.name && <Second text={path.replace('/dev/disk/', '')} />}
    </span>
  );
}

/** A text with a label before it, if there is one. It belongs into a column with lines. */
export const Noted = ({ label, text }: { label?: ReactNode; text: string }) => (
  <>
    {label} <span title={text}>{text}</span>
  </>
);

/** A second line in a cell. */
export const Second = ({ text }: { text: string }) => (
  <span title={text} style={{ display: 'block', overflow: 'hidden', textOverflow: 'ellipsis', fontSize: 'var(--pf-t--global--font--size--xs)', color: 'var(--pf-t--global--text--color--subtle)' }}>{text}</span>
);

/** Health in a sentence, what is wrong, and what support will ask for. */
export function HealthAlert({ cluster, namespace, alerts = [] }: { cluster: LVMCluster; namespace: string; alerts?: FiringAlert[] }) {
  const { t, m } = useT();
  const health = headlineOf(cluster, alerts);
  const command = useGatherCommand(namespace, health.level === 'warning' || health.level === 'danger');
  return (
    <Alert isInline variant={health.level} title={m(health.sentence)} data-test="health">
      <Details lines={health.details} />
      {command && (
        <span data-test="gather">
          {t('To collect data for support, run:')} <code>{command}</code>
        </span>
      )}
    </Alert>
  );
}

/** Long lists of causes are folded. */
export function Details({ lines }: { lines: string[] }) {
  const { t } = useT();
  const [open, setOpen] = useState(false);
  const item = (line: string, i: number): ReactNode => <ListItem key={i}>{line}</ListItem>;
  if (lines.length === 0) return null;
  return (
    <>
      <List>{lines.slice(0, 3).map(item)}</List>
      {lines.length > 3 && (
        <ExpandableSection toggleText={open ? t('Show less') : t('Show {{count}} more', { count: lines.length - 3 })} isExpanded={open} onToggle={(_, is) => setOpen(is)}>
          <List>{lines.slice(3).map(item)}</List>
        </ExpandableSection>
      )}
    </>
  );
}
