/// <reference types="webpack/module" />
// The runbooks, which webpack puts into the bundle from monitoring/runbooks.
const files = import.meta.webpackContext('../../../../monitoring/runbooks', { regExp: /\.md$/ });

/** The Markdown of a runbook by its name; none where there is no such runbook. */
export const textOf = (name: string): string | undefined => (files.keys().includes(`./${name}.md`) ? (files(`./${name}.md`) as string) : undefined);
