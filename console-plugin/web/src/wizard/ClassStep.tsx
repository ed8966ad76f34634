import { Alert, Checkbox, Form, Stack } from '@patternfly/react-core';
import { DEFAULTS } from '../api/limits';
import { classesOf, storageClassName, type DeviceClass } from '../api/types';
import { useT } from '../i18n';
import { provisioningOf, withField, withProvisioning, type Provisioning } from '../model/cluster';
import { fieldOf, rangeOf } from '../model/schema';
import { modeOf } from '../model/selection';
import { immutable } from '../model/validate';
import { CapacityPreview } from './CapacityPreview';
import { useDraft } from './draft';
import { GroupConfig } from './ExistingGroup';
import { Choice, Field, NumberField, TextField } from './fields';
import { NamespaceLimits } from './NamespaceLimits';
import { ExistingPool, Pool } from './Pool';
import { Thick } from './Thick';
import { VolumeData } from './VolumeData';

const fileSystems = (fieldOf('fstype').enum ?? []) as NonNullable<DeviceClass['fstype']>[];

/** Name, volume type, thin pool, StorageClass. */
export function ClassStep() {
  const { t, m } = useT();
  const { c, at, setClass, was, chosen, cluster } = useDraft();
  const fixed = (key: string): string | undefined => {
    const why = immutable[key];
    return was && why ? m(why) : undefined;
  };
  const kinds: { value: Provisioning; label: string; description: string }[] = [
    { value: 'thin', label: t('Thin'), description: t('Space is allocated when data is written. Supports snapshots and clones.') },
    { value: 'thick', label: t('Thick'), description: t('All space is allocated when a volume is created. No snapshots.') },
    { value: 'raid1', label: t('Mirrored (raid1)'), description: t('Each volume is stored on two disks. Thick, no snapshots.') },
    { value: 'raid5', label: t('Parity (raid5)'), description: t('Each volume uses three or more disks and tolerates the loss of one. Thick, no snapshots.') },
    { value: 'raid6', label: t('Double parity (raid6)'), description: t('Each volume uses five or more disks and tolerates the loss of two. Thick, no snapshots.') },
    { value: 'raid10', label: t('Mirrored stripes (raid10)'), description: t('Each volume uses four or more disks. Thick, no snapshots.') },
    ...(provisioningOf(c) === 'raid4' ? [{ value: 'raid4' as const, label: t('Dedicated parity (raid4)'), description: t('Each volume tolerates the loss of one disk. Thick, no snapshots.') }] : []),
  ];
  const group = modeOf(c) === 'group';
  const possible = group ? kinds.filter((k) => k.value === 'thin' || k.value === 'thick') : kinds;
  const leastStripes = c.raidConfig?.type === 'raid6' ? 3 : rangeOf('raidConfig.stripes').low;
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
          help={group ? t('The StorageClass is {{name}}.', { name: storageClassName(c.name) }) : t('The volume groups get the same name, and the StorageClass is {{name}}.', { name: storageClassName(c.name) })}
          fixed={fixed('name')}
          value={c.name}
          onChange={(name) => setClass({ ...c, name })}
        />
        <Field id={`${at}.default-field`} label={t('Default')} group>
          <Checkbox
            id={`${at}.default`}
            label={t('Use for claims that do not set a StorageClass')}
            description={others.length ? t('{{name}} is currently the default.', { name: others[0]?.name ?? '' }) : undefined}
            isChecked={!!c.default}
            onChange={(_, on) => setClass(withField(c, 'default', on || undefined))}
          />
        </Field>
        <Choice id={`${at}.provisioning`} label={t('Volume type')} value={provisioningOf(c)} options={possible} fixed={fixed('provisioning')} onChange={(kind) => setClass(withProvisioning(c, kind))} />
        {(c.adopt ?? []).length > 0 && (
          <Alert isInline variant="info" title={t('Use the settings of the adopted volume group')} data-test="adopt-settings">
            {t('The volume type and the name of the thin pool must be those of the volume group, otherwise the device class is Failed. To see them, run on the node: lvs -o vg_name,lv_name,segtype. The volume group is renamed to {{name}}.', { name: c.name })}
          </Alert>
        )}
        {c.thinPoolConfig && (group ? <ExistingPool config={c.thinPoolConfig} fixed={fixed} /> : <Pool config={c.thinPoolConfig} fixed={fixed} />)}
        {group ? <GroupConfig /> : provisioningOf(c) === 'thick' && <Thick />}
        {c.raidConfig && c.raidConfig.type !== 'raid1' && (
          <NumberField
            id={`${at}.raidConfig.stripes`}
            label={t('Stripes')}
            help={t('Number of disks that the data of a volume is striped across, not counting redundancy.')}
            low={leastStripes}
            high={rangeOf('raidConfig.stripes').high}
            value={c.raidConfig.stripes ?? leastStripes}
            fixed={fixed('raidConfig')}
            onChange={(stripes) => c.raidConfig && setClass({ ...c, raidConfig: { ...c.raidConfig, stripes } })}
          />
        )}
        {c.raidConfig?.type === 'raid1' && (
          <NumberField
            id={`${at}.raidConfig.mirrors`}
            label={t('Additional copies')}
            {...rangeOf('raidConfig.mirrors')}
            value={c.raidConfig.mirrors ?? 1}
            fixed={fixed('raidConfig')}
            onChange={(mirrors) => c.raidConfig && setClass({ ...c, raidConfig: { ...c.raidConfig, mirrors } })}
          />
        )}
        <Choice
          id={`${at}.fstype`}
          label={t('File system')}
          value={c.fstype ?? DEFAULTS.fstype}
          options={fileSystems.map((value) => ({ value, label: value }))}
          fixed={fixed('fstype')}
          onChange={(fstype) => setClass({ ...c, fstype })}
        />
        <Choice
          id={`${at}.storageClassOptions.reclaimPolicy`}
          label={t('Reclaim policy')}
          value={options.reclaimPolicy ?? 'Delete'}
          options={[{ value: 'Delete', label: t('Delete: the volume is deleted with its claim') }, { value: 'Retain', label: t('Retain: the volume is kept') }]}
          fixed={fixed('storageClassOptions.reclaimPolicy')}
          onChange={(v) => setOption('reclaimPolicy', v)}
        />
        <Choice
          id={`${at}.storageClassOptions.volumeBindingMode`}
          label={t('Volume binding mode')}
          value={options.volumeBindingMode ?? 'WaitForFirstConsumer'}
          options={[
            { value: 'WaitForFirstConsumer', label: t('WaitForFirstConsumer: on the node of the first Pod') },
            { value: 'Immediate', label: t('Immediate: on the node with the most free space'), description: t('Pods that use the claim must run on that node.') },
          ]}
          fixed={fixed('storageClassOptions.volumeBindingMode')}
          onChange={(v) => setOption('volumeBindingMode', v)}
        />
        <VolumeData fixed={fixed} />
        <NamespaceLimits />
      </Form>
      {!group && <CapacityPreview c={c} nodes={chosen} />}
    </Stack>
  );
}
