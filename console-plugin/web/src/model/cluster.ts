// Changes of an LVMCluster. Each one returns a new object and leaves the rest as it is.
import { DEFAULTS } from '../api/limits';
import { API_VERSION, classesOf, type DeviceClass, type LVMCluster, type RAIDType, type ThinPoolConfig } from '../api/types';

export const newCluster = (namespace: string, name = 'my-lvmcluster'): LVMCluster => ({
  apiVersion: API_VERSION, kind: 'LVMCluster', metadata: { name, namespace }, spec: {},
});

const newPool = (): ThinPoolConfig => ({ name: 'thin-pool-1', sizePercent: DEFAULTS['thinPoolConfig.sizePercent'], overprovisionRatio: 10 });

/** A device class as the form begins with it: thin, nothing ticked, default if it is the first. */
export function newClass(others: DeviceClass[]): DeviceClass {
  let n = others.length + 1;
  while (others.some((c) => c.name === `vg${n}`)) n++;
  return {
    name: `vg${n}`,
    ...(others.some((c) => c.default) ? {} : { default: true }),
    fstype: DEFAULTS.fstype,
    deviceSelector: { optionalPaths: [] },
    thinPoolConfig: newPool(),
  };
}

/** What is shown and applied: without what the server alone writes. */
export function writable(cluster: LVMCluster): LVMCluster {
  const { name, namespace, labels, annotations } = cluster.metadata;
  const metadata = Object.fromEntries(Object.entries({ name, namespace, labels, annotations }).filter(([, v]) => v !== undefined));
  const { status: _, metadata: __, ...rest } = cluster;
  return { ...rest, metadata } as LVMCluster;
}

export const withClasses = (cluster: LVMCluster, deviceClasses: DeviceClass[]): LVMCluster => ({
  ...cluster, spec: { ...cluster.spec, storage: { ...cluster.spec?.storage, deviceClasses } },
});

export const withClass = (cluster: LVMCluster, index: number, c: DeviceClass): LVMCluster =>
  withClasses(cluster, classesOf(cluster).map((old, i) => (i === index ? c : old)));

export type Provisioning = 'thin' | 'thick' | RAIDType;

export const provisioningOf = (c: DeviceClass): Provisioning => c.raidConfig?.type ?? (c.thinPoolConfig ? 'thin' : 'thick');

/** Changes the volume type, and removes settings that it excludes. */
export function withProvisioning(c: DeviceClass, kind: Provisioning): DeviceClass {
  if (kind === provisioningOf(c)) return c;
  const { thinPoolConfig: _, raidConfig: __, thickConfig: ___, ...others } = c;
  if (kind === 'thin') return { ...withField(others, 'eraseOnDelete', others.eraseOnDelete === 'Zero' ? undefined : others.eraseOnDelete), thinPoolConfig: newPool() };
  const rest = others.trim ? { ...others, trim: withField(others.trim, 'poolUsageThresholdPercent', undefined) } : others;
  if (kind === 'thick') return rest;
  return { ...rest, raidConfig: { type: kind } };
}

/** Sets one field of an object; undefined takes it out. */
export function withField<T extends object, K extends keyof T>(object: T, key: K, value: T[K] | undefined): T {
  const next = { ...object };
  if (value === undefined) delete next[key];
  else next[key] = value;
  return next;
}
