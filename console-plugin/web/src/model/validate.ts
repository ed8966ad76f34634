// What the schema and the webhook refuse, reported before anything is sent. Limits of single fields come from the schema (schema.ts); the other
// rules are those of internal/admission/webhook and of the x-kubernetes-validations of the CRD. The server has the last word: kube/dryrun.ts.
import { DEFAULTS, IMMUTABLE } from '../api/limits';
import { classesOf, type DeviceClass, type DeviceSelector, type LVMCluster, type NodeSelector, type RAIDConfig, type ThinPoolConfig } from '../api/types';
import { minimumDevices } from './capacity';
import { encryptionProblems } from './encryption';
import { msg, type Message } from './message';
import { bytesOf } from './quantity';
import { deviceClassesSchema, isMap, violations, type Schema, type Violation } from './schema';
import { modeOf, pathsOf, selectorsOf } from './selection';

/** What is wrong, and where: a path of fields as the API server names it. */
export interface Problem {
  field: string;
  message: Message;
}

const KiB = 2 ** 10;
const MiB = 2 ** 20;
const GiB = 2 ** 30;

export const classField = (i: number): string => `spec.storage.deviceClasses[${i}]`;

export const TRANSPORTS = ['sata', 'sas', 'nvme', 'virtio', 'usb', 'scsi', 'fc', 'iscsi', 'mmc', 'ata', 'spi', 'fcoe'];

type Check = (c: DeviceClass, at: string, i: number, all: DeviceClass[]) => Problem[];

const problem = (field: string, key: string, values?: Message['values']): Problem => ({ field, message: msg(key, values) });
const when = (holds: boolean, ...args: Parameters<typeof problem>): Problem[] => (holds ? [problem(...args)] : []);

const nameMessage = (): Message => msg('The name must have 1 to 63 lowercase letters, digits or hyphens, and must not start or end with a hyphen.');

/** The messages of fields whose limits need words of their own. */
const limitMessages: Record<string, (v: Violation) => Message> = {
  name: nameMessage,
  existingVolumeGroup: () => msg('Enter the name of the volume group: 1 to 127 letters, digits or the characters _ + . -, not starting with a hyphen.'),
  'thinPoolConfig.name': () => msg('The thin pool name must have 1 to 107 letters, digits or the characters _ + . -, and must not start with a hyphen.'),
  deviceSelectors: ({ value, schema }) => msg('The device class has {{have}} selectors, but at most {{max}} are allowed: label the nodes, and use one selector for the label.', { have: lengthOf(value), max: schema.maxItems ?? 0 }),
  paths: ({ value, schema }) => msg('{{count}} disks are selected, but at most {{max}} are allowed: select disks by properties instead.', { count: lengthOf(value), max: schema.maxItems ?? 0 }),
  'namespaceLimits[].namespace': ({ value }) => msg('{{namespace}} is not the name of a namespace: use 1 to 63 lowercase letters, digits or hyphens, not starting or ending with a hyphen.', { namespace: String(value) }),
  'paths[]': ({ value }) => msg('{{path}} is not a device path: it must start with /dev/, and no part may start with a dot.', { path: String(value) }),
};

const lengthOf = (value: unknown): number => (Array.isArray(value) ? value.length : 0);

function limitMessage(v: Violation): Message {
  const key = v.key.replace(/^deviceSelectors?(\[\])?\./, '').replace('optionalPaths', 'paths');
  const { enum: known, minimum: low, maximum: high, maxItems, maxLength } = v.schema;
  const own = limitMessages[key];
  if (own) return own(v);
  if (known && v.value) return msg('{{value}} is not supported: use one of {{known}}.', { value: String(v.value), known: known.join(', ') });
  if (low !== undefined && high !== undefined) return msg('Must be a whole number from {{low}} to {{high}}.', { low, high });
  if (maxItems !== undefined) return msg('At most {{max}} entries are allowed.', { max: maxItems });
  return maxLength === undefined ? msg('Must be set.') : msg('Must have 1 to {{max}} characters.', { max: maxLength });
}

const limits: Check = (c, at) => violations(c, deviceClassesSchema.items as Schema, at).map((v) => ({ field: v.field, message: limitMessage(v) }));

/** The maximum length of a name, which is a rule of the schema. A name above maxLength violates the schema already. */
const [maxName, maxLengthOfName] = [63, 245];

