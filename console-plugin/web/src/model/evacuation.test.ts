import { readFileSync } from 'node:fs';
import { describe, expect, it } from 'vitest';
import type { LogicalVolume, LVMCluster, NodeStatus, VolumeMove } from '../api/types';
import { aboutMove, evacuationOf, isThick, sentencesOf, whyStays, type Evacuated, type Evacuation } from './evacuation';
import { inEnglish, type Message } from './message';
import { durationOf } from './moves';

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
// The kubectl plugin is held to the same plans: cli/move/evacuate_test.go.
const cases = JSON.parse(readFileSync('../../cli/move/testdata/evacuation.json', 'utf8')) as Case[];
const english = JSON.parse(readFileSync('locales/en/plugin__lvms-console.json', 'utf8')) as Record<string, string>;

/** The English text, in the singular if the grammar requires it. */
const words = (m: Message): string => inEnglish({ ...m, key: (m.values?.['count'] === 1 && english[`${m.key}_one`]) || m.key });

/** A size as `kubectl lvms` writes it: SizeOf of cli/output/text.go. */
function sizeOf(bytes: number): string {
  const power = bytes < 1 ? 0 : Math.floor(Math.log2(bytes) / 10);
  return `${Math.floor((bytes / 1024 ** power) * 10) / 10}${['', 'Ki', 'Mi', 'Gi', 'Ti', 'Pi', 'Ei'][power]}`;
}
const writing = { size: sizeOf, duration: durationOf };

/** What follows the name of a claim. */
function about(v: Evacuated, rate: number): string {
  const text = aboutMove(v, rate, writing);
  return text ? `: ${v.left === undefined ? '' : 'stays Pending: '}${words(text)}` : '';
}

const linesOf = (plan: Evacuation, rate: number): string[] => [
  ...sentencesOf(plan, rate, writing).map(words),
  ...plan.moves.map((v) => `  move  ${v.claim}${about(v, rate)}`),
  ...plan.running.map((c) => `  moves already  ${c}`),
  ...plan.stay.map((s) => `  stays  ${s.claim ?? 'volume'} (${s.name}): ${words(s.why)}`),
];

describe('the plan is that of kubectl lvms evacuate', () => {
  it('has cases', () => expect(cases.length).toBeGreaterThan(5));
  it.each(cases)('$name', (c) => {
    expect(linesOf(evacuationOf(c.node, c.cluster, c.volumes, c.statuses, c.moves, sizeOf), c.rate)).toEqual(c.text);
  });
});

describe('a volume', () => {
  const lv: LogicalVolume = { metadata: { name: 'x', annotations: { 'lvm.topolvm.io/claim': 'shop/data' } }, spec: { name: 'x', nodeName: 'a', size: '1Gi' }, status: { volumeID: 'x' } };
  const cluster = { spec: { storage: { deviceClasses: [{ name: 'thin', thinPoolConfig: { name: 'p' } }, { name: 'thick' }] } } } as LVMCluster;
  it('can be moved only if the cluster has its device class', () => {
    expect([whyStays(lv, 'thin', cluster), whyStays(lv, 'thick', cluster)]).toEqual([undefined, undefined]);
    expect(whyStays(lv, 'other', cluster)).toEqual({ key: 'the LVMCluster has no device class "{{name}}"', values: { name: 'other' } });
    expect(whyStays(lv, 'thin', undefined)?.key).toMatch(/has no device class/);
  });
  it('is thick if its device class has no thin pool, and not if the class is unknown', () => {
    expect([isThick(cluster, 'thick'), isThick(cluster, 'thin'), isThick(cluster, 'other'), isThick(cluster, undefined), isThick(undefined, 'thick')]).toEqual([true, false, false, false, false]);
  });
  it('can have a claim that only its PersistentVolume names', () => {
    const plain = { ...lv, metadata: { name: 'x' } };
    expect([whyStays(plain, 'thin', cluster)?.key, whyStays(plain, 'thin', cluster, 'shop/data')]).toEqual(['its claim is not known', undefined]);
  });
});
