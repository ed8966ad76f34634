import { Card, CardBody, CardTitle } from '@patternfly/react-core';
import { lazy } from 'react';
import { Loading } from '../components/parts';
import { useT } from '../i18n';
import type { IOScope } from '../model/io';
import { Lazy, NotLoaded } from './lazy';

const IOHistory = lazy(() => import('./IOHistory'));

/** The I/O of the volumes of a device class, or of one volume. */
export function IOCard(props: { scope: IOScope; namespace?: string }) {
  const { t } = useT();
  return (
    <Card data-test="io">
      <CardTitle component="h2">{'volume' in props.scope ? t('I/O of the volume') : t('I/O of the volumes')}</CardTitle>
      <CardBody>
        <Lazy fallback={<Loading />} failed={<NotLoaded />}>
          <IOHistory {...props} />
        </Lazy>
      </CardBody>
    </Card>
  );
}