const names: Check = (c, at, i, all) => [
  ...when((c.name ?? '').length > maxName && (c.name ?? '').length <= maxLengthOfName, `${at}.name`, nameMessage().key),
  ...when(all.findIndex((o) => o.name === c.name) < i, `${at}.name`, msg('Two device classes are named {{name}}: choose another name.').key, { name: c.name }),
];

const defaults: Check = (c, at, i, all) =>
  when(!!c.default && all.findIndex((o) => o.default) < i, `${at}.default`, msg('Only one device class can be the default, and {{name}} already is.').key, {
    name: all.find((o) => o.default)?.name ?? '',
  });

const nodesOf: Check = (c, at) => {
  const says = (r: { operator: string; values?: string[] }) => !['In', 'NotIn'].includes(r.operator) || !!r.values?.length;
  const terms = c.nodeSelector?.nodeSelectorTerms ?? [];
  const empty = terms.every((t) => (t.matchExpressions?.length ?? 0) + (t.matchFields?.length ?? 0) === 0 || !(t.matchExpressions ?? []).every(says));
  return when(!!c.nodeSelector && empty, `${at}.nodeSelector`, msg('No node is selected: select at least one node, or all nodes.').key);
};

const devices: Check = (c, at, _, all) => [
  ...when(
    modeOf(c) === 'all' && all.filter((o) => modeOf(o) !== 'group').length > 1, `${at}.deviceSelector`,
    msg('Device class {{name}} would use every unused device, including those for other device classes: select its disks by path or by properties.').key, { name: c.name },
  ),
  ...when(!!c.deviceSelector && !!c.deviceSelectors?.length, `${at}.deviceSelectors`, msg('deviceSelector and deviceSelectors are mutually exclusive: move deviceSelector into the list deviceSelectors.').key),
  ...selectorsOf(c).flatMap((s, n) => selector(s, c.deviceSelector ? `${at}.deviceSelector` : `${at}.deviceSelectors[${n}]`)),
];

function selector(s: DeviceSelector, at: string): Problem[] {
  const [least, most] = [bytesOf(s.minSize), bytesOf(s.maxSize)];
  const lists = [s.paths, s.optionalPaths, s.models, s.vendors, s.serials, s.transports];
  const empty = lists.every((l) => !l?.length) && s.minSize === undefined && s.maxSize === undefined && s.rotational === undefined && !Object.keys(s.labels ?? {}).length;
  return [
    ...when(empty, at, msg('No disk is selected: select at least one disk, or set at least one property.').key),
    ...when(!!s.forceWipeDevicesAndDestroyAllData && pathsOf(s).length === 0, `${at}.forceWipeDevicesAndDestroyAllData`, msg('Only disks that are selected by path can be wiped: select the disks.').key),
    ...(['minSize', 'maxSize'] as const).flatMap((size) => [
      ...when(s[size] !== undefined && bytesOf(s[size]) === undefined, `${at}.${size}`, msg('{{value}} is not a valid size: enter a size such as 100Gi.').key, { value: String(s[size]) }),
      ...when((bytesOf(s[size]) ?? GiB) < 16 * MiB, `${at}.${size}`, msg('The size must be at least 16Mi: smaller devices are never used.').key),
    ]),
    ...when(least !== undefined && most !== undefined && most < least, `${at}.maxSize`, msg('The maximum size must not be less than the minimum size, {{least}}.').key, { least: String(s.minSize) }),
    ...(s.transports ?? []).flatMap((t, i) => when(!TRANSPORTS.includes(t.toLowerCase()), `${at}.transports[${i}]`, msg('{{transport}} is not a known transport: use one of {{known}}.').key, { transport: t, known: TRANSPORTS.join(', ') })),
  ];
}

const sorted = (_: string, v: unknown): unknown => (isMap(v) ? Object.fromEntries(Object.entries(v).sort(([a], [b]) => a.localeCompare(b))) : v);
const same = (a: unknown, b: unknown): boolean => JSON.stringify(a, sorted) === JSON.stringify(b, sorted);
const meet = (a?: NodeSelector, b?: NodeSelector): boolean => !a || !b || same(a, b);
const clean = (p: string): string => p.replace(/\/+/g, '/').replace(/\/$/, '');

