import { Checkbox } from '@patternfly/react-core';
import type { DeviceClass } from '../api/types';
import { useT } from '../i18n';
import { withField } from '../model/cluster';
import { encryptionOf, secretField, withEncryption, type Encryption } from '../model/encryption';
import { useDraft } from './draft';
import { Choice, Field, TextField } from './fields';

/** What happens to the data of volumes: encryption, erasure, trim. */
export function VolumeData({ fixed }: { fixed: (key: string) => string | undefined }) {
  return (
    <>
      <EncryptionFields fixed={fixed('storageClassOptions.additionalParameters')} />
      <Erase />
      <Trim />
    </>
  );
}

function EncryptionFields({ fixed }: { fixed?: string }) {
  const { t } = useT();
  const { c, at, setClass } = useDraft();
  const encryption = encryptionOf(c);
  const set = (change: Partial<Encryption>) => encryption && setClass(withEncryption(c, { ...encryption, ...change }));
  return (
    <>
      <Field id={`${at}.storageClassOptions.additionalParameters`} label={t('Encryption')} fixed={fixed} group>
        <Checkbox
          id={`${at}.encryption`} label={t('Encrypt volumes (LUKS2)')} description={t('Without the key, nobody can read the data: store a copy of the key outside of the cluster.')} isChecked={!!encryption}
          isDisabled={!!fixed} onChange={(_, on) => setClass(withEncryption(c, on ? { name: '', namespace: '', discards: false } : undefined))}
        />
      </Field>
      {encryption && (
        <>
          <TextField
            id={`${at}.storageClassOptions.${secretField.name}`} label={t('Name of the Secret with the key')} isRequired value={encryption.name} fixed={fixed}
            help={t('Can contain variables such as {{variable}}, for a key for each claim.', { variable: '${pvc.name}' })} onChange={(name) => set({ name })}
          />
          <TextField
            id={`${at}.storageClassOptions.${secretField.namespace}`} label={t('Namespace of the Secret')} isRequired value={encryption.namespace} fixed={fixed}
            help={t('Can contain variables such as {{variable}}, for a key for each namespace.', { variable: '${pvc.namespace}' })} onChange={(namespace) => set({ namespace })}
          />
          <Checkbox
            id={`${at}.encryption-discards`} label={t('Pass discards of encrypted volumes on')} description={t('Trims work, but the disks show which blocks are used.')} isChecked={encryption.discards}
            isDisabled={!!fixed} onChange={(_, discards) => set({ discards })}
          />
        </>
      )}
    </>
  );
}

function Erase() {
  const { t } = useT();
  const { c, at, setClass } = useDraft();
  const thin = !!c.thinPoolConfig;
  const byDefault = thin ? t('Default: None, because a thin pool zeros the blocks that it allocates') : t('Default: Zero, so that no volume shows data of a deleted one');
  return (
    <Choice
      id={`${at}.eraseOnDelete`} label={t('Erase deleted volumes')} value={c.eraseOnDelete ?? 'Default'} onChange={(v) => setClass(withField(c, 'eraseOnDelete', v === 'Default' ? undefined : v))}
      options={[
        { value: 'Default', label: byDefault },
        { value: 'None', label: t('None: the blocks keep their data until they are overwritten') },
        { value: 'Discard', label: t('Discard: the disks are told that the blocks are unused') },
        ...(thin ? [] : [{ value: 'Zero' as const, label: t('Zero: the blocks are overwritten with zeros') }]),
      ]}
    />
  );
}

type Schedule = NonNullable<NonNullable<DeviceClass['trim']>['schedule']>;

function Trim() {
  const { t } = useT();
  const { c, at, setClass } = useDraft();
  const schedule = c.trim ? (c.trim.schedule ?? 'Weekly') : 'Off';
  const threshold = c.trim?.poolUsageThresholdPercent;
  const setSchedule = (v: Schedule | 'Off') => setClass(withField(c, 'trim', v === 'Off' ? undefined : { ...c.trim, schedule: v }));
  return (
    <>
      <Choice
        id={`${at}.trim.schedule`} label={t('Trim of file systems')} value={schedule} onChange={setSchedule}
        help={t('Returns the blocks of deleted files (fstrim), one volume after the other.')}
        options={[
          { value: 'Off', label: t('Off') },
          { value: 'Weekly', label: t('Weekly') },
          { value: 'Daily', label: t('Daily') },
          ...(c.thinPoolConfig || schedule === 'None' ? [{ value: 'None' as const, label: t('Only above the pool usage threshold') }] : []),
        ]}
      />
      {c.trim && c.thinPoolConfig && (
        <TextField
          id={`${at}.trim.poolUsageThresholdPercent`} label={t('Pool usage threshold for trims (%)')} placeholder="80" value={Number.isNaN(threshold) ? '' : String(threshold ?? '')}
          help={t('Above this usage of the thin pool, volumes are also trimmed outside of the schedule. If empty, they are not.')}
          onChange={(v) => setClass({ ...c, trim: withField(c.trim ?? {}, 'poolUsageThresholdPercent', v.trim() === '' ? undefined : Number(v)) })}
        />
      )}
    </>
  );
}
