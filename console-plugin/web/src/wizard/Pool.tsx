import { Checkbox, ExpandableSection, Stack } from '@patternfly/react-core';
import { useState } from 'react';
import { DEFAULTS } from '../api/limits';
import type { ThinPoolConfig } from '../api/types';
import { useT } from '../i18n';
import { withField } from '../model/cluster';
import { rangeOf } from '../model/schema';
import { useDraft } from './draft';
import { Choice, Field, NumberField, TextField } from './fields';

/** Automatic extension as it is switched on. */
const extension = { thresholdPercent: DEFAULTS['thinPoolConfig.autoExtend.thresholdPercent'], stepPercent: DEFAULTS['thinPoolConfig.autoExtend.stepPercent'] };

interface PoolProps {
  config: ThinPoolConfig;
  /** Why a field cannot be changed. */
  fixed: (key: string) => string | undefined;
}

/** A thin pool that an administrator created: it is not changed. */
export function ExistingPool({ config, fixed }: PoolProps) {
  const { t } = useT();
  const { c, at, setClass } = useDraft();
  const id = `${at}.thinPoolConfig`;
  const set = (change: Partial<ThinPoolConfig>) => setClass({ ...c, thinPoolConfig: { ...config, ...change } });
  return (
    <>
      <TextField id={`${id}.name`} label={t('Thin pool name')} help={t('The thin pool must exist in the volume group.')} value={config.name} fixed={fixed('thinPoolConfig.name')} onChange={(name) => set({ name })} />
      <Ratio id={id} config={config} set={set} />
      <HighWaterMark id={id} config={config} set={set} />
    </>
  );
}

type PoolField = { id: string; config: ThinPoolConfig; set: (change: Partial<ThinPoolConfig>) => void };

function Ratio({ id, config, set }: PoolField) {
  const { t } = useT();
  return (
    <NumberField
      id={`${id}.overprovisionRatio`} label={t('Overprovision ratio')} {...rangeOf('thinPoolConfig.overprovisionRatio')} value={config.overprovisionRatio}
      help={t('Maximum provisioned size of volumes and snapshots, as a multiple of the thin pool size.')} onChange={(overprovisionRatio) => set({ overprovisionRatio })}
    />
  );
}

function HighWaterMark({ id, config, set }: PoolField) {
  const { t } = useT();
  return (
    <NumberField
      id={`${id}.highWaterMarkPercent`} label={t('High-water mark')} unit="%" {...rangeOf('thinPoolConfig.highWaterMarkPercent')} value={config.highWaterMarkPercent ?? DEFAULTS['thinPoolConfig.highWaterMarkPercent']}
      help={t('Above this usage, the thin pool accepts no new volumes, snapshots or expansions.')} onChange={(highWaterMarkPercent) => set({ highWaterMarkPercent })}
    />
  );
}