/** A device belongs to one device class of a node, and is named once in it. */
function pathsOnce(all: DeviceClass[]): Problem[] {
  const seen: { c: DeviceClass; node?: NodeSelector; at: string; path: string }[] = [];
  const problems: Problem[] = [];
  all.forEach((c, i) =>
    selectorsOf(c).forEach((s, n) => {
      const at = c.deviceSelector ? `${classField(i)}.deviceSelector` : `${classField(i)}.deviceSelectors[${n}]`;
      for (const list of ['paths', 'optionalPaths'] as const)
        (s[list] ?? []).forEach((raw, p) => {
          const here = { c, node: s.nodeSelector, at: `${at}.${list}[${p}]`, path: clean(raw) };
          const other = seen.find((o) => o.path === here.path && meet(o.node, here.node) && (o.c === c || meet(o.c.nodeSelector, c.nodeSelector)));
          if (other?.c === c) problems.push(problem(here.at, msg('{{path}} is listed twice in device class {{name}}: remove one of them.').key, { path: raw, name: c.name }));
          else if (other) problems.push(problem(here.at, msg('{{path}} is also listed in device class {{other}}: a device can belong to only one device class.').key, { path: raw, other: other.c.name }));
          seen.push(here);
        });
    }),
  );
  return problems;
}

const pools: Check = (c, at) => [
  ...when(!!c.thinPoolConfig && !!c.raidConfig, `${at}.raidConfig`, msg('Redundancy and a thin pool are mutually exclusive: volumes with redundancy are thick.').key),
  ...(c.thinPoolConfig ? pool(c, c.thinPoolConfig, at) : []),
  ...(c.raidConfig ? raid(c, c.raidConfig, at) : []),
];

function pool(c: DeviceClass, p: ThinPoolConfig, of: string): Problem[] {
  const at = `${of}.thinPoolConfig`;
  const [chunk, metadata, stripe] = [bytesOf(p.chunkSize), bytesOf(p.metadataSize), bytesOf(p.stripeSize)];
  const extend = p.autoExtend;
  return [
    ...when(!!extend && (extend.thresholdPercent ?? DEFAULTS['thinPoolConfig.autoExtend.thresholdPercent']) > (p.highWaterMarkPercent ?? DEFAULTS['thinPoolConfig.highWaterMarkPercent']), `${at}.autoExtend.thresholdPercent`, msg('The extension threshold must not be greater than the high-water mark: the thin pool would reject new volumes before it is extended.').key),
    ...when(p.chunkSize !== undefined && (chunk === undefined || chunk % (64 * KiB) !== 0 || chunk < 64 * KiB || chunk > GiB), `${at}.chunkSize`, msg('The chunk size must be a multiple of 64Ki from 64Ki to 1Gi.').key),
    ...when(p.chunkSize !== undefined && p.chunkSizeCalculationPolicy === 'Host', `${at}.chunkSize`, msg('chunkSize requires chunkSizeCalculationPolicy Static.').key),
    ...when(p.stripeSize !== undefined && p.stripes === undefined, `${at}.stripeSize`, msg('stripeSize requires stripes.').key),
    ...when(p.stripeSize !== undefined && (!isStripeSize(stripe) || (stripe ?? 0) > 4 * MiB), `${at}.stripeSize`, msg('stripeSize of a thin pool must be a power of two from 4Ki to 4Mi. Remove it for the default of 64Ki.').key),
    ...when(p.metadataSize !== undefined && (metadata === undefined || metadata < 2 * MiB || metadata > 16 * GiB), `${at}.metadataSize`, msg('The metadata size must be from 2Mi to 16Gi.').key),
    ...when(p.metadataSize !== undefined && p.metadataSizeCalculationPolicy !== 'Static', `${at}.metadataSize`, msg('metadataSize requires metadataSizeCalculationPolicy Static.').key),
    ...enough(c, p.stripes ?? 0, `${at}.stripes`, msg('The striped thin pool requires at least {{least}} disks on each node, but only {{named}} are selected: select more disks.').key),
  ];
}

const isStripeSize = (size: number | undefined): boolean => size !== undefined && size >= 4 * KiB && Number.isInteger(Math.log2(size));

const mirrored = (r: RAIDConfig): boolean => r.type === 'raid1' || r.type === 'raid10';

