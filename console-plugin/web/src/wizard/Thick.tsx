import type { DeviceClass } from '../api/types';
import { useT } from '../i18n';
import { withField } from '../model/cluster';
import { useDraft } from './draft';
import { Choice, TextField } from './fields';

type Config = NonNullable<DeviceClass['thickConfig']>;
type Placement = 'Any' | 'SingleDevice' | 'Striped';

/** On which disks of a node a thick volume is: thickConfig. It applies to new volumes. */
export function Thick() {
  const { t } = useT();
  const { c, at, setClass } = useDraft();
  const config = c.thickConfig ?? {};
  const placement: Placement = config.stripes !== undefined ? 'Striped' : (config.allocation ?? 'Any');
  const set = (next: Config) => setClass(withField(c, 'thickConfig', Object.keys(next).length > 0 ? next : undefined));
  const place = (next: Placement) => {
    const { allocation: _, stripes: __, stripeSize: ___, ...others } = config;
    set({ ...others, ...(next === 'Striped' ? { stripes: 2 } : next === 'SingleDevice' ? { allocation: next } : {}) });
  };
  return (
    <>
      <Choice
        id={`${at}.thickConfig`} label={t('Placement of volumes')} value={placement} onChange={place}
        options={[
          { value: 'Any', label: t('Any: LVM fills one disk after the other') },
          { value: 'SingleDevice', label: t('Single disk: each volume is on one disk, and can be as large as the free space of one') },
          { value: 'Striped', label: t('Striped: each volume is striped across several disks') },
        ]}
      />
      {placement === 'Striped' && (
        <>
          <TextField
            id={`${at}.thickConfig.stripes`} label={t('Stripes of new volumes')} value={Number.isNaN(config.stripes) ? '' : String(config.stripes)} onChange={(v) => set({ ...config, stripes: v.trim() === '' ? NaN : Number(v) })}
          />
          <TextField
            id={`${at}.thickConfig.stripeSize`} label={t('Stripe size')} placeholder="64Ki" value={String(config.stripeSize ?? '')}
            help={t('A power of two from 4Ki to 4Mi.')} onChange={(v) => set(withField(config, 'stripeSize', v || undefined))}
          />
        </>
      )}
    </>
  );
}
