import { Alert, Card, CardBody, CardTitle, Content } from '@patternfly/react-core';
import { useMemo } from 'react';
import { DEFAULTS } from '../api/limits';
import type { DeviceClass } from '../api/types';
import { Second } from '../components/parts';
import { VirtualTable } from '../components/VirtualTable';
import { useT } from '../i18n';
import { layoutOf, minimumDevices, preview, type Preview } from '../model/capacity';
import { provisioningOf } from '../model/cluster';
import { total } from '../model/health';
import { bytesOf, formatBytes } from '../model/quantity';
import { chosenOn, type Seen } from '../model/selection';
import { stagesOf } from '../model/stages';
import { CapacityBars } from './CapacityBars';

interface Row {
  node: string;
  /** Bytes of each disk. */
  sizes: number[];
  p: Preview;
}

/** raw → volume group → pool → volumes on each node, and what can go wrong, in words. */
export function CapacityPreview({ c, nodes }: { c: DeviceClass; nodes: Seen[] }) {
  const { t, locale } = useT();
  const rows = useMemo<Row[]>(
    () =>
      nodes.map((seen) => {
        const sizes = chosenOn(c, seen).map((d) => bytesOf(d.size) ?? 0);
        return { node: seen.node.metadata.name ?? '', sizes, p: preview(c, sizes) };
      }),
    [c, nodes],
  );
  const stages = useMemo(() => stagesOf(c, rows), [c, rows]);
  const size = (n?: number) => formatBytes(n, locale);
  const thin = !!c.thinPoolConfig;
  return (
    <Card isCompact data-test="preview">
      <CardTitle component="h3">{t('Summary')}</CardTitle>
      <CardBody>
        <Content component="p" aria-live="polite" data-test="preview-sum">
          {thin
            ? t('{{raw}} of disk space provides {{pool}} of thin pool space for up to {{volumes}} of volumes.', { raw: size(sum(rows, (p) => p.raw)), pool: size(sum(rows, (p) => p.pool?.data)), volumes: size(sum(rows, (p) => p.volumes)) })
            : t('{{raw}} of disk space provides {{volumes}} for volumes.', { raw: size(sum(rows, (p) => p.raw)), volumes: size(sum(rows, (p) => p.volumes)) })}
        </Content>
        {stages.length > 0 && <CapacityBars stages={stages} disks={rows.reduce((n, r) => n + r.sizes.length, 0)} />}
        <VirtualTable
          label={t('Capacity by node')}
          maxHeight={220}
          rows={rows}
          rowKey={(r) => r.node}
          empty={t('No node is selected.')}
          rowHeight={48}
          columns={[
            { key: 'node', title: t('Node'), width: 6.75, lines: 2 }, { key: 'disks', title: t('Disks'), width: 6.25 }, { key: 'group', title: t('Volume group'), width: 7.75 },
            ...(thin ? [{ key: 'pool', title: t('Thin pool'), width: 10 }] : []), { key: 'volumes', title: c.raidConfig ? t('Largest volume') : t('Provisionable') },
          ]}
          cells={({ node, sizes, p }) => [
            node, <Pair key="d" first={size(p.raw)} second={t('{{count}} disks', { count: sizes.length })} />, size(p.group),
            ...(thin ? [<Pair key="p" first={size(p.pool?.data)} second={t('{{label}}: {{value}}', { label: t('Metadata'), value: size(p.pool?.metadata) })} />] : []),
            p.lacking > 0 ? t('{{count}} disks missing', { count: p.lacking }) : size(p.volumes),
          ]}
        />
        <Risk c={c} rows={rows} />
      </CardBody>
    </Card>
  );
}

const Pair = ({ first, second }: { first: string; second: string }) => (
  <>
    {first}
    <Second text={second} />
  </>
);

const sum = (rows: Row[], of: (p: Preview) => number | undefined) => total(rows.map((r) => of(r.p))) ?? 0;

/** The default share of a thin pool leaves enough space for its metadata. */
const ROOMY = DEFAULTS['thinPoolConfig.sizePercent'];

/** What can be lost, and when. */
function Risk({ c, rows }: { c: DeviceClass; rows: Row[] }) {
  const { t } = useT();
  const ratio = c.thinPoolConfig?.overprovisionRatio ?? 1;
  const several = rows.some((r) => r.sizes.length > 1);
  const texts: [string, 'info' | 'warning'][] = [];
  if (c.raidConfig) {
    const { tolerated } = layoutOf(c.raidConfig);
    texts.push([t('A volume tolerates the loss of {{count}} disks of its node ({{level}}, at least {{least}} disks). It does not tolerate the loss of the node.', { count: tolerated, level: provisioningOf(c), least: minimumDevices(c.raidConfig) }), 'info']);
  } else texts.push([several ? t('No redundancy: if one disk is lost, all volumes of its node can be lost.') : t('No redundancy: if a disk is lost, its volumes are lost.'), 'info']);
  if (ratio > 1) texts.push([t('Volumes can be provisioned up to {{ratio}} times the size of the thin pool. When it is full, writes to all its volumes fail: monitor its usage, or extend it automatically.', { ratio }), ratio > 10 ? 'warning' : 'info']);
  if (c.thinPoolConfig && (c.thinPoolConfig.sizePercent ?? ROOMY) > ROOMY) texts.push([t('Little space is left to extend the metadata of the thin pool, which fails when its metadata is full.'), 'warning']);
  return (
    <>
      {texts.map(([text, variant]) => (
        <Alert key={text} isInline isPlain variant={variant} title={text} />
      ))}
    </>
  );
}
