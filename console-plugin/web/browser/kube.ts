// Objects of the cluster as an administrator, the operator and the node agents write them, through the real API server.
import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import type { Device, LogicalVolume, LVMCluster, LVMRecovery, NodeStatus, PersistentVolume, PhysicalVolumeStatus, RecoveryPlan, VGStatus, VolumeMove } from '../src/api/types';

export const url = process.env['CONSOLE_URL'] ?? '';
assert.ok(url, 'CONSOLE_URL is not set: run `make test-long ITEMS=console/`, which starts what is needed');
/** The operator's namespace. */
export const namespace = process.env['CONSOLE_NAMESPACE'] ?? '';
assert.ok(namespace, 'CONSOLE_NAMESPACE is not set: run `make test-long ITEMS=console/`, which sets it');

/** How long the tests wait for what happens within seconds on a machine with nothing else to do, in milliseconds. */
export const patience = 120_000;

const GiB = 2 ** 30;
const lvm = `/api/kubernetes/apis/lvm.topolvm.io/v1alpha1/namespaces/${namespace}`;
export const paths = {
  clusters: `${lvm}/lvmclusters`, statuses: `${lvm}/lvmvolumegroupnodestatuses`, recoveries: `${lvm}/lvmrecoveries`, approvals: `${lvm}/lvmdeviceapprovals`, moves: `${lvm}/volumemoves`, nodes: '/api/kubernetes/api/v1/nodes',
  events: `/api/kubernetes/api/v1/namespaces/${namespace}/events`, storageClasses: '/api/kubernetes/apis/storage.k8s.io/v1/storageclasses',
  claims: '/api/kubernetes/api/v1/namespaces/default/persistentvolumeclaims', volumes: '/api/kubernetes/apis/topolvm.io/v1/logicalvolumes', persistentVolumes: '/api/kubernetes/api/v1/persistentvolumes',
};

/** What the cluster answers, as it is. */
export async function read(method: string, path: string, body?: unknown, type = 'application/json'): Promise<string> {
  const response = await fetch(url + path, {
    method, headers: { Cookie: 'csrf-token=test', 'X-CSRFToken': 'test', 'Content-Type': type }, ...(body ? { body: typeof body === 'string' ? body : JSON.stringify(body) } : {}),
  });
  const text = await response.text();
  // A kind that was just installed is not served at once.
  if (response.status === 429) return new Promise((done) => setTimeout(done, 1000)).then(() => read(method, path, body, type));
  if (!response.ok) throw Object.assign(new Error(`${method} ${path}: ${response.status} ${text}`), { status: response.status });
  return text;
}

export const request = async <T>(method: string, path: string, body?: unknown, type?: string): Promise<T> => JSON.parse(await read(method, path, body, type)) as T;

const merge = 'application/merge-patch+json';

export async function makeNode(name: string, labels: Record<string, string> = {}, taints?: { key: string; effect: string }[]): Promise<void> {
  await request('POST', paths.nodes, { apiVersion: 'v1', kind: 'Node', metadata: { name, labels: { 'kubernetes.io/hostname': name, ...labels } }, spec: { taints } });
  // Admission marks a new node as not ready, which the node controller takes away.
  await request('PATCH', `${paths.nodes}/${name}`, { spec: { taints: taints ?? null } }, merge);
  await request('PATCH', `${paths.nodes}/${name}/status`, { status: { conditions: [{ type: 'Ready', status: 'True', reason: 'KubeletReady', lastHeartbeatTime: null, lastTransitionTime: new Date().toISOString() }] } }, merge);
}

const observed = (ok: boolean) => ({
  type: 'DevicesObserved', status: ok ? 'True' : 'False', reason: ok ? 'DevicesObserved' : 'ObservationFailed', message: ok ? '' : 'lsblk: it did not answer within 30 s',
  lastTransitionTime: new Date().toISOString(), observedGeneration: 1,
});

