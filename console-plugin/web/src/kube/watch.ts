// What the pages read, live, as the user who looks. A read that failed is never shown as empty.
import { consoleFetch, useAccessReview, useK8sWatchResource } from '@openshift-console/dynamic-plugin-sdk';
import { useEffect, useMemo, useState } from 'react';
import {
  approvalModel, clusterModel, DEFAULT_NAMESPACE, GROUP, moveModel, nodeStatusModel, recoveryModel, VERSION,
  type DeviceApproval, type KubeEvent, type LogicalVolume, type LVMCluster, type LVMRecovery, type Meta, type Node, type NodeStatus, type PersistentVolume, type VolumeMove,
} from '../api/types';

export interface Watched<T> {
  data: T;
  loaded: boolean;
  /** Why it could not be read. What data has then is what was seen before, or nothing. */
  error?: string;
}

export const textOf = (error: unknown): string => (error instanceof Error ? error.message : String((error as { message?: string })?.message ?? error));

interface Kind {
  group?: string;
  version: string;
  kind: string;
}

function useList<T>(kind: Kind, namespace?: string, enabled = true): Watched<T[]> {
  const { group, version, kind: name } = kind;
  const request = useMemo(
    () => (enabled ? { groupVersionKind: { group, version, kind: name }, isList: true, ...(namespace ? { namespaced: true, namespace } : {}) } : null),
    [enabled, group, version, name, namespace],
  );
  const [data, loaded, error] = useK8sWatchResource<never[]>(request as never) as unknown as [T[] | undefined, boolean, unknown];
  return useMemo(() => ({ data: Array.isArray(data) ? data : [], loaded, ...(error ? { error: textOf(error) } : {}) }), [data, loaded, error]);
}

/** One object. data is undefined where there is none: the console tells that as an error. */
function useOne<T>(kind: Kind, name: string | undefined, namespace?: string): Watched<T | undefined> {
  const { group, version, kind: word } = kind;
  const request = useMemo(
    () => (name ? { groupVersionKind: { group, version, kind: word }, isList: false, name, ...(namespace ? { namespaced: true, namespace } : {}) } : null),
    [group, version, word, name, namespace],
  );
  const [data, loaded, error] = useK8sWatchResource<never>(request as never) as unknown as [(T & { metadata?: Meta }) | undefined, boolean, unknown];
  return useMemo(() => {
    const { code, response } = (error ?? {}) as { code?: number; response?: Response };
    const gone = (code ?? response?.status) === 404;
    const there = data && data.metadata?.name === name ? data : undefined;
    return { data: gone ? undefined : there, loaded: !!name && (loaded || gone), ...(error && !gone ? { error: textOf(error) } : {}) };
  }, [data, loaded, error, name]);
}

const ours = (kind: string): Kind => ({ group: GROUP, version: VERSION, kind });

export const useClusters = (namespace: string): Watched<LVMCluster[]> => useList<LVMCluster>(ours(clusterModel.kind), namespace);
export const useNodeStatuses = (namespace: string): Watched<NodeStatus[]> => useList<NodeStatus>(ours(nodeStatusModel.kind), namespace);
export const useNodeStatus = (namespace: string, name: string | undefined): Watched<NodeStatus | undefined> => useOne<NodeStatus>(ours(nodeStatusModel.kind), name, namespace);
export const useRecoveries = (namespace: string): Watched<LVMRecovery[]> => useList<LVMRecovery>(ours(recoveryModel.kind), namespace);
export const useRecovery = (namespace: string, name: string): Watched<LVMRecovery | undefined> => useOne<LVMRecovery>(ours(recoveryModel.kind), name, namespace);
export const useMoves = (namespace: string): Watched<VolumeMove[]> => useList<VolumeMove>(ours(moveModel.kind), namespace);
export const useMove = (namespace: string, name: string): Watched<VolumeMove | undefined> => useOne<VolumeMove>(ours(moveModel.kind), name, namespace);
export const useApprovals = (namespace: string): Watched<DeviceApproval[]> => useList<DeviceApproval>(ours(approvalModel.kind), namespace);
export const usePersistentVolume = (name: string | undefined): Watched<PersistentVolume | undefined> => useOne<PersistentVolume>({ version: 'v1', kind: 'PersistentVolume' }, name);
export const useLogicalVolume = (name: string | undefined): Watched<LogicalVolume | undefined> => useOne<LogicalVolume>({ group: 'topolvm.io', version: 'v1', kind: 'LogicalVolume' }, name);
export const useNodes = (): Watched<Node[]> => useList<Node>({ version: 'v1', kind: 'Node' });
export const useEvents = (namespace: string): Watched<KubeEvent[]> => useList<KubeEvent>({ version: 'v1', kind: 'Event' }, namespace);
export const useStorageClasses = (): Watched<{ metadata: { name?: string } }[]> => useList({ group: 'storage.k8s.io', version: 'v1', kind: 'StorageClass' });

