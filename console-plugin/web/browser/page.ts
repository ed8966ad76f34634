// A browser on the console, whose complaints fail the test.
import assert from 'node:assert/strict';
import { existsSync, mkdirSync, readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { isDeepStrictEqual } from 'node:util';
import { chromium, type Browser, type BrowserContext, type Locator, type Page } from 'playwright-core';
import { patience, url } from './kube';

const axe = readFileSync(createRequire(import.meta.url).resolve('axe-core/axe.min.js'), 'utf8');
const pictures = 'screenshots';

export async function launch(): Promise<Browser> {
  const executablePath = process.env['CHROMIUM'] ?? '/usr/bin/chromium';
  assert.ok(existsSync(executablePath), `${executablePath} is not there: install Debian's package chromium, or set CHROMIUM`);
  mkdirSync(pictures, { recursive: true });
  return chromium.launch({
    executablePath,
    args: ['--no-sandbox', '--disable-gpu', '--disable-quic', '--no-first-run', '--disable-background-networking', '--disable-component-update', '--disable-sync'],
  });
}

/** What the browser said that it should not have. */
const complaints = new WeakMap<Page, string[]>();

export async function open(browser: Browser, path: string, options: { as?: string; expect?: RegExp; language?: string; legacy?: boolean } = {}): Promise<Page> {
  const context: BrowserContext = await browser.newContext({ viewport: { width: 1500, height: 1000 }, locale: options.language ?? 'en-US' });
  context.setDefaultTimeout(patience);
  if (options.as) await context.addCookies([{ name: 'openshift-session-token', value: options.as, url }]);
  if (options.legacy) await context.addCookies([{ name: 'legacy-console', value: '4.19', url }]);
  const page = await context.newPage();
  const said: string[] = [];
  complaints.set(page, said);
  page.on('console', (m) => {
    if (m.type() === 'error' && !options.expect?.test(m.text())) said.push(`${m.text()} (${m.location().url})`);
  });
  page.on('pageerror', (e) => said.push(String(e)));
  await page.goto(path === 'about:blank' ? path : url + path);
  return page;
}

/** Ends a page: it must not have complained. Requests that the end interrupts are not complaints. */
export async function close(page: Page): Promise<void> {
  const crash = await page.locator('[data-test=crash]').allTextContents();
  const said = [...(complaints.get(page) ?? [])];
  await page.context().close();
  assert.deepEqual([...said, ...crash], []);
}

interface Violation {
  id: string;
  help: string;
  nodes: { html: string; failureSummary?: string }[];
}

/** axe-core's rules for WCAG 2.1 A and AA. Transitions are off meanwhile: half way, a color has another contrast. */
export async function accessible(page: Page): Promise<void> {
  await page.addStyleTag({ content: '*, ::before, ::after { transition: none !important; animation: none !important; }' });
  await page.evaluate(axe);
  const violations = await page.evaluate(async () => {
    const run = (globalThis as unknown as { axe: { run: (where: Document, options: unknown) => Promise<{ violations: Violation[] }> } }).axe;
    return (await run.run(document, { runOnly: ['wcag2a', 'wcag2aa', 'wcag21a', 'wcag21aa'] })).violations;
  });
  assert.deepEqual(violations.map((v) => `${v.id}: ${v.help}: ${v.nodes.map((n) => n.html.slice(0, 200)).join(' | ')}`), []);
}

/** Waits until every chart of the page is drawn: their code comes after the page. */
export async function drawn(page: Page): Promise<void> {
  await page.locator('[data-test=donut], [data-test=series]').first().waitFor();
  await until('charts without a drawing', () => page.locator('[data-test=donut]:not(:has(svg path)), [data-test=series]:not(:has(svg path))').count(), 0);
}

/** Pictures in light and dark, for a person to look at. */
export async function picture(page: Page, name: string): Promise<void> {
  await page.setViewportSize({ width: 1500, height: 1700 });
  for (const dark of [false, true]) {
    await page.evaluate((is) => document.documentElement.classList.toggle('pf-v6-theme-dark', is), dark);
    // Colours change within a quarter of a second, unless that is not waited for.
    await page.screenshot({ path: `${pictures}/${name}-${dark ? 'dark' : 'light'}.png`, fullPage: true, animations: 'disabled' });
  }
  await page.evaluate(() => document.documentElement.classList.remove('pf-v6-theme-dark'));
  await page.setViewportSize({ width: 1500, height: 1000 });
}

/** The page as an administrator sees it at 1280 pixels, in light and dark. */
export async function seen(page: Page, name: string): Promise<void> {
  await page.setViewportSize({ width: 1280, height: 1000 });
  for (const dark of [false, true]) {
    await page.evaluate((is) => document.documentElement.classList.toggle('pf-v6-theme-dark', is), dark);
    await page.screenshot({ path: `${pictures}/${name}-1280-${dark ? 'dark' : 'light'}.png`, fullPage: true, animations: 'disabled' });
    if (dark) await accessible(page);
  }
  await page.evaluate(() => document.documentElement.classList.remove('pf-v6-theme-dark'));
  await page.setViewportSize({ width: 1500, height: 1000 });
}

/** The part of the page on a phone. Nothing in it, but a table, which scrolls in its box, is wider than the screen. */
export async function onPhone(page: Page, name: string, part: string): Promise<void> {
  await page.setViewportSize({ width: 390, height: 1400 });
  // The navigation closes a moment after the window became narrow.
  await page.locator('.pf-v6-c-page__sidebar.pf-m-expanded').waitFor({ state: 'detached' });
  await test(page, part).scrollIntoViewIfNeeded();
  await page.screenshot({ path: `${pictures}/${name}-phone.png`, fullPage: true, animations: 'disabled' });
  await until(`${name} on a phone`, () => test(page, part).evaluate((e) => Math.max(0, e.scrollWidth - e.clientWidth)), 0);
  await page.setViewportSize({ width: 1500, height: 1000 });
}

/** Parts of a table that must be readable in full. Other texts end in …, with the whole text in their title, or take two lines. */
const whole = 'th, td > button, td .pf-v6-c-label__text, td .pf-v6-c-progress, td span[title]:not([style*=line-clamp])';

/** Whether the browser has glyphs for Chinese, Japanese and Korean: these are as wide as they are high, and placeholders are not. */
function hasFont(): boolean {
  const context = document.createElement('canvas').getContext('2d');
  if (!context) return false;
  context.font = '100px sans-serif';
  return ['国', 'ボ', '볼'].every((letter) => context.measureText(letter).width > 85);
}

/** What is wider than its place. */
const cutParts = (page: Page, within: string): Promise<string[]> =>
  page.locator(within).evaluate(
    (root, parts) => [
      ...[root, ...root.querySelectorAll('main, [data-test=virtual-table]')].filter((e) => e.scrollWidth > e.clientWidth).map((e) => `${e.getAttribute('aria-label') ?? e.tagName}: ${e.scrollWidth} px wide in ${e.clientWidth}`),
      ...[...root.querySelectorAll(parts)].filter((e) => e.scrollWidth > e.clientWidth).map((e) => `${e.textContent} is cut`),
    ],
    whole,
  );

/** No table, and not the page or the named part of it, is wider than its place, and no part of a table is cut, in windows from 1280 pixels on. */
export async function fits(page: Page, name: string, within = 'html'): Promise<void> {
  assert.ok(await page.evaluate(hasFont), "no font for Chinese, Japanese and Korean: install Debian's package fonts-wqy-microhei");
  for (const width of [1280, 1400, 1920]) {
    await page.setViewportSize({ width, height: 1000 });
    await page.screenshot({ path: `${pictures}/${name}-${width}.png`, fullPage: true, animations: 'disabled' });
    // A table gets its new width after the window.
    await until(`${name}, ${width} px`, () => cutParts(page, within), []);
  }
}

/** Waits until a value is the wanted one. After two minutes, it fails with the last value. */
export async function until<T>(what: string, read: () => Promise<T>, wanted: T): Promise<void> {
  for (const end = Date.now() + patience; ; ) {
    const value = await read();
    if (isDeepStrictEqual(value, wanted)) return;
    if (Date.now() > end) assert.deepEqual(value, wanted, what);
    await new Promise((done) => setTimeout(done, 100));
  }
}

/** Waits until the text of an element matches. */
export const says = (locator: Locator, text: RegExp): Promise<void> => locator.filter({ hasText: text }).waitFor();

export const test = (page: Page, id: string) => page.locator(`[data-test="${id}"]`);