/** What a node agent writes. */
export async function tell(node: string, devices: Device[], groups: VGStatus[] = [], ok = true): Promise<void> {
  const object: NodeStatus = { apiVersion: 'lvm.topolvm.io/v1alpha1', kind: 'LVMVolumeGroupNodeStatus', metadata: { name: node, namespace } };
  await request('POST', paths.statuses, object).catch((e: { status?: number }) => {
    if (e.status !== 409) throw e;
  });
  await request('PATCH', `${paths.statuses}/${node}/status`, { status: { conditions: [observed(ok)], devices, nodeStatus: groups } }, merge);
}

const condition = (type: string, status: string, reason: string, message = '') => ({ type, status, reason, message, lastTransitionTime: new Date().toISOString() });

/** What the operator writes; nodes are the states of volume group vg1 on them. */
export async function judge(name: string, state: string, groups: string, message = '', nodes: Record<string, string> = {}): Promise<void> {
  const { metadata } = await request<LVMCluster>('GET', `${paths.clusters}/${name}`);
  const ready = state === 'Ready';
  const status = {
    state, ready, volumeGroups: groups, observedGeneration: metadata.generation,
    deviceClassStatuses: Object.keys(nodes).length ? [{ name: 'vg1', nodeStatus: Object.entries(nodes).map(([node, status]) => ({ node, name: 'vg1', status })) }] : [],
    conditions: [
      condition('Ready', ready ? 'True' : 'False', state, message),
      condition('ResourcesAvailable', 'True', 'ResourcesAvailable'),
      condition('VolumeGroupsReady', ready ? 'True' : 'False', groups === '0/0' ? 'VGsUnmanaged' : ready ? 'VGsReady' : 'VGsFailed', message),
    ],
  };
  await request('PATCH', `${paths.clusters}/${name}/status`, { status }, merge);
}

/** The image of must-gather that the installed release names. */
export const gatherImage = 'registry.example.com/lvms-must-gather:0.1.0';

/** What the Operator Lifecycle Manager has of the release: its kind, as far as it is read, and the object. Made once. */
async function release(): Promise<void> {
  const unlessThere = (e: { status?: number }) => {
    if (e.status !== 409) throw e;
  };
  const [group, plural, kind] = ['operators.coreos.com', 'clusterserviceversions', 'ClusterServiceVersion'];
  const schema = { openAPIV3Schema: { type: 'object', 'x-kubernetes-preserve-unknown-fields': true } };
  const versions = [{ name: 'v1alpha1', served: true, storage: true, schema }];
  const crd = { apiVersion: 'apiextensions.k8s.io/v1', kind: 'CustomResourceDefinition', metadata: { name: `${plural}.${group}` }, spec: { group, scope: 'Namespaced', names: { plural, kind }, versions } };
  await request('POST', '/api/kubernetes/apis/apiextensions.k8s.io/v1/customresourcedefinitions', crd).catch(unlessThere);
  const path = `/api/kubernetes/apis/${group}/v1alpha1/namespaces/${namespace}/${plural}`;
  for (const end = Date.now() + patience; ; ) {
    const served = await request('GET', path).then(() => true, (e: { status?: number }) => e.status !== 404);
    if (served) break;
    assert.ok(Date.now() < end, `${plural} are not served`);
    await new Promise((done) => setTimeout(done, 200));
  }
  const metadata = { name: 'lvms-operator.v0.1.0', annotations: { 'operators.openshift.io/must-gather-image': gatherImage } };
  await request('POST', path, { apiVersion: `${group}/v1alpha1`, kind, metadata, spec: { customresourcedefinitions: { owned: [{ name: 'lvmclusters.lvm.topolvm.io' }] } } }).catch(unlessThere);
}
let released: Promise<void> | undefined;

export async function clean(): Promise<void> {
  await (released ??= release());
  // Nobody is there who takes the protection of PersistentVolumes and claims away.
  for (const path of [paths.persistentVolumes, paths.claims]) {
    const { items } = await request<{ items: PersistentVolume[] }>('GET', path);
    for (const { metadata } of items) await request('PATCH', `${path}/${metadata.name}`, { metadata: { finalizers: null } }, merge);
  }
  for (const path of [paths.clusters, paths.statuses, paths.recoveries, paths.approvals, paths.moves, paths.nodes, paths.events, paths.volumes, paths.persistentVolumes, paths.claims]) {
    await request('DELETE', path);
  }
}

