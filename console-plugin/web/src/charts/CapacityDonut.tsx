import { Content } from '@patternfly/react-core';
import { useMemo } from 'react';
import { useT } from '../i18n';
import type { Usage } from '../model/health';
import { formatBytes, formatPercent } from '../model/quantity';
import { percentOf, sharesOf } from '../model/usage';
import { FREE, PROMISED, USED } from './colors';
import { Donut } from './Donut';

/** How much of device classes on nodes is used, promised to volumes, and free. */
export function CapacityDonut({ label, usage, loaded }: { label: string; usage: Usage[]; loaded: boolean }) {
  const { t, locale } = useT();
  const shares = useMemo(() => sharesOf(usage), [usage]);
  if (!shares) return <Content component="p" data-test="capacity-unknown">{loaded && usage.length === 0 ? t('No node has a volume group of this device class yet.') : t('Unknown')}</Content>;
  const size = (bytes: number): string => formatBytes(bytes, locale);
  const thin = shares.provisioned !== undefined;
  return (
    <>
      <Donut
        label={label}
        title={formatPercent(percentOf(shares), locale)}
        subtitle={t('of {{size}}', { size: size(shares.size) })}
        slices={[
          { label: t('Used'), value: shares.used, text: size(shares.used), color: USED },
          ...(thin ? [{ label: t('Free, provisioned'), value: shares.promised, text: size(shares.promised), color: PROMISED }] : []),
          { label: thin ? t('Free, not provisioned') : t('Free'), value: shares.free, text: size(shares.free), color: FREE },
        ]}
        more={[[t('Size'), size(shares.size)], ...(shares.provisioned === undefined ? [] : [[t('Provisioned'), size(shares.provisioned)] as [string, string]])]}
      />
      {shares.known < shares.nodes && <Content component="small" data-test="capacity-partial">{t('Without {{count}} nodes whose usage is unknown.', { count: shares.nodes - shares.known })}</Content>}
    </>
  );
}
