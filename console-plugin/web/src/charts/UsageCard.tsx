import { Card, CardBody, CardTitle } from '@patternfly/react-core';
import { lazy } from 'react';
import { Loading } from '../components/parts';
import { useT } from '../i18n';
import { Lazy, NotLoaded } from './lazy';

const UsageHistory = lazy(() => import('./UsageHistory'));

/** Usage over time: of the device classes, or of the nodes of one. */
export function UsageCard(props: { namespace: string; deviceClass?: string }) {
  const { t } = useT();
  return (
    <Card data-test="usage">
      <CardTitle component="h2">{t('Usage over time')}</CardTitle>
      <CardBody>
        <Lazy fallback={<Loading />} failed={<NotLoaded />}>
          <UsageHistory {...props} />
        </Lazy>
      </CardBody>
    </Card>
  );
}
