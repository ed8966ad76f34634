import { GROUP, VERSION } from './api/types';

/** Where the pages are in the console. */
export const overviewPath = '/local-volumes';
export const editPath = '/local-volumes/edit';
/** console.resource/create takes this one over. */
export const createPath = (namespace: string): string => `/k8s/ns/${namespace}/${GROUP}~${VERSION}~LVMCluster/~new`;
/** What the console matches, and the address of one class. */
export const classRoute = '/local-volumes/class/:name';
export const classPath = (name: string): string => `/local-volumes/class/${encodeURIComponent(name)}`;
/** What the console matches, and the address of one runbook, by the name of its alert. */
export const runbookRoute = '/local-volumes/runbook/:name';
export const runbookPath = (name: string): string => `/local-volumes/runbook/${encodeURIComponent(name)}`;
/** What the console matches, and the address of one recovery. */
export const recoveryRoute = '/local-volumes/recovery/:name';
export const recoveryPath = (name: string): string => `/local-volumes/recovery/${encodeURIComponent(name)}`;
/** What the console matches, and the address of one move of a volume. */
export const moveRoute = '/local-volumes/move/:name';
export const movePath = (name: string): string => `/local-volumes/move/${encodeURIComponent(name)}`;
/** The form, at a step for a class. */
export const classSettingsPath = (name: string, step: 'devices' | 'class'): string => `${editPath}?${new URLSearchParams({ class: name, step })}`;

/** Pages of the console itself. */
export const claimPath = (namespace: string, name: string): string => `/k8s/ns/${namespace}/persistentvolumeclaims/${encodeURIComponent(name)}`;
export const podPath = (namespace: string, name: string): string => `/k8s/ns/${namespace}/pods/${encodeURIComponent(name)}`;
export const persistentVolumePath = (name: string): string => `/k8s/cluster/persistentvolumes/${encodeURIComponent(name)}`;
export const nodePath = (name: string): string => `/k8s/cluster/nodes/${encodeURIComponent(name)}/local-disks`;
