// A claim and a Pod that uses it, to copy.
import { stringify } from 'yaml';
import { storageClassName } from '../api/types';

const labels = { app: 'local-volume-example' };
const name = 'local-volume-example';

/** Public, and small. It runs with any user ID. */
const IMAGE = 'registry.access.redhat.com/ubi9/ubi-minimal:latest';

/** The Pod complies with the Pod Security level restricted. It has no user ID: OpenShift assigns one of the namespace. */
const pod = {
  apiVersion: 'v1', kind: 'Pod', metadata: { name, labels },
  spec: {
    securityContext: { runAsNonRoot: true, seccompProfile: { type: 'RuntimeDefault' } },
    containers: [
      {
        name: 'example', image: IMAGE, command: ['sh', '-c', 'date >> /data/started; exec sleep infinity'],
        securityContext: { allowPrivilegeEscalation: false, capabilities: { drop: ['ALL'] } },
        volumeMounts: [{ name: 'data', mountPath: '/data' }],
      },
    ],
    volumes: [{ name: 'data', persistentVolumeClaim: { claimName: name } }],
  },
};

/** The YAML of a claim of 1 GiB of a device class, and of a Pod that writes to it. It names no namespace. */
export function exampleOf(deviceClass: string): string {
  const claim = {
    apiVersion: 'v1', kind: 'PersistentVolumeClaim', metadata: { name, labels },
    spec: { storageClassName: storageClassName(deviceClass), accessModes: ['ReadWriteOnce'], resources: { requests: { storage: '1Gi' } } },
  };
  return [claim, pod].map((o) => stringify(o, { lineWidth: 0 })).join('---\n');
}
