// Collects the texts of the sources: node --import tsx scripts/i18n.ts. English has each text as its own translation; another language has to
// have all of them. A text with {{count}} is in the plural; KEY_one is what English says of one thing, and so every language whose grammar
// has a singular. i18next takes KEY for all other numbers.
import { readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import ts from 'typescript';

/** The languages of the console. It offers no other, and reads no other. */
export const LANGUAGES = ['en', 'es', 'fr', 'ja', 'ko', 'zh'];

const file = 'plugin__lvms-console.json';

/** The first arguments of t('…') and msg('…'), and texts of extensions. */
export function keysOf(path: string): string[] {
  const source = ts.createSourceFile(path, readFileSync(path, 'utf8'), ts.ScriptTarget.Latest, true, path.endsWith('x') ? ts.ScriptKind.TSX : ts.ScriptKind.TS);
  const keys: string[] = [];
  const visit = (node: ts.Node): void => {
    if (ts.isCallExpression(node) && ts.isIdentifier(node.expression) && ['t', 'msg'].includes(node.expression.text)) {
      const [first] = node.arguments;
      if (first && ts.isStringLiteralLike(first)) keys.push(first.text);
    }
    if (ts.isStringLiteralLike(node)) keys.push(...[...node.text.matchAll(/^%plugin__lvms-console~(.*)%$/g)].map((m) => m[1] ?? ''));
    ts.forEachChild(node, visit);
  };
  visit(source);
  return keys;
}

/** As i18next has it. */
export const SINGULAR = '_one';

/** Whether the grammar of a language tells one thing from several. */
export const hasSingular = (language: string): boolean => new Intl.PluralRules(language).resolvedOptions().pluralCategories.includes('one');

export function allKeys(): string[] {
  const files = readdirSync('src', { recursive: true, encoding: 'utf8' }).filter((f) => /\.tsx?$/.test(f) && !/\.test\./.test(f)).map((f) => join('src', f));
  return [...new Set([...files, 'extensions.ts'].flatMap(keysOf))].sort();
}

export const translations = (language: string): Record<string, string> => JSON.parse(readFileSync(join('locales', language, file), 'utf8')) as Record<string, string>;

if (process.argv[1]?.endsWith('i18n.ts')) {
  const keys = allKeys();
  const singular = translations('en');
  for (const language of LANGUAGES) {
    const old = translations(language);
    const said = (k: string) => (language === 'en' ? k : old[k]);
    const next = Object.fromEntries(keys.flatMap((k) => [[k, said(k)], [k + SINGULAR, old[k + SINGULAR]]].filter(([, text]) => text)));
    const missing = keys.filter((k) => !(k in next) || (hasSingular(language) && k + SINGULAR in singular && !(k + SINGULAR in next)));
    if (missing.length) console.log(`${language}: ${missing.length} texts have no translation`);
    writeFileSync(join('locales', language, file), `${JSON.stringify(next, null, 2)}\n`);
  }
}
