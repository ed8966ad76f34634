// The LVMCluster as text, and back. The object is the truth: the text is written from it, and read into it when it can be read.
import { LineCounter, parseDocument, stringify } from 'yaml';
import { API_VERSION, type LVMCluster } from '../api/types';
import { writable } from './cluster';
import { msg, type Message } from './message';

export function toYAML(cluster: LVMCluster): string {
  const { apiVersion, kind, metadata, ...rest } = writable(cluster);
  return stringify({ apiVersion, kind, metadata, ...rest }, { lineWidth: 0, aliasDuplicateObjects: false });
}

export interface Fault {
  /** From 1; 0 where it is about the whole. */
  line: number;
  message: Message;
}
export type Parsed = { cluster: LVMCluster } | { fault: Fault };

/** Reads a text. What the form has no field for stays in the object; the server says whether the kind knows it. */
export function fromYAML(text: string, current: LVMCluster): Parsed {
  const lines = new LineCounter();
  const doc = parseDocument(text, { lineCounter: lines, strict: true, uniqueKeys: true });
  const [error] = doc.errors;
  if (error) return fault(lines.linePos(error.pos[0]).line, msg('The YAML is not valid: {{error}}'), { error: error.message.split('\n')[0] ?? '' });
  let value: unknown;
  try {
    value = doc.toJS({ maxAliasCount: 100 });
  } catch (e) {
    return fault(0, msg('The YAML is not valid: {{error}}'), { error: String(e instanceof Error ? e.message : e) });
  }
  const misfit = misfitOf(value, shape, '');
  if (misfit) {
    const at = doc.getIn(misfit.path, true) as { range?: [number, number, number] } | undefined;
    return fault(at?.range ? lines.linePos(at.range[0]).line : 0, msg('{{field}} must be {{what}}.'), { field: misfit.path.join('.') || 'LVMCluster', what: misfit.what });
  }
  const next = value as LVMCluster;
  if (next.apiVersion !== API_VERSION || next.kind !== 'LVMCluster')
    return fault(1, msg('The YAML describes {{kind}}, but this page edits an LVMCluster of {{version}}.'), { kind: `${next.kind} ${next.apiVersion}`, version: API_VERSION });
  const { uid, resourceVersion, generation, creationTimestamp } = current.metadata;
  const kept = Object.fromEntries(Object.entries({ uid, resourceVersion, generation, creationTimestamp }).filter(([, v]) => v !== undefined));
  return { cluster: { ...next, metadata: { ...next.metadata, ...kept }, ...(current.status ? { status: current.status } : {}) } };
}

const fault = (line: number, message: Message, values: Message['values']): Parsed => ({ fault: { line, message: { ...message, values } } });

/** What the pages rely on. Keys that are not named may be anything. */
type Shape = 'text' | 'number' | 'truth' | 'quantity' | 'map' | { list: Shape } | { of: Record<string, Shape> };

const texts: Shape = { list: 'text' };
const requirements: Shape = { list: { of: { key: 'text', operator: 'text', values: texts } } };
const nodeSelector: Shape = { of: { nodeSelectorTerms: { list: { of: { matchExpressions: requirements, matchFields: requirements } } } } };
const selector: Record<string, Shape> = {
  paths: texts, optionalPaths: texts, models: texts, vendors: texts, serials: texts, transports: texts,
  minSize: 'quantity', maxSize: 'quantity', rotational: 'truth', removable: 'truth', forceWipeDevicesAndDestroyAllData: 'truth',
};
const shape: Shape = {
  of: {
    apiVersion: 'text', kind: 'text', metadata: { of: { name: 'text', namespace: 'text', labels: 'map', annotations: 'map' } },
    spec: {
      of: {
        tolerations: { list: 'map' },
        storage: {
          of: {
            deviceClasses: {
              list: {
                of: {
                  name: 'text', default: 'truth', fstype: 'text', nodeSelector, deviceSelector: { of: selector },
                  deviceSelectors: { list: { of: { ...selector, nodeSelector } } }, deviceDiscoveryPolicy: 'text',
                  thinPoolConfig: {
                    of: {
                      name: 'text', sizePercent: 'number', overprovisionRatio: 'number', highWaterMarkPercent: 'number',
                      chunkSizeCalculationPolicy: 'text', chunkSize: 'quantity', metadataSizeCalculationPolicy: 'text', metadataSize: 'quantity',
                      autoExtend: { of: { thresholdPercent: 'number', stepPercent: 'number' } },
                    },
                  },
                  raidConfig: { of: { type: 'text', mirrors: 'number', stripes: 'number', stripeSize: 'quantity' } },
                  storageClassOptions: { of: { reclaimPolicy: 'text', volumeBindingMode: 'text', additionalParameters: 'map', additionalLabels: 'map' } },
                  deviceRequests: { list: { of: { node: 'text', device: 'text', action: 'text' } } },
                },
              },
            },
          },
        },
      },
    },
  },
};

/** The fields without which an object of the kind means nothing. */
const required = ['', 'metadata', 'spec.storage.deviceClasses.*', 'spec.storage.deviceClasses.*.name'];

interface Misfit {
  path: (string | number)[];
  what: string;
}

const scalars: Record<string, [string, (v: unknown) => boolean]> = {
  text: ['a string', (v) => typeof v === 'string'],
  number: ['a number', (v) => typeof v === 'number'],
  truth: ['true or false', (v) => typeof v === 'boolean'],
  quantity: ['a quantity', (v) => typeof v === 'string' || typeof v === 'number'],
  map: ['a map', (v) => isMap(v)],
};

const isMap = (v: unknown): v is Record<string, unknown> => typeof v === 'object' && v !== null && !Array.isArray(v);

function misfitOf(value: unknown, s: Shape, pattern: string, path: (string | number)[] = []): Misfit | undefined {
  if (value === undefined || value === null) return required.includes(pattern) ? { path, what: 'set' } : undefined;
  if (typeof s === 'string') {
    const [what, fits] = scalars[s] as [string, (v: unknown) => boolean];
    return fits(value) ? undefined : { path, what };
  }
  if ('list' in s) {
    if (!Array.isArray(value)) return { path, what: 'a list' };
    return first(value.map((v, i) => misfitOf(v, s.list, `${pattern}.*`, [...path, i])));
  }
  if (!isMap(value)) return { path, what: 'a map' };
  return first(Object.entries(s.of).map(([k, inner]) => misfitOf(value[k], inner, pattern ? `${pattern}.${k}` : k, [...path, k])));
}

const first = <T>(list: (T | undefined)[]): T | undefined => list.find((v) => v !== undefined);
