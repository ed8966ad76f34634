// Encryption of the volumes of a device class: parameters of its StorageClass (docs/how-to/encrypt-volumes.md).
import type { DeviceClass } from '../api/types';
import { withField } from './cluster';
import { msg, type Message } from './message';

const METHOD = 'lvm.topolvm.io/encryption';
const DISCARDS = 'lvm.topolvm.io/encryption-discards';
const SECRET_NAME = 'csi.storage.k8s.io/node-stage-secret-name';
const SECRET_NAMESPACE = 'csi.storage.k8s.io/node-stage-secret-namespace';
const LUKS2 = 'luks2';

/** The Secret that has the key. Both can have variables of the claim, such as ${pvc.namespace}. */
export interface Encryption {
  name: string;
  namespace: string;
  discards: boolean;
}

const parametersOf = (c: DeviceClass): Record<string, string> => c.storageClassOptions?.additionalParameters ?? {};

/** Returns how volumes are encrypted; undefined if they are not. */
export function encryptionOf(c: DeviceClass): Encryption | undefined {
  const parameters = parametersOf(c);
  if (parameters[METHOD] === undefined) return undefined;
  return { name: parameters[SECRET_NAME] ?? '', namespace: parameters[SECRET_NAMESPACE] ?? '', discards: parameters[DISCARDS] === 'true' };
}

const nonEmpty = <T extends object>(value: T): T | undefined => (Object.keys(value).length > 0 ? value : undefined);

/** Sets the encryption; undefined removes it. Other parameters stay. */
export function withEncryption(c: DeviceClass, encryption: Encryption | undefined): DeviceClass {
  const others = Object.entries(parametersOf(c)).filter(([key]) => ![METHOD, DISCARDS, SECRET_NAME, SECRET_NAMESPACE].includes(key));
  const own = encryption
    ? { [METHOD]: LUKS2, ...(encryption.discards ? { [DISCARDS]: 'true' } : {}), [SECRET_NAME]: encryption.name, [SECRET_NAMESPACE]: encryption.namespace }
    : {};
  const options = withField(c.storageClassOptions ?? {}, 'additionalParameters', nonEmpty({ ...Object.fromEntries(others), ...own }));
  return withField(c, 'storageClassOptions', nonEmpty(options));
}

/** The fields below storageClassOptions.additionalParameters, as the API server names them. */
export const secretField = { name: `additionalParameters[${SECRET_NAME}]`, namespace: `additionalParameters[${SECRET_NAMESPACE}]` };

/** What is missing (internal/admission/webhook/classes.go, encryptionPossible). */
export function encryptionProblems(c: DeviceClass, at: string): { field: string; message: Message }[] {
  const encryption = encryptionOf(c);
  if (!encryption) return [];
  const message = msg('Encrypted volumes require a Secret with their key.');
  return (['name', 'namespace'] as const).filter((key) => !encryption[key]).map((key) => ({ field: `${at}.storageClassOptions.${secretField[key]}`, message }));
}
