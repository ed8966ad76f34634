import { readFileSync } from 'node:fs';
import { expect, it } from 'vitest';
import { inEnglish } from './message';
import { reasonCodes, reasonsOf } from './reasons';

it('has words for each code that is documented, and for no other', () => {
  const [, table = ''] = readFileSync('../../docs/reference/conditions.md', 'utf8').split('## Why a device is not used');
  const documented = [...table.matchAll(/^\| `(\w+)` \|/gm)].map((m) => m[1]);
  expect(documented.length).toBeGreaterThan(30);
  expect([...reasonCodes].sort()).toEqual(documented.sort());
});
it('prefers what the node says, and hides no code that it does not know', () =>
  expect(reasonsOf({ name: 'x', state: 'Excluded', reasons: [{ code: 'IsOSDisk' }, { code: 'Mounted', message: 'is mounted on /var' }, { code: 'FromTheFuture' }, { code: 'constructor' }] }).map(inEnglish)).toEqual([
    'is a disk of the operating system', 'is mounted on /var', 'FromTheFuture', 'constructor',
  ]));
