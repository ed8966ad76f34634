import { Button } from '@patternfly/react-core';
import type { DeviceClass } from '../api/types';
import { useT } from '../i18n';
import { withField } from '../model/cluster';
import { useDraft } from './draft';
import { Field, TextField } from './fields';

type Limit = NonNullable<DeviceClass['namespaceLimits']>[number];

/** How much of a device class a namespace can have on each node: namespaceLimits. */
export function NamespaceLimits() {
  const { t } = useT();
  const { c, at, setClass } = useDraft();
  const limits = c.namespaceLimits ?? [];
  const set = (next: Limit[]) => setClass(withField(c, 'namespaceLimits', next.length > 0 ? next : undefined));
  const change = (i: number, limit: Limit) => set(limits.map((l, j) => (i === j ? limit : l)));
  return (
    <>
      <Field
        id={`${at}.namespaceLimits`} label={t('Limits of namespaces')} group
        help={t('The total size of the volumes and snapshots that a namespace can have on each node. Namespaces without a limit can use all of the capacity.')}
      >
        <Button variant="link" isInline onClick={() => set([...limits, { perNode: '' }])}>{t('Add a limit')}</Button>
      </Field>
      {limits.map((limit, i) => (
        // While it is typed, a limit can be for the same namespace as another one: only its place is a key.
        <LimitFields key={i} id={`${at}.namespaceLimits[${i}]`} number={i + 1} limit={limit} onChange={(l) => change(i, l)} onRemove={() => set(limits.filter((_, j) => i !== j))} />
      ))}
    </>
  );
}

function LimitFields({ id, number, limit, onChange, onRemove }: { id: string; number: number; limit: Limit; onChange: (limit: Limit) => void; onRemove: () => void }) {
  const { t } = useT();
  return (
    <>
      <TextField
        id={`${id}.namespace`} label={t('Limit {{number}}: namespace', { number })} value={limit.namespace ?? ''}
        help={t('If empty, the limit applies to each namespace that has no limit of its own.')} onChange={(v) => onChange(withField(limit, 'namespace', v || undefined))}
      />
      <TextField
        id={`${id}.perNode`} label={t('Limit {{number}}: size on each node', { number })} isRequired placeholder="100Gi" value={String(limit.perNode)}
        help={t('With 0, the namespace cannot have volumes.')} onChange={(perNode) => onChange({ ...limit, perNode })}
      />
      <Button variant="link" isInline isDanger onClick={onRemove}>{t('Remove limit {{number}}', { number })}</Button>
    </>
  );
}