/** Reports fewer disks than the volumes or the thin pool require, if the disks are selected by path. */
function enough(c: DeviceClass, least: number, field: string, key: string, values: Message['values'] = {}): Problem[] {
  const named = new Set(selectorsOf(c).flatMap(pathsOf)).size;
  const onlyNamed = selectorsOf(c).length > 0 && selectorsOf(c).every((s) => pathsOf(s).length > 0);
  return when(onlyNamed && named < least, field, key, { ...values, least, named });
}

function raid(c: DeviceClass, r: RAIDConfig, at: string): Problem[] {
  const size = bytesOf(r.stripeSize);
  return [
    ...when(r.mirrors !== undefined && !mirrored(r), `${at}.raidConfig.mirrors`, msg('Additional copies (mirrors) can only be set for raid1 and raid10.').key),
    ...when(r.type === 'raid10' && r.mirrors !== undefined && r.mirrors !== 1, `${at}.raidConfig.mirrors`, msg('Additional copies (mirrors) must be 1 for raid10.').key),
    ...when(r.stripes !== undefined && r.type === 'raid1', `${at}.raidConfig.stripes`, msg('Stripes cannot be set for raid1.').key),
    ...when(r.stripes !== undefined && r.type === 'raid6' && r.stripes < 3, `${at}.raidConfig.stripes`, msg('raid6 requires at least 3 stripes.').key),
    ...when(r.stripeSize !== undefined && (r.type === 'raid1' || !isStripeSize(size)), `${at}.raidConfig.stripeSize`, msg('The stripe size must be a power of two of at least 4Ki, and cannot be set for raid1.').key),
    ...enough(c, minimumDevices(r), c.deviceSelector ? `${at}.deviceSelector` : `${at}.deviceSelectors`, msg('{{level}} requires at least {{least}} disks on each node, but only {{named}} are selected: select more disks.').key, { level: r.type }),
  ];
}

/** The fields that existingVolumeGroup excludes. */
const ofManagedGroup = ['deviceSelector', 'deviceSelectors', 'deviceDiscoveryPolicy', 'raidConfig', 'deviceRequests', 'adopt', 'adoptClusters', 'deletedVolumeRetention'] as const;

const has = (v: unknown): boolean => v !== undefined && !(Array.isArray(v) && v.length === 0);

const groups: Check = (c, at, i, all) => {
  const own = `${at}.existingVolumeGroup`;
  const p = c.thinPoolConfig;
  if (c.existingVolumeGroup === undefined)
    return when(!!c.existingVolumeGroupConfig, `${at}.existingVolumeGroupConfig`, msg('existingVolumeGroupConfig requires existingVolumeGroup.').key);
  return [
    ...when(ofManagedGroup.some((f) => has(c[f])), own, msg('deviceSelector, deviceSelectors, deviceDiscoveryPolicy, raidConfig, deviceRequests, adopt, adoptClusters and deletedVolumeRetention cannot be set together with existingVolumeGroup: the volume group and its devices are not changed.').key),
    ...when(has(c.approval), own, msg('approval cannot be set together with existingVolumeGroup: no device is added to the volume group.').key),
    ...when(!!p && (has(p.autoExtend) || has(p.chunkSize) || has(p.metadataSize) || has(p.stripes) || p.metadataSizeCalculationPolicy === 'Static'), own, msg('autoExtend, chunkSize, metadataSize, stripes and metadataSizeCalculationPolicy Static cannot be set together with existingVolumeGroup: the thin pool must exist and is not changed.').key),
    ...(c.existingVolumeGroupConfig ? groupConfig(c, c.existingVolumeGroupConfig, `${own}Config`) : []),
    ...all.flatMap((o, j) => (o !== c && meet(o.nodeSelector, c.nodeSelector) ? taken(c, o, j < i, own) : [])),
  ];
};

/** The options of lvcreate that the API accepts (api/v1alpha1, ExistingVolumeGroupConfig). */
const lvcreateOption = /^--(nosync|type=(linear|striped|raid0|raid0_meta|raid1|raid4|raid5(_[a-z]{1,2})?|raid6(_[a-z0-9_]{2,6})?|raid10)|(mirrors|stripes)=[0-9]{1,3}|(stripesize|regionsize|readahead|minrecoveryrate|maxrecoveryrate)=[0-9]{1,12}[a-zA-Z]{0,4}|readahead=(auto|none))$/;