/** The thin pool that the node agents create. */
export function Pool({ config, fixed }: PoolProps) {
  const { t } = useT();
  const { c, at, setClass } = useDraft();
  const [open, setOpen] = useState(false);
  const id = `${at}.thinPoolConfig`;
  const setStripes = (text: string) => {
    const stripes = text === '' ? undefined : Number(text);
    setClass({ ...c, thinPoolConfig: withField(withField(config, 'stripes', stripes), 'stripeSize', stripes === undefined ? undefined : config.stripeSize) });
  };
  const set = (change: Partial<ThinPoolConfig>) => setClass({ ...c, thinPoolConfig: { ...config, ...change } });
  return (
    <>
      <NumberField
        id={`${id}.sizePercent`} label={t('Thin pool size (share of volume group)')} unit="%" {...rangeOf('thinPoolConfig.sizePercent')} value={config.sizePercent ?? DEFAULTS['thinPoolConfig.sizePercent']}
        help={t('The rest of the volume group is reserved to extend the thin pool and its metadata.')} fixed={fixed('thinPoolConfig.sizePercent')} onChange={(sizePercent) => set({ sizePercent })}
      />
      <Ratio id={id} config={config} set={set} />
      <Field id={`${id}.autoExtend-field`} label={t('Automatic extension')} group>
        <Checkbox
          id={`${id}.autoExtend`} label={t('Extend the thin pool within its volume group')} isChecked={!!config.autoExtend}
          onChange={(_, on) => setClass({ ...c, thinPoolConfig: withField(config, 'autoExtend', on ? extension : undefined) })}
        />
      </Field>
      {config.autoExtend && (
        <>
          <NumberField
            id={`${id}.autoExtend.thresholdPercent`} label={t('Extension threshold')} unit="%" {...rangeOf('thinPoolConfig.autoExtend.thresholdPercent')}
            value={config.autoExtend.thresholdPercent ?? extension.thresholdPercent} onChange={(thresholdPercent) => set({ autoExtend: { ...config.autoExtend, thresholdPercent } })}
          />
          <NumberField
            id={`${id}.autoExtend.stepPercent`} label={t('Extension step')} unit="%" {...rangeOf('thinPoolConfig.autoExtend.stepPercent')}
            value={config.autoExtend.stepPercent ?? extension.stepPercent} onChange={(stepPercent) => set({ autoExtend: { ...config.autoExtend, stepPercent } })}
          />
        </>
      )}
      <ExpandableSection toggleText={t('Advanced thin pool settings')} isExpanded={open} onToggle={(_, is) => setOpen(is)}>
        <Stack hasGutter>
          <TextField id={`${id}.name`} label={t('Thin pool name')} value={config.name} fixed={fixed('thinPoolConfig.name')} onChange={(name) => set({ name })} />
          <HighWaterMark id={id} config={config} set={set} />
          <TextField
            id={`${id}.stripes`} label={t('Stripes')} placeholder="4" value={Number.isNaN(config.stripes) ? '' : String(config.stripes ?? '')} fixed={fixed('thinPoolConfig.stripes')}
            help={t('Number of disks of each node that the data of the thin pool is striped across. If empty, LVM fills one disk after the other.')} onChange={(v) => setStripes(v.trim())}
          />
          {config.stripes !== undefined && (
            <TextField
              id={`${id}.stripeSize`} label={t('Stripe size')} placeholder="64Ki" value={String(config.stripeSize ?? '')} fixed={fixed('thinPoolConfig.stripes')}
              help={t('A power of two from 4Ki to 4Mi.')} onChange={(v) => setClass({ ...c, thinPoolConfig: withField(config, 'stripeSize', v || undefined) })}
            />
          )}
          <Choice
            id={`${id}.discards`} label={t('Discards to disks')} value={config.discards ?? 'Default'} onChange={(v) => setClass({ ...c, thinPoolConfig: withField(config, 'discards', v === 'Default' ? undefined : v) })}
            options={[
              { value: 'Default', label: t('Default of LVM on the node') },
              { value: 'PassDown', label: t('Pass discards on to the disks') },
              { value: 'NoPassDown', label: t('Do not pass discards on') },
            ]}
          />
          <TextField
            id={`${id}.chunkSize`} label={t('Chunk size')} placeholder="128Ki" value={String(config.chunkSize ?? '')} fixed={fixed('thinPoolConfig.chunkSize')}
            help={t('Small chunks favor snapshots, large chunks favor throughput. If empty, the default depends on the size of the thin pool.')} onChange={(v) => setClass({ ...c, thinPoolConfig: withField(config, 'chunkSize', v || undefined) })}
          />
          <TextField
            id={`${id}.metadataSize`} label={t('Metadata size')} value={String(config.metadataSize ?? '')} help={t('If empty, LVM chooses the size. It cannot be reduced later.')}
            onChange={(v) => setClass({ ...c, thinPoolConfig: withField(withField(config, 'metadataSize', v || undefined), 'metadataSizeCalculationPolicy', v ? 'Static' : undefined) })}
          />
        </Stack>
      </ExpandableSection>
    </>
  );
}
