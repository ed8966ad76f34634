import { readFileSync } from 'node:fs';
import { expect, it } from 'vitest';
import { parse, parseAllDocuments } from 'yaml';
import { exampleOf } from './example';

interface Example {
  kind: string;
  metadata: { name: string };
  spec: { storageClassName?: string; volumes?: { persistentVolumeClaim?: { claimName: string } }[] };
}

it('the Pod uses the claim, and the claim the StorageClass of the device class', () => {
  const [claim, pod, ...others] = parseAllDocuments(exampleOf('fast')).map((d) => d.toJS() as Example);
  expect([claim?.kind, pod?.kind, others]).toEqual(['PersistentVolumeClaim', 'Pod', []]);
  expect(claim?.spec.storageClassName).toBe('lvms-fast');
  expect(pod?.spec.volumes?.[0]?.persistentVolumeClaim?.claimName).toBe(claim?.metadata.name);
});

it('the quick start has the same YAML', () => {
  const quickStart = parse(readFileSync('../../controllers/consoleplugin/quickstart.yaml', 'utf8')) as { tasks: { description: string }[] };
  const [, text] = /```\n([\s\S]*?)```\{\{copy\}\}/.exec(quickStart.tasks.map((task) => task.description).join('\n')) ?? [];
  expect(text).toBe(exampleOf('vg1'));
});