function groupConfig(c: DeviceClass, g: NonNullable<DeviceClass['existingVolumeGroupConfig']>, at: string): Problem[] {
  const [size, options] = [bytesOf(g.stripeSize), g.lvcreateOptions ?? []];
  return [
    ...when(!!c.thinPoolConfig && (g.allocation !== undefined || g.stripes !== undefined || options.length > 0), `${at}.stripes`, msg('allocation, stripes and lvcreateOptions of existingVolumeGroupConfig cannot be set together with thinPoolConfig: the blocks of thin volumes are where the thin pool has them.').key),
    ...when(g.allocation === 'SingleDevice' && (g.stripes !== undefined || options.some((o) => o !== '--type=linear' && !o.startsWith('--readahead='))), `${at}.allocation`, msg('allocation SingleDevice and stripes, or options of lvcreate other than --readahead and --type=linear, are mutually exclusive: their volumes are on several devices.').key),
    ...when(g.stripeSize !== undefined && g.stripes === undefined, `${at}.stripeSize`, msg('stripeSize requires stripes.').key),
    ...when(g.stripeSize !== undefined && !isStripeSize(size), `${at}.stripeSize`, msg('The stripe size must be a power of two of at least 4Ki. Remove it for the default of 64Ki.').key),
    ...when(g.stripes !== undefined && options.some((o) => o.startsWith('--stripes')), `${at}.stripes`, msg('stripes and --stripes or --stripesize in lvcreateOptions are mutually exclusive: remove one of them.').key),
    ...options.flatMap((o, i) => when(!lvcreateOption.test(o), `${at}.lvcreateOptions[${i}]`, msg('{{option}}: must be --nosync, or one of --type (linear, striped or a type of RAID), --mirrors, --stripes, --stripesize, --regionsize, --readahead, --minrecoveryrate and --maxrecoveryrate with = and a value, for example --type=raid1.').key, { option: o })),
  ];
}

/** Why a device class cannot have its volume group because of another one (internal/admission/webhook/existing.go, groupTaken). */
function taken(c: DeviceClass, other: DeviceClass, later: boolean, at: string): Problem[] {
  const [pool, others] = [c.thinPoolConfig?.name ?? '', other.thinPoolConfig?.name ?? ''];
  if (other.existingVolumeGroup === undefined)
    return when(other.name === c.existingVolumeGroup, at, msg('{{group}} is the volume group of device class {{name}}, which creates and extends it: name another volume group, or rename one of the device classes.').key, { group: other.name, name: other.name });
  if (!later || other.existingVolumeGroup !== c.existingVolumeGroup || pool !== others) return [];
  return pool === ''
    ? [problem(at, msg('The volume group already has device class {{name}} for thick volumes: a volume group can have one device class for thick volumes, and one for each thin pool.').key, { name: other.name })]
    : [problem(at, msg('Thin pool {{pool}} already has device class {{name}}: name another thin pool, or remove one of the device classes.').key, { pool, name: other.name })];
}

/** A volume group is either used or destroyed (internal/admission/webhook: adoptedAndWiped, existingKept). */
const wiped: Check = (c, at, _, all) => {
  const wipes = selectorsOf(c).flatMap((s, n) => (s.wipeVolumeGroups ?? []).map((group, i) => ({ s, group, at: `${c.deviceSelector ? `${at}.deviceSelector` : `${at}.deviceSelectors[${n}]`}.wipeVolumeGroups[${i}]` })));
  return wipes.flatMap((w) => [
    ...when((c.adopt ?? []).some((a) => a.volumeGroupUUID === w.group), w.at, msg('Device class {{name}} adopts the volume group {{group}}: remove it from adopt to destroy it with its volumes, or from wipeVolumeGroups to use it.').key, { name: c.name, group: w.group }),
    ...all.filter((o) => o.existingVolumeGroup === w.group && meet(o.nodeSelector, c.nodeSelector) && meet(o.nodeSelector, w.s.nodeSelector)).map((o) => problem(w.at, msg('Device class {{name}} uses the volume group {{group}} (existingVolumeGroup): remove it from wipeVolumeGroups.').key, { name: o.name, group: w.group })),
  ]);
};

const adoptions: Check = (c, at) =>
  (c.adopt ?? []).flatMap((a, i, list) => when(list.findIndex((o) => o.node === a.node) < i, `${at}.adopt[${i}]`, msg('A device class can adopt only one volume group of node {{node}}: remove one of them.').key, { node: a.node }));

