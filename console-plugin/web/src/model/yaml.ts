// The LVMCluster as text, and back. The object is the truth: the text is written from it, and read into it when it can be read.
import { LineCounter, parseDocument, stringify } from 'yaml';
import { specSchema } from '../api/limits';
import { API_VERSION, type LVMCluster } from '../api/types';
import { writable } from './cluster';
import { msg, type Message } from './message';
import { isMap, type Schema } from './schema';

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
  const misfit = misfitOf(value, whole, true);
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

const text: Schema = { type: 'string' };
const map: Schema = { type: 'object', additionalProperties: text };
const whole: Schema = {
  type: 'object',
  required: ['metadata'],
  properties: {
    apiVersion: text, kind: text, metadata: { type: 'object', properties: { name: text, namespace: text, labels: map, annotations: map } },
    spec: specSchema,
  },
};

interface Misfit {
  path: (string | number)[];
  what: string;
}

const types: Record<Schema['type'], [string, (v: unknown) => boolean]> = {
  string: ['a string', (v) => typeof v === 'string'],
  integer: ['a number', (v) => typeof v === 'number'],
  boolean: ['true or false', (v) => typeof v === 'boolean'],
  quantity: ['a quantity', (v) => typeof v === 'string' || typeof v === 'number'],
  object: ['a map', isMap],
  array: ['a list', Array.isArray],
};

/** Returns the first value that is missing or has another type than its schema. Fields that are not in the schema may be anything. */
function misfitOf(value: unknown, s: Schema, isRequired: boolean, path: (string | number)[] = []): Misfit | undefined {
  if (value === undefined || value === null) return isRequired ? { path, what: 'set' } : undefined;
  const [what, fits] = types[s.type];
  if (!fits(value)) return { path, what };
  const { items, properties = {}, additionalProperties, required = [] } = s;
  if (items && Array.isArray(value)) return first(value.map((v, i) => misfitOf(v, items, true, [...path, i])));
  if (!isMap(value)) return undefined;
  const others = additionalProperties ? Object.keys(value).map((name) => misfitOf(value[name], additionalProperties, false, [...path, name])) : [];
  return first([...Object.entries(properties).map(([name, inner]) => misfitOf(value[name], inner, required.includes(name), [...path, name])), ...others]);
}

const first = <T>(list: (T | undefined)[]): T | undefined => list.find((v) => v !== undefined);
