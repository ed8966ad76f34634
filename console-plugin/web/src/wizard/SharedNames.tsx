import { Alert } from '@patternfly/react-core';
import { useMemo } from 'react';
import { classesOf } from '../api/types';
import { useT } from '../i18n';
import { intolerable } from '../model/nodes';
import { sharedNames } from '../model/selection';
import { useDraft } from './draft';

/** Lines that are shown; the others are counted. */
const LINES = 5;

/** Says that a name stands for more than the disk that was ticked. */
export function SharedNames() {
  const { t, m } = useT();
  const { cluster, nodes } = useDraft();
  const shared = useMemo(() => {
    const served = nodes.filter((s) => intolerable(s.node, cluster.spec?.tolerations).length === 0);
    return classesOf(cluster).flatMap((c) => sharedNames(c, served));
  }, [cluster, nodes]);
  return (
    <div aria-live="polite">
      {shared.length > 0 && (
        <Alert isInline variant="warning" title={t('Some paths match disks of several nodes')} data-test="shared-names">
          {shared.slice(0, LINES).map((x) => (
            <div key={m(x)}>{m(x)}</div>
          ))}
          {shared.length > LINES && <div>{t(' and {{count}} more', { count: shared.length - LINES })}</div>}
        </Alert>
      )}
    </div>
  );
}
