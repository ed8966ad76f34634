import { readFileSync } from 'node:fs';
import { describe, expect, it } from 'vitest';
import type { LogicalVolume, LVMCluster, NodeStatus, VolumeMove } from '../api/types';
import { evacuationOf, sentencesOf, whyStays, type Evacuation } from './evacuation';
import { inEnglish, type Message } from './message';
import { durationOf } from './moves';
import { quantityOf } from './quantity';

interface Case {
  name: string;
  node: string;
  rate: number;
  cluster: LVMCluster;
  volumes: LogicalVolume[];
  statuses: NodeStatus[];
  moves: VolumeMove[];
  /** What `kubectl lvms evacuate` prints. */
  text: string[];
}
// The kubectl plugin is held to the same plans: cli/evacuate_test.go.
const cases = JSON.parse(readFileSync('../../cli/testdata/evacuation.json', 'utf8')) as Case[];
const english = JSON.parse(readFileSync('locales/en/plugin__lvms-console.json', 'utf8')) as Record<string, string>;

/** The English text, in the singular if the grammar requires it. */
const words = (m: Message): string => inEnglish({ ...m, key: (m.values?.['count'] === 1 && english[`${m.key}_one`]) || m.key });

const linesOf = (plan: Evacuation, rate: number): string[] => [
  ...sentencesOf(plan, rate, { size: quantityOf, duration: durationOf }).map(words),
  ...plan.moves.map((c) => `  move  ${c}`),
  ...plan.running.map((c) => `  moves already  ${c}`),
  ...plan.stay.map((s) => `  stays  ${s.claim ?? 'volume'} (${s.name}): ${words(s.why)}`),
];

describe('the plan is that of kubectl lvms evacuate', () => {
  it('has cases', () => expect(cases.length).toBeGreaterThan(5));
  it.each(cases)('$name', (c) => {
    expect(linesOf(evacuationOf(c.node, c.cluster, c.volumes, c.statuses, c.moves, quantityOf), c.rate)).toEqual(c.text);
  });
});

describe('a volume', () => {
  const lv: LogicalVolume = { metadata: { name: 'x', annotations: { 'lvm.topolvm.io/claim': 'shop/data' } }, spec: { name: 'x', nodeName: 'a', size: '1Gi' }, status: { volumeID: 'x' } };
  const cluster = { spec: { storage: { deviceClasses: [{ name: 'thin', thinPoolConfig: { name: 'p' } }, { name: 'thick' }] } } } as LVMCluster;
  it('can be moved only if its device class is known to have a thin pool', () => {
    expect(whyStays(lv, 'thin', cluster)).toBeUndefined();
    expect(whyStays(lv, 'thick', cluster)?.key).toMatch(/no thin pool/);
    expect(whyStays(lv, 'thin', undefined)?.key).toMatch(/no thin pool/);
  });
  it('can have a claim that only its PersistentVolume names', () => {
    const plain = { ...lv, metadata: { name: 'x' } };
    expect([whyStays(plain, 'thin', cluster)?.key, whyStays(plain, 'thin', cluster, 'shop/data')]).toEqual(['its claim is not known', undefined]);
  });
});
