// The console has PatternFly's styles: neither the plugin nor the page that stands for an older console has those of the components.
import { readdirSync } from 'node:fs';
import { join, resolve } from 'node:path';

/** Aliases of webpack that leave them out, as ConsoleRemotePlugin does for newer consoles. */
export function withoutStyles(): Record<string, false> {
  const styles = resolve('node_modules/@patternfly/react-styles');
  return Object.fromEntries(readdirSync(styles, { recursive: true, encoding: 'utf8' }).filter((f) => f.endsWith('.css')).map((f) => [join(styles, f), false]));
}