/** What the CSI controller and the node agent write for a volume; a PersistentVolume with it, if it is for a claim. */
export async function makeVolume(name: string, spec: Partial<LogicalVolume['spec']>, claim?: string, annotations: Record<string, string> = {}): Promise<void> {
  const [space, purpose] = (claim ?? '').split('/');
  await request('POST', paths.volumes, {
    apiVersion: 'topolvm.io/v1', kind: 'LogicalVolume', metadata: { name, annotations: { ...annotations, ...(claim ? { 'lvm.topolvm.io/claim': claim } : {}) } },
    spec: { name, nodeName: 'node-a', size: '10Gi', deviceClass: 'vg1', ...spec },
  });
  await request('PATCH', `${paths.volumes}/${name}/status`, { status: { volumeID: `id-${name}`, currentSize: spec.size ?? '10Gi' } }, merge);
  if (!claim || spec.accessType === 'ro') return;
  await request('POST', paths.persistentVolumes, {
    apiVersion: 'v1', kind: 'PersistentVolume', metadata: { name },
    spec: { capacity: { storage: spec.size ?? '10Gi' }, accessModes: ['ReadWriteOnce'], storageClassName: 'lvms-vg1', csi: { driver: 'topolvm.io', volumeHandle: `id-${name}` }, claimRef: { namespace: space, name: purpose } },
  });
}

/** The plan of an import for device class vg1, with its ID: the API server refuses one that is not a hash of the content (internal/volume/recoveryplan). */
export function importPlan(node: string, plan: RecoveryPlan): RecoveryPlan {
  const values = [
    ['ImportVolumes', '', '', node, 'vg1', plan.volumeGroupUUID ?? '', String(Math.floor(Date.parse(plan.creationTime ?? '') / 1000))],
    ...(plan.importedVolumes ?? []).map((v) => ['imported', v.name, v.uuid ?? '', String(v.size), v.persistentVolume ?? '', v.claim ?? '', v.fromNode ?? '', v.fsType ?? '']),
  ];
  const lines = values.map((line) => `[${line.map((value) => JSON.stringify(value)).join(' ')}]\n`);
  return { ...plan, id: createHash('sha256').update(lines.join('')).digest('hex').slice(0, 32) };
}

/** A recovery as somebody asks for it, with what the node agent says to it. */
export async function makeRecovery(name: string, spec: Partial<LVMRecovery['spec']>, status?: LVMRecovery['status']): Promise<void> {
  const object = { apiVersion: 'lvm.topolvm.io/v1alpha1', kind: 'LVMRecovery', metadata: { name, namespace }, spec: { nodeName: 'node-a', deviceClassName: 'vg1', action: 'RemoveLostDevices', ...spec } };
  await request('POST', paths.recoveries, object);
  if (status) await plan(name, status);
}

/** What the node agent writes into a recovery. */
export const plan = (name: string, status: LVMRecovery['status']): Promise<unknown> => request('PATCH', `${paths.recoveries}/${name}/status`, { status }, merge);

/** A move as somebody asks for it, with what the operator says to it. The claim is NAMESPACE/NAME. */
export async function makeMove(name: string, claim: string, status?: VolumeMove['status'], nodeName?: string): Promise<void> {
  const [space, purpose] = claim.split('/');
  await request('POST', paths.moves, { apiVersion: 'lvm.topolvm.io/v1alpha1', kind: 'VolumeMove', metadata: { name, namespace }, spec: { claim: { namespace: space, name: purpose }, nodeName } });
  if (status) await moved(name, status);
}

/** What the operator writes into a move. */
export const moved = (name: string, status: VolumeMove['status']): Promise<unknown> => request('PATCH', `${paths.moves}/${name}/status`, { status }, merge);

/** A claim in the namespace default, which has a volume where one is named. */
export async function makeClaim(name: string, volumeName?: string): Promise<void> {
  await request('POST', paths.claims, { apiVersion: 'v1', kind: 'PersistentVolumeClaim', metadata: { name }, spec: { volumeName, storageClassName: 'lvms-vg1', accessModes: ['ReadWriteOnce'], resources: { requests: { storage: '10Gi' } } } });
}

