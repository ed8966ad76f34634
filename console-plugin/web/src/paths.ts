import { GROUP, VERSION } from './api/types';

/** Where the pages are in the console. */
export const overviewPath = '/local-volumes';
export const editPath = '/local-volumes/edit';
/** console.resource/create takes this one over. */
export const createPath = (namespace: string): string => `/k8s/ns/${namespace}/${GROUP}~${VERSION}~LVMCluster/~new`;
export const classPath = (name: string): string => `/local-volumes/class/${name}`;
