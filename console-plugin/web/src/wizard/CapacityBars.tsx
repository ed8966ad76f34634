import { SegmentBar, Swatch, type Tone } from '../components/SegmentBar';
import { useT } from '../i18n';
import { formatBytes } from '../model/quantity';
import type { PartKind, Stage } from '../model/stages';

const tones: Record<PartKind, Tone> = {
  disk: 'gray', group: 'teal', pool: 'blue', metadata: 'purple', reserve: 'gray', volumes: 'blue', redundancy: 'teal', overcommitted: 'striped',
};

/** The name of a stage is beside its bar, or above it on a narrow screen. */
const row = { display: 'flex', flexWrap: 'wrap', gap: '0.25rem 1rem', marginBlockEnd: '0.75rem' } as const;

/** One bar for each stage, all on one scale: the length of the disks. */
export function CapacityBars({ stages, disks }: { stages: Stage[]; disks: number }) {
  const { t, locale } = useT();
  const names: Record<Stage['name'], string> = { disks: t('Disks'), group: t('Volume group'), pool: t('Thin pool'), volumes: t('Provisionable') };
  const parts: Partial<Record<PartKind, string>> = {
    pool: t('Data'), metadata: t('Metadata and its spare'), reserve: t('Free for extension'), redundancy: t('Redundancy'), overcommitted: t('Overcommitted'),
  };
  const size = (bytes: number) => formatBytes(bytes, locale);
  return (
    <dl data-test="stages" style={{ marginBlock: '1rem' }}>
      {stages.map(({ name, bytes, parts: all }) => (
        <div key={name} style={row}>
          <dt style={{ flex: '1 0 9rem' }}>
            <b>{names[name]}</b>
          </dt>
          <dd data-test={`stage-${name}`} style={{ flex: '4 1 16rem', margin: 0 }}>
            <SegmentBar segments={all.map((p, i) => ({ key: `${p.kind}${i}`, length: p.length, tone: tones[p.kind] }))} />
            <span>{name === 'disks' ? `${size(bytes)}, ${t('{{count}} disks', { count: disks })}` : size(bytes)}</span>
            {all.filter((p) => parts[p.kind]).map((p) => (
              <span key={p.kind} style={{ marginInlineStart: '1rem', whiteSpace: 'nowrap' }}>
                <Swatch tone={tones[p.kind]} />
                {t('{{label}}: {{value}}', { label: parts[p.kind] ?? '', value: size(p.bytes) })}
              </span>
            ))}
          </dd>
        </div>
      ))}
    </dl>
  );
}