const thick: Check = (c, of) => {
  const [config, at] = [c.thickConfig, `${of}.thickConfig`];
  if (!config) return [];
  const size = bytesOf(config.stripeSize);
  return [
    ...when(!!c.thinPoolConfig || !!c.raidConfig || c.existingVolumeGroup !== undefined, at, msg('thickConfig cannot be set together with thinPoolConfig, raidConfig or existingVolumeGroup.').key),
    ...when(config.stripeSize !== undefined && config.stripes === undefined, `${at}.stripeSize`, msg('stripeSize requires stripes.').key),
    ...when(config.stripeSize !== undefined && (!isStripeSize(size) || (size ?? 0) > 4 * MiB), `${at}.stripeSize`, msg('stripeSize must be a power of two from 4Ki to 4Mi. Remove it for the default of 64Ki.').key),
    ...when(config.stripes !== undefined && config.allocation === 'SingleDevice', `${at}.stripes`, msg('stripes and allocation SingleDevice are mutually exclusive: stripes are on several devices.').key),
    ...enough(c, config.stripes ?? 0, `${at}.stripes`, msg('Striped volumes require at least {{least}} disks on each node, but only {{named}} are selected: select more disks.').key),
  ];
};

const data: Check = (c, at) => [
  ...encryptionProblems(c, at),
  ...when(!!c.thinPoolConfig && c.eraseOnDelete === 'Zero', `${at}.eraseOnDelete`, msg('eraseOnDelete Zero is not possible with a thin pool, which zeros the blocks that it allocates: use Discard or None.').key),
  ...when(!c.thinPoolConfig && c.trim?.poolUsageThresholdPercent !== undefined, `${at}.trim.poolUsageThresholdPercent`, msg('poolUsageThresholdPercent requires a thin pool.').key),
];

/** Each namespace has at most one limit, which is a size (internal/admission/webhook/namespacelimits.go). */
const shares: Check = (c, at) =>
  (c.namespaceLimits ?? []).flatMap((limit, i, list) => {
    const [own, bytes, first] = [`${at}.namespaceLimits[${i}]`, bytesOf(limit.perNode), list.findIndex((o) => (o.namespace ?? '') === (limit.namespace ?? ''))];
    return [
      ...when(first < i, `${own}.namespace`, msg('Limit {{number}} is for the same namespaces: remove one of them.').key, { number: first + 1 }),
      ...when(bytes === undefined || bytes < 0, `${own}.perNode`, msg('The size must be a number of bytes that is not negative, for example 100Gi, or 0 to allow no volume.').key),
    ];
  });

const checks: Check[] = [limits, names, defaults, nodesOf, devices, pools, groups, adoptions, wiped, thick, data, shares];

/** A copy of a volume needs some bandwidth (internal/admission/webhook/volumecopy.go). */
const copies = (cluster: LVMCluster): Problem[] => {
  const limit = cluster.spec?.volumeCopy?.bandwidthLimit;
  const bytes = limit === undefined ? undefined : bytesOf(limit);
  const possible = limit === undefined || (bytes !== undefined && Number.isInteger(bytes) && bytes >= 2 ** 20);
  return when(!possible, 'spec.volumeCopy.bandwidthLimit', msg('The limit must be a number of bytes per second of at least 1Mi, for example 100Mi: without a limit, remove the field.').key);
};

/** What is wrong with a cluster, in the order of its fields. */
export function validate(cluster: LVMCluster): Problem[] {
  const all = classesOf(cluster);
  return [...all.flatMap((c, i) => checks.flatMap((check) => check(c, classField(i), i, all))), ...pathsOnce(all), ...copies(cluster)];
}

