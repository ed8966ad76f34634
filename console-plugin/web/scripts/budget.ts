// What a build may be: node --import tsx scripts/budget.ts. Fails where it is too large, has the console's code in it, or the manifest is
// not the one that was agreed on.
import { readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { legacyPlugin } from '../legacy.ts';
import { sumOf, type Manifest } from './sum.ts';

const out = '../dist/plugin';
const snapshot = 'manifest.snapshot.json';
/** Compressed bytes. What the overview loads is measured in the browser (browser/overview.test.ts); here, all but what other pages alone load. */
// The charts are 120 kB: PatternFly draws them with Victory, which has no smaller part. They are loaded after the page, when one is shown.
// The page of a device class has the I/O, the ranking and the tree of volumes, in six languages. The moves of volumes are 14 kB.
const limits = { initial: 275_000, all: 680_000, legacy: 500_000 };

const files = readdirSync(out);
const size = (name: string): number => readFileSync(join(out, `${name}.gz`)).length;
const scripts = files.filter((f) => f.endsWith('.js'));
const later = /exposed-(?!OverviewPage)|Wizard_index|yaml_browser|NumberInput|ClipboardCopy|DescriptionList|Radio|ExpandableSection|Modal|CodeBlock|Breadcrumb|_Form_|HelperText|TextInput|Checkbox|marked|copy-icon|check-icon|react-charts|victory|charts_|lodash__baseMerge|VolumeDialog|Skeleton|ActivityCard|src_moves|RankingCards|angle-right-icon/;
const initial = scripts.filter((f) => !later.test(f)).reduce((n, f) => n + size(f), 0);
const all = scripts.reduce((n, f) => n + size(f), 0);

const manifest = JSON.parse(readFileSync(join(out, 'plugin-manifest.json'), 'utf8')) as Manifest & { extensions: { type: string }[] };
// There is one for each alert of monitoring/rules; the first stands for all of them.
const isFurtherAlert = (e: { type: string }, i: number): boolean => e.type === 'console.alert-action' && manifest.extensions.findIndex((o) => o.type === e.type) < i;
// What changes with each build is left out.
const agreed = `${JSON.stringify({ ...manifest, extensions: manifest.extensions.filter((e, i) => !isFurtherAlert(e, i)), buildHash: undefined, loadScripts: manifest.loadScripts.map((s) => s.replace(/[0-9a-f]{20}/, 'HASH')) }, null, 2)}\n`;

const faults: string[] = [];
if (initial > limits.initial) faults.push(`all but the other pages has ${initial} bytes, more than ${limits.initial}`);
if (all > limits.all) faults.push(`all scripts have ${all} bytes, more than ${limits.all}`);
for (const f of scripts) {
  const text = readFileSync(join(out, f), 'utf8');
  if (/@console\/(internal|shared|dynamic-plugin-sdk)/.test(text)) faults.push(`${f} has code of the console`);
}
// The build for older consoles has the same pages in other scripts. Its manifest differs in the consoles that it declares, and in its scripts.
const legacy = join(out, 'legacy');
const legacyFiles = readdirSync(legacy).filter((f) => f.endsWith('.js'));
const legacyAll = legacyFiles.reduce((n, f) => n + readFileSync(join(legacy, `${f}.gz`)).length, 0);
const legacyManifest = JSON.parse(readFileSync(join(legacy, 'plugin-manifest.json'), 'utf8')) as Manifest & { dependencies: Record<string, string> };
const plain = (m: object): string => JSON.stringify({ ...m, dependencies: undefined, loadScripts: undefined, buildHash: undefined });
if (legacyAll > limits.legacy) faults.push(`all scripts for older consoles have ${legacyAll} bytes, more than ${limits.legacy}`);
if (plain(legacyManifest) !== plain(manifest)) faults.push('the manifest for older consoles has other extensions');
if (legacyManifest.dependencies['@console/pluginAPI'] !== legacyPlugin.dependencies['@console/pluginAPI']) faults.push('the manifest for older consoles declares others than legacy.ts');
if (sumOf(legacy, legacyManifest) !== legacyManifest.buildHash) faults.push('the sum in the manifest for older consoles is not that of the scripts');
for (const f of legacyFiles) {
  const text = readFileSync(join(legacy, f), 'utf8');
  if (/@console\/(internal|shared|dynamic-plugin-sdk)/.test(text)) faults.push(`legacy/${f} has code of the console`);
  if (f.startsWith('plugin-entry') && !/loadPluginEntry\(["']lvms-console@\d+\.\d+\.\d+["']/.test(text)) faults.push(`legacy/${f} does not call the callback of older consoles`);
}
if (process.argv.includes('--update')) writeFileSync(snapshot, agreed);
else if (readFileSync(snapshot, 'utf8') !== agreed) faults.push(`the manifest is not that of ${snapshot}: if that is meant, run: npm run budget -- --update`);
if (sumOf(out, manifest) !== manifest.buildHash) faults.push('the sum in the manifest is not that of the scripts: two builds would not be the same');
if (/"resolved"/.test(readFileSync('package-lock.json', 'utf8'))) faults.push('package-lock.json has addresses of downloads: .npmrc keeps them out');

console.log(`bundle: ${Math.round(initial / 1000)} kB compressed without the other pages (of ${limits.initial / 1000}), ${Math.round(all / 1000)} kB in all; ${Math.round(legacyAll / 1000)} kB in all for older consoles`);
for (const f of faults) console.error(`budget: ${f}`);
process.exitCode = faults.length ? 1 : 0;
