// The colors of charts: PatternFly's chart tokens, which follow the theme. A console without them gets the palette's colors.

const token = (name: string, shade: number, palette: number): string => `var(--pf-t--chart--color--${name}--${shade}, var(--pf-t--color--${name}--${palette}))`;

/** The colors of series, in the order in which they are used. Neighbors differ in brightness too. */
export const SERIES = [token('blue', 300, 50), token('orange', 300, 40), token('teal', 400, 60), token('purple', 300, 40), token('yellow', 400, 50), token('green', 500, 70)];

export const color = (index: number): string => SERIES[index % SERIES.length] ?? '';

/** What holds data, what is promised to volumes, and what nobody has. */
export const USED = token('blue', 300, 50);
export const PROMISED = token('blue', 100, 30);
export const FREE = 'var(--pf-t--global--border--color--default)';

export const TEXT = 'var(--pf-t--global--text--color--regular)';
export const SUBTLE = 'var(--pf-t--global--text--color--subtle)';
export const LINE = 'var(--pf-t--global--border--color--default)';
export const WARNING = 'var(--pf-t--global--icon--color--status--warning--default)';
export const DANGER = 'var(--pf-t--global--icon--color--status--danger--default)';
