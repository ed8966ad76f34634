// The sum of what was built. webpack's own has the folder in it that was built in, and two builds of the same sources are to be the same.
import { createHash } from 'node:crypto';
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';

export interface Manifest {
  buildHash: string;
  loadScripts: string[];
}

/** How much of the sum is in the name of the entry. */
export const NAMED = 20;

/** Of the scripts, with their names without the manifest's sum, and of the manifest without what depends on it. */
export function sumOf(folder: string, manifest: Manifest): string {
  const plain = (name: string): string => name.replace(manifest.buildHash.slice(0, NAMED), '');
  const sum = createHash('sha256').update(JSON.stringify({ ...manifest, buildHash: '', loadScripts: manifest.loadScripts.map(plain) }));
  for (const name of readdirSync(folder).filter((n) => n.endsWith('.js')).sort()) sum.update(plain(name)).update(readFileSync(join(folder, name)));
  return sum.digest('hex').slice(0, manifest.buildHash.length);
}
