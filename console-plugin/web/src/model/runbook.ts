// Where the links of a runbook lead: to other runbooks in the console, and to documents in the sources.
import { runbookPath } from '../paths';
import { RUNBOOKS } from './alerts';

/** A place in the console, or an address elsewhere. */
export type Destination = { to: string; href?: undefined } | { href: string; to?: undefined };

/** The destination of a link of a runbook; none for what is no address of a page. */
export function destinationOf(link: string): Destination | undefined {
  if (link.startsWith('#')) return { to: link };
  const runbook = /^(\w+)\.md(#.*)?$/.exec(link);
  if (runbook) return { to: runbookPath(runbook[1] ?? '') + (runbook[2] ?? '') };
  if (!URL.canParse(link, RUNBOOKS)) return undefined;
  const { protocol, href } = new URL(link, RUNBOOKS);
  return ['https:', 'http:'].includes(protocol) ? { href } : undefined;
}

/** The anchor of a heading, as GitHub makes it. */
export const slugOf = (heading: string): string => heading.toLowerCase().replace(/[^\w\- ]/g, '').replaceAll(' ', '-');

/** The name of the runbook in an address: runbook_url of an alert ends with .md. */
export const runbookOf = (parameter: string): string => parameter.replace(/\.md$/, '');
