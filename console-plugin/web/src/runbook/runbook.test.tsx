import { cleanup, render, screen } from '@testing-library/react';
import { createInstance } from 'i18next';
import { readdirSync, readFileSync } from 'node:fs';
import { I18nextProvider, initReactI18next } from 'react-i18next';
import { MemoryRouter, Route, Routes } from 'react-router';
import { afterEach, describe, expect, it, vi } from 'vitest';
import { summaries } from '../model/alerts';
import { destinationOf, slugOf } from '../model/runbook';
import { runbookPath, runbookRoute } from '../paths';
import { Markdown } from './Markdown';
import RunbookPage from './RunbookPage';

const folder = '../../monitoring/runbooks';
const names = readdirSync(folder).filter((f) => f.endsWith('.md')).map((f) => f.slice(0, -'.md'.length));
const textOf = (name: string): string => readFileSync(`${folder}/${name}.md`, 'utf8');
// webpack puts the texts into the bundle; the browser tests read them from there.
vi.mock('./texts', () => ({ textOf: (name: string) => (names.includes(name) ? textOf(name) : undefined) }));

const i18n = createInstance();
void i18n.use(initReactI18next).init({ lng: 'en', resources: {}, nsSeparator: '~', keySeparator: false, interpolation: { escapeValue: false }, react: { useSuspense: false } });

const show = (text: string) => render(<I18nextProvider i18n={i18n}><MemoryRouter><Markdown text={text} /></MemoryRouter></I18nextProvider>);
const open = (path: string) => render(
  <I18nextProvider i18n={i18n}><MemoryRouter initialEntries={[path]}><Routes><Route path={runbookRoute} element={<RunbookPage />} /></Routes></MemoryRouter></I18nextProvider>,
);
afterEach(cleanup);

describe('a runbook', () => {
  it.each(names)('%s is shown whole, and its links lead to something', (name) => {
    const { container } = show(textOf(name));
    // No mark of Markdown is left over outside of code.
    const prose = container.cloneNode(true) as HTMLElement;
    prose.querySelectorAll('code, pre').forEach((e) => e.remove());
    expect(prose.textContent).not.toMatch(/\*\*|```|\]\(|^#|\|---/m);
    for (const a of container.querySelectorAll('a')) {
      const href = a.getAttribute('href') ?? '';
      const runbook = /^\/local-volumes\/runbook\/(\w+)(#.*)?$/.exec(href);
      expect(runbook ? names.includes(runbook[1] ?? '') : /^https:\/\/github\.com\/lvm-storage\/lvm-operator\/blob\/main\/docs\/|^#/.test(href), `${name}: ${href}`).toBe(true);
    }
  });

  it('of each alert is there', () => expect(Object.keys(summaries).filter((alert) => !names.includes(alert))).toEqual([]));

  it('has its parts as a page has them', () => {
    show('# Title\n\n## A command on a node\n\nText with `code`, **weight** and [a page](README.md#a-command-on-a-node).\n\n```sh\nlvs -a <x>\n```\n\n| a | b |\n|---|---|\n| 1 | 2 |\n\n1. **One**\n\n   ```sh\n   two\n   ```\n');
    expect(screen.getByRole('heading', { level: 1 }).textContent).toBe('Title');
    expect(screen.getByRole('heading', { level: 2 }).id).toBe('a-command-on-a-node');
    expect(screen.getByText('lvs -a <x>').tagName).toBe('CODE');
    expect(screen.getByRole('link', { name: 'a page' }).getAttribute('href')).toBe('/local-volumes/runbook/README#a-command-on-a-node');
    expect(screen.getByRole('grid')).toBeTruthy();
    expect(screen.getByText('two').closest('li')).toBeTruthy();
  });

  it('runs nothing that stands in its text', () => {
    const { container } = show('<img src=x onerror=alert(1)> <script>alert(1)</script> [a](javascript:alert(1)) ![i](http://example.com/i.png)\n\n<div onclick="x()">text</div>');
    expect(container.querySelector('img, script, [onclick], a')).toBeNull();
    expect(container.textContent).toContain('<script>');
  });
});

describe('the page', () => {
  it('shows the runbook of an alert, also by the name of its file', () => {
    open(runbookPath('LVMSAgentDown'));
    expect(screen.getByRole('heading', { level: 1 }).textContent).toBe('LVMSAgentDown');
    cleanup();
    open(`${runbookPath('LVMSAgentDown')}.md`);
    expect(screen.getByRole('heading', { level: 1 }).textContent).toBe('LVMSAgentDown');
  });
  it('says that there is none', () => {
    open(runbookPath('KubePodCrashLooping'));
    expect(screen.getByText('Runbook KubePodCrashLooping does not exist')).toBeTruthy();
  });
});

it('links lead to runbooks in the console and to documents in the sources', () => {
  expect(destinationOf('LVMSAgentDown.md')).toEqual({ to: '/local-volumes/runbook/LVMSAgentDown' });
  expect(destinationOf('README.md#a-command-on-a-node')).toEqual({ to: '/local-volumes/runbook/README#a-command-on-a-node' });
  expect(destinationOf('#mitigation')).toEqual({ to: '#mitigation' });
  expect(destinationOf('../../docs/how-to/support.md')).toEqual({ href: 'https://github.com/lvm-storage/lvm-operator/blob/main/docs/how-to/support.md' });
  expect(destinationOf('https://example.com/x')).toEqual({ href: 'https://example.com/x' });
  for (const wrong of ['javascript:alert(1)', 'data:text/html,x', 'http://[']) expect(destinationOf(wrong)).toBeUndefined();
});

it('headings have the anchors that the sources have', () => expect(['A command on a node', 'Never at night, and never alone', '`lvs` and S.M.A.R.T.'].map(slugOf)).toEqual(['a-command-on-a-node', 'never-at-night-and-never-alone', 'lvs-and-smart']));
