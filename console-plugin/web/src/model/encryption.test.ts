import { expect, it } from 'vitest';
import { newClass } from './cluster';
import { encryptionOf, withEncryption } from './encryption';

const c = newClass([]);

it('is written as parameters of the StorageClass, and read from them', () => {
  const encrypted = withEncryption(c, { name: 'lvms-key', namespace: '${pvc.namespace}', discards: true });
  expect(encrypted.storageClassOptions?.additionalParameters).toEqual({
    'lvm.topolvm.io/encryption': 'luks2', 'lvm.topolvm.io/encryption-discards': 'true',
    'csi.storage.k8s.io/node-stage-secret-name': 'lvms-key', 'csi.storage.k8s.io/node-stage-secret-namespace': '${pvc.namespace}',
  });
  expect(encryptionOf(encrypted)).toEqual({ name: 'lvms-key', namespace: '${pvc.namespace}', discards: true });
  expect(encryptionOf(c)).toBeUndefined();
});

it('leaves other options and parameters as they are, and removes only its own', () => {
  const before = { ...c, storageClassOptions: { reclaimPolicy: 'Retain' as const, additionalParameters: { 'lvm.topolvm.io/mkfs-options': '-m 0' } } };
  const encrypted = withEncryption(before, { name: 'a', namespace: 'b', discards: false });
  expect(encrypted.storageClassOptions?.additionalParameters).toHaveProperty('lvm.topolvm.io/mkfs-options', '-m 0');
  expect(encrypted.storageClassOptions?.additionalParameters).not.toHaveProperty('lvm.topolvm.io/encryption-discards');
  expect(withEncryption(encrypted, undefined)).toEqual(before);
  expect(withEncryption(withEncryption(c, { name: 'a', namespace: 'b', discards: false }), undefined)).toEqual(c);
});
