import { Checkbox, ExpandableSection, Form, Stack } from '@patternfly/react-core';
import { useState } from 'react';
import { classesOf, storageClassName, type ThinPoolConfig } from '../api/types';
import { useT } from '../i18n';
import { provisioningOf, withField, withProvisioning, type Provisioning } from '../model/cluster';
import { immutable } from '../model/validate';
import { CapacityPreview } from './CapacityPreview';
import { useDraft } from './draft';
import { Choice, Field, NumberField, TextField } from './fields';

/** Name, kind of volumes, pool, StorageClass. */
export function ClassStep() {
  const { t, m } = useT();
  const { c, at, setClass, was, chosen, cluster } = useDraft();
  const fixed = (key: string): string | undefined => {
    const why = immutable[key];
    return was && why ? m(why) : undefined;
  };
  const kinds: { value: Provisioning; label: string; description: string }[] = [
    { value: 'thin', label: t('Thin'), description: t('Volumes take space when they are written. Snapshots and clones.') },
    { value: 'thick', label: t('Thick'), description: t('Volumes have all their space from the beginning. No snapshots.') },
    { value: 'raid1', label: t('Mirrored (raid1)'), description: t('Each volume on two disks. Thick, no snapshots.') },
    { value: 'raid5', label: t('Parity (raid5)'), description: t('Each volume on three disks or more; one may be lost. Thick, no snapshots.') },
    { value: 'raid6', label: t('Double parity (raid6)'), description: t('Each volume on five disks or more; two may be lost. Thick, no snapshots.') },
    { value: 'raid10', label: t('Mirrored stripes (raid10)'), description: t('Each volume on four disks or more. Thick, no snapshots.') },
    ...(provisioningOf(c) === 'raid4' ? [{ value: 'raid4' as const, label: t('Parity on one disk (raid4)'), description: t('One disk may be lost. Thick, no snapshots.') }] : []),
  ];
  const others = classesOf(cluster).filter((o) => o !== c && o.default);
  const options = c.storageClassOptions ?? {};
  const setOption = (key: 'reclaimPolicy' | 'volumeBindingMode', v: string) => setClass({ ...c, storageClassOptions: { ...options, [key]: v } });
  return (
    <Stack hasGutter>
      <Form>
        <TextField
          id={`${at}.name`}
          label={t('Name')}
          isRequired
          help={t('Also the name of the volume groups. The StorageClass is {{name}}.', { name: storageClassName(c.name) })}
          fixed={fixed('name')}
          value={c.name}
          onChange={(name) => setClass({ ...c, name })}
        />
        <Field id={`${at}.default-field`} label={t('Default')} group>
          <Checkbox
            id={`${at}.default`}
            label={t('Claims that name no StorageClass come here')}
            description={others.length ? t('{{name}} is the default.', { name: others[0]?.name ?? '' }) : undefined}
            isChecked={!!c.default}
            onChange={(_, on) => setClass(withField(c, 'default', on || undefined))}
          />
        </Field>
        <Choice id={`${at}.provisioning`} label={t('Kind of volumes')} value={provisioningOf(c)} options={kinds} fixed={fixed('provisioning')} onChange={(kind) => setClass(withProvisioning(c, kind))} />
        {c.thinPoolConfig && <Pool config={c.thinPoolConfig} fixed={fixed} />}
        {c.raidConfig && c.raidConfig.type !== 'raid1' && (
          <NumberField
            id={`${at}.raidConfig.stripes`}
            label={t('Stripes')}
            help={t('Disks that the data of a volume is spread over, without those for redundancy.')}
            low={c.raidConfig.type === 'raid6' ? 3 : 2}
            high={60}
            value={c.raidConfig.stripes ?? (c.raidConfig.type === 'raid6' ? 3 : 2)}
            fixed={fixed('raidConfig')}
            onChange={(stripes) => c.raidConfig && setClass({ ...c, raidConfig: { ...c.raidConfig, stripes } })}
          />
        )}
        {c.raidConfig?.type === 'raid1' && (
          <NumberField
            id={`${at}.raidConfig.mirrors`}
            label={t('Further copies')}
            low={1}
            high={9}
            value={c.raidConfig.mirrors ?? 1}
            fixed={fixed('raidConfig')}
            onChange={(mirrors) => c.raidConfig && setClass({ ...c, raidConfig: { ...c.raidConfig, mirrors } })}
          />
        )}
        <Choice
          id={`${at}.fstype`}
          label={t('File system of volumes')}
          value={c.fstype ?? 'xfs'}
          options={[{ value: 'xfs', label: 'xfs' }, { value: 'ext4', label: 'ext4' }]}
          fixed={fixed('fstype')}
          onChange={(fstype) => setClass({ ...c, fstype })}
        />
        <Choice
          id={`${at}.storageClassOptions.reclaimPolicy`}
          label={t('When a claim is deleted')}
          value={options.reclaimPolicy ?? 'Delete'}
          options={[{ value: 'Delete', label: t('Its volume is deleted with it') }, { value: 'Retain', label: t('Its volume is kept') }]}
          fixed={fixed('storageClassOptions.reclaimPolicy')}
          onChange={(v) => setOption('reclaimPolicy', v)}
        />
        <Choice
          id={`${at}.storageClassOptions.volumeBindingMode`}
          label={t('When a volume is made')}
          value={options.volumeBindingMode ?? 'WaitForFirstConsumer'}
          options={[
            { value: 'WaitForFirstConsumer', label: t('For the first Pod, on its node') },
            { value: 'Immediate', label: t('At once, on the node with the most room'), description: t('The Pods of the claim then have to run on that node.') },
          ]}
          fixed={fixed('storageClassOptions.volumeBindingMode')}
          onChange={(v) => setOption('volumeBindingMode', v)}
        />
      </Form>
      <CapacityPreview c={c} nodes={chosen} />
    </Stack>
  );
}

