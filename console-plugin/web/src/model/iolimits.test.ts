import { expect, it } from 'vitest';
import { limitsOf } from './iolimits';
import { inEnglish } from './message';

const of = (requested?: string, inForce?: string, error?: string) =>
  limitsOf({ metadata: { annotations: Object.fromEntries(Object.entries({ 'lvm.topolvm.io/io-limits': requested, 'lvm.topolvm.io/io-limits-in-force': inForce, 'lvm.topolvm.io/io-limits-error': error }).filter((e): e is [string, string] => e[1] !== undefined)) }, spec: { name: 'x', nodeName: 'a', size: 1 } }).map(inEnglish);

it.each([
  ['nothing', [undefined, undefined, undefined], ['None']],
  ['limits in force', ['readIOPS=500', 'readIOPS=500', undefined], ['readIOPS=500']],
  ['limits that are not in force yet', ['readIOPS=500', undefined, undefined], ['None', 'Requested, not in force yet: readIOPS=500']],
  ['limits that were removed, but still apply', ['none', 'readIOPS=500', undefined], ['readIOPS=500', 'Requested, not in force yet: none']],
  ['refused limits', ['readIOPS=9', 'readIOPS=500', 'readIOPS=9: no io controller'], ['readIOPS=500', 'Requested, but refused by the node: readIOPS=9: no io controller']],
  ['a refusal of earlier limits', ['readIOPS=9', 'readIOPS=500', 'readIOPS=90: no io controller'], ['readIOPS=500', 'Requested, not in force yet: readIOPS=9']],
] as const)('%s', (_, [requested, inForce, error], wanted) => expect(of(requested, inForce, error)).toEqual(wanted));

it('a volume without annotations has no limits', () => expect(limitsOf({ metadata: {}, spec: { name: 'x', nodeName: 'a', size: 1 } }).map(inEnglish)).toEqual(['None']));