export const useLogicalVolumes = (enabled = true): Watched<LogicalVolume[]> => useList<LogicalVolume>({ group: 'topolvm.io', version: 'v1', kind: 'LogicalVolume' }, undefined, enabled);
export const usePersistentVolumes = (enabled = true): Watched<PersistentVolume[]> => useList<PersistentVolume>({ version: 'v1', kind: 'PersistentVolume' }, undefined, enabled);

/** Seconds between two questions whether the cluster answers. */
const HEARTBEAT = 10;

export interface Connection {
  alive: boolean;
  /** When the cluster answered last. */
  since: Date;
}

/** A watch that breaks says nothing: it is begun again and again. So the API server is asked whether it is there. */
export function useConnection(seconds = HEARTBEAT): Connection {
  const [connection, set] = useState<Connection>(() => ({ alive: true, since: new Date() }));
  useEffect(() => {
    let ended = false;
    const ask = async () => {
      const alive = await consoleFetch('/api/kubernetes/version', {}, seconds * 1000).then(
        (r) => r.ok,
        () => false,
      );
      if (!ended) set((last) => (alive ? { alive, since: new Date() } : last.alive ? { alive, since: last.since } : last));
    };
    const timer = setInterval(() => void ask(), seconds * 1000);
    void ask();
    return () => {
      ended = true;
      clearInterval(timer);
    };
  }, [seconds]);
  return connection;
}

export interface Permissions {
  loaded: boolean;
  create: boolean;
  update: boolean;
  listNodes: boolean;
  listStatuses: boolean;
}

export function usePermissions(namespace: string): Permissions {
  const own = { group: GROUP, resource: clusterModel.plural, namespace };
  const [create, a] = useAccessReview({ ...own, verb: 'create' });
  const [update, b] = useAccessReview({ ...own, verb: 'update' });
  const [listNodes, c] = useAccessReview({ group: '', resource: 'nodes', verb: 'list' });
  const [listStatuses, d] = useAccessReview({ group: GROUP, resource: nodeStatusModel.plural, namespace, verb: 'list' });
  return { loaded: !(a || b || c || d), create, update, listNodes, listStatuses };
}

/** What a user may do with recoveries. */
export interface RecoveryPermissions {
  loaded: boolean;
  create: boolean;
  approve: boolean;
  remove: boolean;
}

export function useRecoveryPermissions(namespace: string): RecoveryPermissions {
  const own = { group: GROUP, resource: recoveryModel.plural, namespace };
  const [create, a] = useAccessReview({ ...own, verb: 'create' });
  const [approve, b] = useAccessReview({ ...own, verb: 'patch' });
  const [remove, c] = useAccessReview({ ...own, verb: 'delete' });
  return { loaded: !(a || b || c), create, approve, remove };
}

/** What a user may do with approvals of devices. */
export interface ApprovalPermissions {
  loaded: boolean;
  create: boolean;
  remove: boolean;
}

export function useApprovalPermissions(namespace: string): ApprovalPermissions {
  const own = { group: GROUP, resource: approvalModel.plural, namespace };
  const [create, a] = useAccessReview({ ...own, verb: 'create' });
  const [remove, b] = useAccessReview({ ...own, verb: 'delete' });
  return { loaded: !(a || b), create, remove };
}

/** What a user may do with moves of volumes. */
export interface MovePermissions {
  loaded: boolean;
  create: boolean;
  remove: boolean;
}

export function useMovePermissions(namespace: string): MovePermissions {
  const own = { group: GROUP, resource: moveModel.plural, namespace };
  const [create, a] = useAccessReview({ ...own, verb: 'create' });
  const [remove, b] = useAccessReview({ ...own, verb: 'delete' });
  return { loaded: !(a || b), create, remove };
}

/** Whether a user may suspend and resume volumes. */
export function useSuspensionRight(): { loaded: boolean; patch: boolean } {
  const [patch, loading] = useAccessReview({ group: 'topolvm.io', resource: 'logicalvolumes', verb: 'patch' });
  return { loaded: !loading, patch };
}

/** The namespace that the operator manages, as the server of this plugin was told. */
export function useNamespace(): string | undefined {
  const [namespace, set] = useState<string>();
  useEffect(() => {
    let ended = false;
    consoleFetch('/api/plugins/lvms-console/config.json')
      .then((r) => r.json())
      .then(
        (config: { namespace?: string }) => !ended && set(config.namespace || DEFAULT_NAMESPACE),
        () => !ended && set(DEFAULT_NAMESPACE),
      );
    return () => {
      ended = true;
    };
  }, []);
  return namespace;
}
