// The licences of what is in the bundle: node --import tsx scripts/licences.ts [--update]. Fails where the list is stale, or one is not
// among those that go with ours.
import { existsSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';

const list = 'LICENCES.md';
const fine = new Set(['MIT', 'ISC', 'Apache-2.0', 'BSD-2-Clause', 'BSD-3-Clause', '0BSD']);

interface Package {
  version: string;
  license?: string;
  dev?: boolean;
  peer?: boolean;
}
const lock = JSON.parse(readFileSync('package-lock.json', 'utf8')) as { packages: Record<string, Package> };
// react-dom is a peer of PatternFly, and the console does not share it.
const shipped = Object.entries(lock.packages).filter(([path, p]) => path && (!p.dev || /^node_modules\/(react-dom|scheduler)$/.test(path)));
const rows = shipped.map(([path, p]) => {
  const manifest = join(path, 'package.json');
  const license = p.license ?? (existsSync(manifest) ? (JSON.parse(readFileSync(manifest, 'utf8')) as Package).license : undefined) ?? 'unknown';
  return { name: path.replace(/^.*node_modules\//, ''), version: p.version, license };
});
const text = `# Licences of what is in the bundle\n\nWritten by \`npm run licences -- --update\`.\n\n| package | version | licence |\n|---|---|---|\n${rows.map((r) => `| ${r.name} | ${r.version} | ${r.license} |`).join('\n')}\n`;
const bad = rows.filter((r) => !fine.has(r.license));
for (const r of bad) console.error(`licences: ${r.name} ${r.version} has ${r.license}`);
if (process.argv.includes('--update')) writeFileSync(list, text);
const stale = readFileSync(list, 'utf8') !== text;
if (stale) console.error(`licences: ${list} is stale. Run: npm run licences -- --update`);
process.exitCode = bad.length || stale ? 1 : 0;
