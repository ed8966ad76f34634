import { Card, CardBody, CardTitle, Content, Gallery, GalleryItem } from '@patternfly/react-core';
import type { ReactNode } from 'react';
import { Link } from '../router';
import { CapacityDonut } from '../charts/CapacityDonut';
import { useT } from '../i18n';
import type { Usage } from '../model/health';
import { classPath } from '../paths';

/** How much of the cluster and of each device class is used. A single device class is not shown twice. */
export function CapacityCard({ classes, usage, loaded }: { classes: string[]; usage: Usage[]; loaded: boolean }) {
  const { t } = useT();
  return (
    <Card data-test="capacity">
      <CardTitle component="h2">{t('Capacity')}</CardTitle>
      <CardBody>
        <Gallery hasGutter minWidths={{ default: '100%', md: '400px' }}>
          {classes.length > 1 && (
            <Item title={t('All device classes')}>
              <CapacityDonut label={t('Capacity of all device classes')} usage={usage} loaded={loaded} />
            </Item>
          )}
          {classes.map((name) => (
            <Item key={name} title={<Link to={classPath(name)}>{name}</Link>}>
              <CapacityDonut label={t('Capacity of device class {{name}}', { name })} usage={usage.filter((u) => u.deviceClass === name)} loaded={loaded} />
            </Item>
          ))}
        </Gallery>
      </CardBody>
    </Card>
  );
}

const Item = ({ title, children }: { title: ReactNode; children: ReactNode }) => (
  <GalleryItem>
    <Content component="h3">{title}</Content>
    {children}
  </GalleryItem>
);
