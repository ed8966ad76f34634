// Runs browser tests: node --import tsx browser/run.ts [smoke|rest|earlier|STORY]... By default, it runs all of them. STORY is the name of a
// file without .test.ts. Run it with the program bridge, which sets the namespace.
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { readdirSync } from 'node:fs';
import { namespace } from './kube';

const all = readdirSync('browser').flatMap((file) => /^(.+)\.test\.ts$/.exec(file)?.[1] ?? []);
/** Pages that show and change something, in less than a minute. */
const smoke = ['suspend'];
/** What runs in the namespace that LVMS had before 4.20: the build for the consoles of that time, and what creates the LVMCluster. */
const earlier = ['legacy', 'wizard'];
const earlierNamespace = 'openshift-storage';
const groups: Record<string, string[]> = { smoke, earlier, rest: all.filter((story) => ![...smoke, 'legacy'].includes(story)) };

const named = process.argv.slice(2);
const wanted = new Set(named.length ? named.flatMap((name) => groups[name] ?? [name]) : all);
for (const story of wanted) assert.ok(all.includes(story), `there is no browser/${story}.test.ts; stories: ${all.join(', ')}; groups: ${Object.keys(groups).join(', ')}`);
if (named.includes('earlier')) assert.equal(namespace, earlierNamespace, 'the group earlier tests another namespace: run bridge with --namespace');

// Prometheus collects samples while the other stories run. Each file is a process, one at a time.
const last = 'monitoring';
for (const stories of [[...wanted].filter((story) => story !== last), [...wanted].filter((story) => story === last)]) {
  if (!stories.length) continue;
  const files = stories.map((story) => `browser/${story}.test.ts`);
  const { status } = spawnSync(process.execPath, ['--import', 'tsx', '--test', '--test-reporter=spec', '--test-concurrency=1', ...files], { stdio: 'inherit' });
  if (status !== 0) process.exit(status ?? 1);
}
