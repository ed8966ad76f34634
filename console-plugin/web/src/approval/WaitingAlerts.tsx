import { Alert } from '@patternfly/react-core';
import { useMemo } from 'react';
import { Link } from '../router';
import type { NodeStatus } from '../api/types';
import { useT } from '../i18n';
import { waitingOf } from '../model/approval';
import { classPath } from '../paths';

/** For each device class whose devices wait for an approval: how many, and the way to them. */
export function WaitingAlerts({ statuses }: { statuses: NodeStatus[] }) {
  const { t } = useT();
  const classes = useMemo(() => {
    const counts = new Map<string, { all: number; changed: number }>();
    for (const w of waitingOf(statuses)) {
      const { all, changed } = counts.get(w.deviceClass) ?? { all: 0, changed: 0 };
      counts.set(w.deviceClass, { all: all + 1, changed: changed + (w.reason === 'ChangedSinceReview' ? 1 : 0) });
    }
    return [...counts].sort(([a], [b]) => a.localeCompare(b));
  }, [statuses]);
  return (
    <>
      {classes.map(([name, { all, changed }]) => (
        <Alert
          key={name} isInline variant={changed ? 'warning' : 'info'} data-test="await-alert" title={t('{{count}} devices await approval for device class {{name}}', { count: all, name })}
          actionLinks={<Link to={classPath(name)}>{t('Review devices')}</Link>}
        />
      ))}
    </>
  );
}
