// The schema of an LVMCluster: api/limits.ts is generated from the CRD.
import { specSchema } from '../api/limits';

export interface Schema {
  /** A quantity is a string or a number. */
  type: 'object' | 'array' | 'string' | 'integer' | 'boolean' | 'quantity';
  properties?: Record<string, Schema>;
  items?: Schema;
  additionalProperties?: Schema;
  required?: string[];
  enum?: string[];
  minimum?: number;
  maximum?: number;
  pattern?: string;
  minLength?: number;
  maxLength?: number;
  maxItems?: number;
}

const child = (s: Schema | undefined, name: string): Schema | undefined => (s?.items ?? s)?.properties?.[name];

function fieldIn(s: Schema, path: string): Schema {
  const found = path.split('.').reduce<Schema | undefined>(child, s);
  if (!found) throw new Error(`the schema of LVMCluster has no field ${path}`);
  return found;
}

export const deviceClassesSchema = fieldIn(specSchema, 'storage.deviceClasses');

/** Returns the schema of a field of a device class. */
export const fieldOf = (path: string): Schema => fieldIn(deviceClassesSchema, path);

/** Returns the limits of a number in a device class. */
export function rangeOf(path: string): { low: number; high: number } {
  const { minimum: low = 0, maximum: high = Number.MAX_SAFE_INTEGER } = fieldOf(path);
  return { low, high };
}

export const isMap = (v: unknown): v is Record<string, unknown> => typeof v === 'object' && v !== null && !Array.isArray(v);

/** A value that its schema refuses. */
export interface Violation {
  /** The value's path as the API server writes it. */
  field: string;
  /** The same without indexes: models[] is an item of models. */
  key: string;
  value: unknown;
  schema: Schema;
}

/** Returns the values that are missing or outside of the limits of their schema. Types are checked in yaml.ts. */
export function violations(value: unknown, schema: Schema, field: string, key = ''): Violation[] {
  const below = (name: string): string => (key ? `${key}.${name}` : name);
  if (schema.properties && isMap(value)) {
    const required = schema.required ?? [];
    return Object.entries(schema.properties).flatMap(([name, inner]) =>
      isSet(value[name]) || required.includes(name) ? violations(value[name], inner, `${field}.${name}`, below(name)) : [],
    );
  }
  const own = fits(value, schema) ? [] : [{ field, key, value, schema }];
  const { items } = schema;
  if (!items || !Array.isArray(value)) return own;
  return [...own, ...value.flatMap((item, i) => violations(item, items, `${field}[${i}]`, `${key}[]`))];
}

const isSet = (value: unknown): boolean => value !== undefined && value !== null;

function fits(value: unknown, s: Schema): boolean {
  if (!isSet(value) || (s.enum && !s.enum.includes(value as string))) return false;
  if (s.type === 'integer') return Number.isInteger(value) && Number(value) >= (s.minimum ?? -Infinity) && Number(value) <= (s.maximum ?? Infinity);
  if (Array.isArray(value)) return value.length <= (s.maxItems ?? Infinity);
  if (typeof value !== 'string' || s.type !== 'string') return true;
  return value.length >= (s.minLength ?? 0) && value.length <= (s.maxLength ?? Infinity) && (!s.pattern || new RegExp(s.pattern).test(value));
}
