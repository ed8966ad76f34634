// The licences of what is in the bundle: node --import tsx scripts/licences.ts [--update] [--out FOLDER]. Fails where the list is stale, or one
// is not among those that go with ours. FOLDER gets the list for who packs the image (parts.json), and the texts (licenses/PACKAGE/FILE).
import { cpSync, existsSync, mkdirSync, readFileSync, readdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';

const list = 'LICENCES.md';
const fine = new Set(['MIT', 'ISC', 'Apache-2.0', 'BSD-2-Clause', 'BSD-3-Clause', '0BSD']);

interface Package {
  name?: string;
  version: string;
  license?: string;
  integrity?: string;
  dev?: boolean;
  peer?: boolean;
}
const lock = JSON.parse(readFileSync('package-lock.json', 'utf8')) as { packages: Record<string, Package> };
// react-dom is a peer of PatternFly, and the console does not share it. The build for older consoles has that of React 17, with what it needs.
const peers = /^node_modules\/(react-dom|scheduler|react-dom-17|react-dom-17\/node_modules\/scheduler|object-assign)$/;
const shipped = Object.entries(lock.packages).filter(([path, p]) => path && (!p.dev || peers.test(path)));
const rows = shipped.map(([path, p]) => {
  const manifest = join(path, 'package.json');
  const license = p.license ?? (existsSync(manifest) ? (JSON.parse(readFileSync(manifest, 'utf8')) as Package).license : undefined) ?? 'unknown';
  return { name: p.name ?? path.replace(/^.*node_modules\//, ''), version: p.version, license, integrity: p.integrity, path };
});
const text = `# Licences of what is in the bundle\n\nWritten by \`npm run licenses -- --update\`.\n\n| package | version | licence |\n|---|---|---|\n${rows.map((r) => `| ${r.name} | ${r.version} | ${r.license} |`).join('\n')}\n`;
// A package with parts of others has several licences.
const bad = rows.filter((r) => !r.license.split(' AND ').every((l) => fine.has(l)));
for (const r of bad) console.error(`licences: ${r.name} ${r.version} has ${r.license}`);
if (process.argv.includes('--update')) writeFileSync(list, text);
const stale = readFileSync(list, 'utf8') !== text;
if (stale) console.error(`licences: ${list} is stale. Run: npm run licenses -- --update`);

/** The texts of the licences of a package, and of those that it has copies of: victory-vendor has them in lib-vendor/PACKAGE. */
function textsOf(path: string): string[] {
  const isText = (name: string): boolean => /^(licen[cs]e|notice|copying)/i.test(name);
  const vendored = join(path, 'lib-vendor');
  const copies = existsSync(vendored) ? readdirSync(vendored).flatMap((copy) => readdirSync(join(vendored, copy)).filter(isText).map((name) => join('lib-vendor', copy, name))) : [];
  return [...readdirSync(path).filter(isText), ...copies];
}

/** write copies the texts of the licences, and returns the packages that have none. */
const write = (out: string): string[] => {
  const without: string[] = [];
  for (const r of rows) {
    const texts = textsOf(r.path);
    if (!texts.length) without.push(r.name);
    mkdirSync(join(out, 'licenses', r.name), { recursive: true });
    for (const name of texts) cpSync(join(r.path, name), join(out, 'licenses', r.name, name.replaceAll('/', '-')));
  }
  const parts = rows.map(({ name, version, license, integrity }) => ({ name, version, license, integrity }));
  writeFileSync(join(out, 'parts.json'), `${JSON.stringify(parts, null, 2)}\n`);
  return without;
};
const at = process.argv.indexOf('--out');
const without = at < 0 ? [] : write(process.argv[at + 1] ?? '');
for (const name of without) console.error(`licences: ${name} comes without the text of its licence`);
process.exitCode = bad.length || stale || without.length ? 1 : 0;
