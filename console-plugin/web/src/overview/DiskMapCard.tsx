import { Card, CardBody, CardTitle } from '@patternfly/react-core';
import { lazy } from 'react';
import type { NodeStatus } from '../api/types';
import { Lazy, NotLoaded } from '../charts/lazy';
import { Loading } from '../components/parts';
import { useT } from '../i18n';
import type { Watched } from '../kube/watch';

const DiskMap = lazy(() => import('../charts/DiskMap'));

/** The devices of all nodes at a glance. */
export function DiskMapCard({ statuses }: { statuses: Watched<NodeStatus[]> }) {
  const { t } = useT();
  return (
    <Card data-test="disk-map">
      <CardTitle component="h2">{t('Devices by node')}</CardTitle>
      <CardBody>
        <Lazy fallback={<Loading />} failed={<NotLoaded />}>
          <DiskMap statuses={statuses.data} loaded={statuses.loaded && !statuses.error} />
        </Lazy>
      </CardBody>
    </Card>
  );
}
