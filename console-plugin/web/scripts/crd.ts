// Generates what the pages know about the API from the CRDs: node --import tsx scripts/crd.ts [--check]. With --check, it fails if a file
// is stale, and writes nothing.
import { existsSync, readFileSync, writeFileSync } from 'node:fs';
import openapiTS, { astToString, type OpenAPI3 } from 'openapi-typescript';
import ts from 'typescript';
import { parse } from 'yaml';
import type { Schema } from '../src/model/schema.ts';

const crds = ['lvm.topolvm.io_lvmclusters', 'lvm.topolvm.io_lvmvolumegroupnodestatuses', 'lvm.topolvm.io_lvmrecoveries', 'lvm.topolvm.io_lvmdeviceapprovals', 'lvm.topolvm.io_volumemoves', 'topolvm.io_logicalvolumes'];
const header = '// Generated from config/crd by `make generate`. Do not edit.\n';

/** A schema as a CRD has it. */
interface CRDSchema {
  type: Exclude<Schema['type'], 'quantity'>;
  properties?: Record<string, CRDSchema>;
  items?: CRDSchema;
  additionalProperties?: CRDSchema;
  description?: string;
  default?: unknown;
  'x-kubernetes-int-or-string'?: boolean;
  'x-kubernetes-validations'?: { rule: string }[];
}
interface CRD {
  spec: { names: { kind: string }; versions: { schema: { openAPIV3Schema: CRDSchema } }[] };
}

/** read returns the kind of a CRD, and its schema without the fields that every kind has. */
function read(file: string): [string, CRDSchema] {
  const { spec } = parse(readFileSync(`../../config/crd/${file}.yaml`, 'utf8')) as CRD;
  const schema = spec.versions[0]?.schema.openAPIV3Schema;
  if (!schema?.properties) throw new Error(`${file} has no schema`);
  const { apiVersion: _, kind: __, metadata: ___, ...properties } = schema.properties;
  return [spec.names.kind, undescribed({ ...schema, properties })];
}

/** mapped applies a function to the schemas in a schema. */
function mapped(s: CRDSchema, of: (s: CRDSchema) => CRDSchema): CRDSchema {
  return {
    ...s,
    ...(s.properties && { properties: Object.fromEntries(Object.entries(s.properties).map(([name, p]) => [name, of(p)])) }),
    ...(s.items && { items: of(s.items) }),
    ...(s.additionalProperties && { additionalProperties: of(s.additionalProperties) }),
  };
}

/** undescribed removes the descriptions: a change of a comment in api/v1alpha1 does not change the types. */
function undescribed({ description: _, ...s }: CRDSchema): CRDSchema {
  return mapped(s as CRDSchema, undescribed);
}

async function types(kinds: [string, CRDSchema][]): Promise<string> {
  const document = { openapi: '3.0.0', info: { title: 'CRDs', version: 'v1' }, paths: {}, components: { schemas: Object.fromEntries(kinds) } };
  const all = await openapiTS(document as unknown as OpenAPI3, { defaultNonNullable: false, silent: true });
  const components = all.filter((node) => ts.isInterfaceDeclaration(node) && node.name.text === 'components');
  return header + astToString(components);
}

const kept = ['properties', 'items', 'additionalProperties', 'required', 'enum', 'minimum', 'maximum', 'pattern', 'minLength', 'maxLength', 'maxItems'];

/** limits reduces a schema to what the pages check. */
function limits(s: CRDSchema): CRDSchema {
  if (s['x-kubernetes-int-or-string']) return { type: 'quantity' } as unknown as CRDSchema;
  return { type: s.type, ...Object.fromEntries(Object.entries(mapped(s, limits)).filter(([key]) => kept.includes(key))) };
}

/** immutable returns the fields below a schema that cannot change once they are set: the rules self == oldSelf and self.x == oldSelf.x. */
function immutable(s: CRDSchema, path = ''): string[] {
  const below = (name: string): string => (path ? `${path}.${name}` : name);
  const own = (s['x-kubernetes-validations'] ?? []).flatMap(({ rule }) => {
    if (rule === 'self == oldSelf') return [path];
    const [, name] = /^self\.(\w+) == oldSelf\.\1$/.exec(rule) ?? [];
    return name ? [below(name)] : [];
  });
  return [...own, ...Object.entries(s.properties ?? {}).flatMap(([name, p]) => immutable(p, below(name)))];
}

/** defaults returns the defaults of the fields below a schema, by their paths. Those in lists are left out. */
function defaults(s: CRDSchema, path = ''): Record<string, unknown> {
  const all = Object.entries(s.properties ?? {}).map(([name, p]) => defaults(p, path ? `${path}.${name}` : name));
  return Object.assign({}, ...(s.default === undefined ? [] : [{ [path]: s.default }]), ...all) as Record<string, unknown>;
}

function constants(kinds: [string, CRDSchema][]): string {
  const spec = kinds.find(([kind]) => kind === 'LVMCluster')?.[1].properties?.['spec'];
  const deviceClass = spec?.properties?.['storage']?.properties?.['deviceClasses']?.items;
  if (!spec || !deviceClass) throw new Error('the CRD of LVMCluster has no device classes');
  return `${header}import type { Schema } from '../model/schema';

export const specSchema: Schema = ${JSON.stringify(limits(spec), null, 2)};

/** Defaults of the fields of a device class. */
export const DEFAULTS = ${JSON.stringify(defaults(deviceClass), null, 2)} as const;

/** Fields of a device class that cannot change once they are set. */
export const IMMUTABLE = ${JSON.stringify(immutable(deviceClass), null, 2)} as const;
`;
}

const kinds = crds.map(read);
const files = { 'src/api/generated.ts': await types(kinds), 'src/api/limits.ts': constants(kinds) };
for (const [file, text] of Object.entries(files)) {
  if (!process.argv.includes('--check')) writeFileSync(file, text);
  else if (!existsSync(file) || readFileSync(file, 'utf8') !== text) {
    console.error(`stale: console-plugin/web/${file}. Run: make generate`);
    process.exitCode = 1;
  }
}