/** A device of a volume group of 100 GiB, as the node status has it. */
export const physicalVolume = (name: string, n: string, more: Partial<PhysicalVolumeStatus> = {}): PhysicalVolumeStatus => ({
  uuid: `${n}-uuid`, name: `/dev/${name}`, deviceID: `wwn:0x5000c500${n}`, path: `/dev/disk/by-id/wwn-0x5000c500${n}`, size: `${100 * GiB}`, free: `${40 * GiB}`, state: 'Ready', ...more,
});

/** The disk of such a device in the inventory. */
export const member = (name: string, n: string, more: Partial<Device> = {}): Device => blank(name, n, 100 * 2 ** 30, { state: 'InUse', volumeGroup: 'vg1', pvUUID: `${n}-uuid`, reasons: [], ...more });

/** A blank disk, as the inventory has it. */
export const blank = (name: string, n: string, size = 100 * GiB, more: Partial<Device> = {}): Device => ({
  name: `/dev/${name}`, id: `wwn:0x5000c500${n}`, type: 'disk', byID: [`ata-DISK_${n}`, `wwn-0x5000c500${n}`], byPath: [`pci-0000:00:1f.2-ata-${n}`],
  size: String(size), model: 'DISK', vendor: 'ATA', serial: n, transport: 'sata', rotational: false, state: 'Available', fingerprint: `f${n}`, ...more,
});

export const system = (name: string, n: string): Device =>
  blank(name, n, 120 * GiB, {
    state: 'InUse', partitions: [`/dev/${name}1`, `/dev/${name}2`],
    reasons: [{ code: 'IsOSDisk', message: 'contains the operating system of the node, or a part of it' }, { code: 'HasPartitions', message: `has the partitions /dev/${name}1, /dev/${name}2` }],
  });

export const carrying = (name: string, n: string, type = 'xfs', label = 'old-data'): Device =>
  blank(name, n, 200 * GiB, { state: 'Excluded', signatures: [{ type, label }], reasons: [{ code: 'HasSignature', message: `carries ${type} “${label}”; if nothing needs it, remove it with: wipefs --all /dev/${name}` }] });

export const mounted = (name: string, n: string): Device =>
  blank(name, n, 50 * GiB, { state: 'InUse', mountPoints: ['/var/data'], signatures: [{ type: 'ext4' }], reasons: [{ code: 'Mounted', message: 'is mounted on /var/data' }, { code: 'HasSignature', message: 'carries ext4' }] });

/** A disk in a volume group that no device class has, with an active logical volume. */
export const grouped = (name: string, n: string, group: string, uuid: string): Device =>
  blank(name, n, 200 * GiB, {
    state: 'InUse', volumeGroup: group, volumeGroupUUID: uuid, pvUUID: `${n}-uuid`, holders: [`/dev/mapper/${group}-data`],
    reasons: [
      { code: 'HasHolders', message: `is used by /dev/mapper/${group}-data (lvm)` },
      { code: 'InVolumeGroup', message: `is a physical volume of the volume group ${group} (${uuid}), which no device class uses: to use it with its volumes, add the UUID to adopt of a device class; to destroy it with its volumes, add the UUID to wipeVolumeGroups of the deviceSelector` },
    ],
  });

/** A disk in a volume group that an administrator created. */
export const administered = (name: string, n: string, group: string, uuid: string): Device =>
  blank(name, n, 200 * GiB, {
    state: 'InUse', volumeGroup: group, volumeGroupUUID: uuid, pvUUID: `${n}-uuid`,
    reasons: [{ code: 'InVolumeGroup', message: `is a physical volume of the volume group ${group} (${uuid}), which no device class uses: to use it with its volumes, set existingVolumeGroup: ${group} in a device class; to destroy it with its volumes, add the UUID to wipeVolumeGroups of the deviceSelector` }],
  });

/** What Prometheus scrapes from now on. A line can end with a time, in milliseconds since 1970. */
export async function scraped(lines: string[]): Promise<void> {
  const response = await fetch(`${url}/test/metrics`, { method: 'PUT', body: lines.map((l) => `${l}\n`).join('') });
  assert.equal(response.status, 204);
}