/** Why a field of a device class that exists cannot be changed. The keys are paths below the device class. */
export const immutable: Record<string, Message> & Record<(typeof IMMUTABLE)[number], Message> = {
  name: msg('The name is immutable, because the volume groups and the StorageClass already use it: create a new device class.'),
  fstype: msg('The file system is immutable, because StorageClass parameters are: create a new device class.'),
  provisioning: msg('The volume type is immutable, because the volume groups are already thin or thick: create a new device class.'),
  existingVolumeGroup: msg('The volume group is immutable, because the volumes of the device class are in it: create a new device class.'),
  'thinPoolConfig.name': msg('The thin pool name is immutable, because the thin pools already exist: create a new device class.'),
  'thinPoolConfig.sizePercent': msg('Immutable: to extend existing thin pools, use automatic extension or add devices.'),
  'thinPoolConfig.chunkSize': msg('The chunk size of a thin pool cannot be changed.'),
  'thinPoolConfig.stripes': msg('Immutable, because the data of existing thin pools is not moved: create a new device class.'),
  raidConfig: msg('Immutable, because a change does not apply to existing volumes: create a new device class.'),
  'storageClassOptions.additionalParameters': msg('Immutable, because StorageClasses are: create a new device class.'),
  'storageClassOptions.reclaimPolicy': msg('Immutable, because StorageClasses are: create a new device class.'),
  'storageClassOptions.volumeBindingMode': msg('Immutable, because StorageClasses are: create a new device class.'),
};

/** What a change may not do. */
export function validateChange(before: LVMCluster, after: LVMCluster): Problem[] {
  const [old, now] = [classesOf(before), classesOf(after)];
  const gone = old.filter((c) => !now.some((n) => n.name === c.name));
  return [
    ...when(old.length > 0 && now.length === 0, 'spec.storage.deviceClasses', msg('The last device class cannot be removed: delete the LVMCluster instead.').key),
    ...gone.flatMap((c) => when(!!c.default && !now.some((n) => n.default), 'spec.storage.deviceClasses', msg('Device class {{name}} is the default and cannot be removed: first set another device class as the default, or clear the default in this one.').key, { name: c.name })),
    ...now.flatMap((c, i) => {
      const was = old.find((o) => o.name === c.name);
      return was ? kept(was, c, classField(i)) : [];
    }),
  ];
}

/** The defaults of immutable fields. Those of a StorageClass are not in the schema. */
const defaultOf: Record<string, unknown> = { ...DEFAULTS, 'storageClassOptions.reclaimPolicy': 'Delete', 'storageClassOptions.volumeBindingMode': 'WaitForFirstConsumer' };

const valueAt = (c: DeviceClass, path: string): unknown => path.split('.').reduce<unknown>((v, name) => (isMap(v) ? v[name] : undefined), c) ?? defaultOf[path];

function kept(was: DeviceClass, is: DeviceClass, at: string): Problem[] {
  const changed = (key: string, a: unknown, b: unknown, reason = key): Problem[] => {
    const why = immutable[reason];
    return same(a, b) || !why ? [] : [{ field: `${at}.${key}`, message: why }];
  };
  const [p, q] = [was.thinPoolConfig, is.thinPoolConfig];
  const policy = 'thinPoolConfig.chunkSizeCalculationPolicy';
  const grows = (bytesOf(q?.metadataSize) ?? 0) >= (bytesOf(p?.metadataSize) ?? 0) || q?.metadataSizeCalculationPolicy !== 'Static';
  return [
    // As in the API server, a field is compared if both have it.
    ...IMMUTABLE.filter((path) => (p && q) || !path.startsWith('thinPoolConfig.')).flatMap((path) => {
      const [a, b] = [valueAt(was, path), valueAt(is, path)];
      return a === undefined || b === undefined ? [] : changed(path, a, b);
    }),
    ...changed('thinPoolConfig', !!p, !!q, 'provisioning'),
    ...changed('raidConfig', !!was.raidConfig, !!is.raidConfig),
    ...when((was.existingVolumeGroup === undefined) !== (is.existingVolumeGroup === undefined), `${at}.existingVolumeGroup`, msg('existingVolumeGroup cannot be added to or removed from an existing device class, because its volumes are in another volume group: create a new device class.').key),
    ...(p && q
      ? [
          ...changed('thinPoolConfig.stripes', [p.stripes, bytesOf(p.stripeSize)], [q.stripes, bytesOf(q.stripeSize)]),
          ...changed('thinPoolConfig.chunkSize', [valueAt(was, policy), bytesOf(p.chunkSize)], [valueAt(is, policy), bytesOf(q.chunkSize)]),
          ...when(!grows, `${at}.thinPoolConfig.metadataSize`, msg('The metadata size was {{was}}: the metadata of a thin pool cannot be reduced.').key, { was: String(p.metadataSize) }),
        ]
      : []),
  ];
}