function Pool({ config, fixed }: { config: ThinPoolConfig; fixed: (key: string) => string | undefined }) {
  const { t } = useT();
  const { c, at, setClass } = useDraft();
  const [open, setOpen] = useState(false);
  const id = `${at}.thinPoolConfig`;
  const set = (change: Partial<ThinPoolConfig>) => setClass({ ...c, thinPoolConfig: { ...config, ...change } });
  return (
    <>
      <NumberField
        id={`${id}.sizePercent`} label={t('Share of the volume group')} unit="%" low={10} high={100} value={config.sizePercent ?? 90}
        help={t('The rest is left for the pool and its metadata to grow.')} fixed={fixed('thinPoolConfig.sizePercent')} onChange={(sizePercent) => set({ sizePercent })}
      />
      <NumberField
        id={`${id}.overprovisionRatio`} label={t('Overprovision ratio')} low={1} high={100} value={config.overprovisionRatio}
        help={t('So many times the size of the pool may be promised to volumes and snapshots.')} onChange={(overprovisionRatio) => set({ overprovisionRatio })}
      />
      <Field id={`${id}.autoExtend-field`} label={t('A pool that fills')} group>
        <Checkbox
          id={`${id}.autoExtend`} label={t('Grows within its volume group')} isChecked={!!config.autoExtend}
          onChange={(_, on) => setClass({ ...c, thinPoolConfig: withField(config, 'autoExtend', on ? { thresholdPercent: 80, stepPercent: 20 } : undefined) })}
        />
      </Field>
      {config.autoExtend && (
        <>
          <NumberField id={`${id}.autoExtend.thresholdPercent`} label={t('Grows when it is fuller than')} unit="%" low={50} high={95} value={config.autoExtend.thresholdPercent ?? 80} onChange={(thresholdPercent) => set({ autoExtend: { ...config.autoExtend, thresholdPercent } })} />
          <NumberField id={`${id}.autoExtend.stepPercent`} label={t('By')} unit="%" low={5} high={100} value={config.autoExtend.stepPercent ?? 20} onChange={(stepPercent) => set({ autoExtend: { ...config.autoExtend, stepPercent } })} />
        </>
      )}
      <ExpandableSection toggleText={t('More about the pool')} isExpanded={open} onToggle={(_, is) => setOpen(is)}>
        <TextField id={`${id}.name`} label={t('Name of the pool')} value={config.name} fixed={fixed('thinPoolConfig.name')} onChange={(name) => set({ name })} />
        <NumberField
          id={`${id}.highWaterMarkPercent`} label={t('High-water mark')} unit="%" low={50} high={100} value={config.highWaterMarkPercent ?? 95}
          help={t('A pool that is fuller takes no new volume, no snapshot and no growth.')} onChange={(highWaterMarkPercent) => set({ highWaterMarkPercent })}
        />
        <TextField
          id={`${id}.chunkSize`} label={t('Chunk size')} placeholder="128Ki" value={String(config.chunkSize ?? '')} fixed={fixed('thinPoolConfig.chunkSize')}
          help={t('Small chunks suit snapshots, large ones throughput. Empty for 128Ki.')} onChange={(v) => setClass({ ...c, thinPoolConfig: withField(config, 'chunkSize', v || undefined) })}
        />
        <TextField
          id={`${id}.metadataSize`} label={t('Size of the metadata')} value={String(config.metadataSize ?? '')} help={t('Empty to leave it to LVM. It can only grow.')}
          onChange={(v) => setClass({ ...c, thinPoolConfig: withField(withField(config, 'metadataSize', v || undefined), 'metadataSizeCalculationPolicy', v ? 'Static' : undefined) })}
        />
      </ExpandableSection>
    </>
  );
}
