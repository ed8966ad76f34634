import { cleanup, render, screen, waitFor } from '@testing-library/react';
import userEvent from '@testing-library/user-event';
import { createInstance } from 'i18next';
import { I18nextProvider, initReactI18next } from 'react-i18next';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import type { LogicalVolume } from '../api/types';
import { volumesOf, type Volume } from '../model/volumes';
import { SuspendedDevice, SuspendedVolume } from './SuspendedLabel';
import { VolumeAction } from './VolumeAction';
import { VolumeDialog } from './VolumeDialog';

const i18n = createInstance();
void i18n.use(initReactI18next).init({ lng: 'en', resources: {}, nsSeparator: '~', keySeparator: false, interpolation: { escapeValue: false }, react: { useSuspense: false } });

const lv = (annotations: Record<string, string> = {}, more: object = {}): LogicalVolume => ({
  metadata: { name: 'pvc-1', uid: 'u', resourceVersion: '5', annotations: { 'lvm.topolvm.io/claim': 'shop/data', ...annotations }, ...more }, spec: { name: 'pvc-1', nodeName: 'a', size: '1Gi' }, status: { volumeID: 'x', currentSize: '1Gi' },
});
const suspended = (text = 'by bob at 2026-01-02T03:04:05Z: backup') => ({ 'lvm.topolvm.io/suspended': text });
const volume = (o: LogicalVolume): Volume => volumesOf([o], undefined)[0] as Volume;

let listed: LogicalVolume;
let patched: LogicalVolume[] = [];
let reply: (url: string, method: string) => [number, unknown] | undefined;
beforeEach(() => {
  patched = [];
  listed = lv();
  reply = () => undefined;
  vi.stubGlobal('fetch', (url: string, init: RequestInit = {}) => {
    const method = init.method ?? 'GET';
    const [code, body] =
      reply(url, method) ??
      (url.endsWith('selfsubjectreviews') ? [201, { status: { userInfo: { username: 'ann' } } }]
      : /\/pods\?/.test(url) ? [200, { items: [{ metadata: { name: 'web' }, spec: { volumes: [{ name: 'v', persistentVolumeClaim: { claimName: 'data' } }] }, status: { phase: 'Running' } }], metadata: {} }]
      : [200, listed]);
    if (method === 'PATCH' && code < 300) patched.push(JSON.parse(init.body as string) as LogicalVolume);
    return Promise.resolve(new Response(JSON.stringify(body), { status: code as number, headers: { 'Content-Type': 'application/json' } }));
  });
});
afterEach(() => {
  cleanup();
  vi.unstubAllGlobals();
});

const user = userEvent.setup();
const has = (id: string) => document.querySelector(`[data-test="${id}"]`);
const press = (id: string) => user.click(has(id) as Element);
const ready = () => waitFor(() => expect((has('apply') as HTMLButtonElement).disabled).toBe(false));
const tree = (element: React.ReactNode) => <I18nextProvider i18n={i18n}>{element}</I18nextProvider>;

describe('the dialog', () => {
  const show = (shown: LogicalVolume, suspend: boolean) => {
    listed = shown;
    const close = vi.fn();
    const opened = { volume: volume(shown), suspend };
    const element = (now?: LogicalVolume) => tree(<VolumeDialog opened={opened} now={now && volume(now)} close={close} />);
    const view = render(element(shown));
    return { close, now: (o?: LogicalVolume) => view.rerender(element(o)) };
  };
  it('shows the consequences and the Pods, asks why, and writes who, when and why', async () => {
    const { close } = show(lv(), true);
    expect(has('consequences')?.textContent).toMatch(/New Pods do not get the volume.*Pods that run keep the volume/);
    await waitFor(() => expect(has('pods')?.textContent).toBe('Pods that use the claim: web'));
    await user.type(screen.getByLabelText('Reason'), 'disk is slow');
    await ready();
    expect(has('dialog')?.textContent).toMatch(/your user name ann/);
    await press('apply');
    await waitFor(() => expect(close).toHaveBeenCalledOnce());
    expect(patched[0]?.metadata.annotations?.['lvm.topolvm.io/suspended']).toMatch(/^by ann at 20\d\d-\d\d-\d\dT\d\d:\d\d:\d\dZ: disk is slow$/);
    expect(patched[0]?.metadata.uid).toBe('u');
  });
  it('resumes, and says who suspended the volume', async () => {
    const { close } = show(lv(suspended()), false);
    expect(has('suspension')?.textContent).toMatch(/^Suspended by bob on .*Reason: backup$/);
    await press('apply');
    await waitFor(() => expect(close).toHaveBeenCalledOnce());
    expect(patched.map((p) => p.metadata.annotations)).toEqual([{ 'lvm.topolvm.io/suspended': null }]);
  });
  it('accepts no reason that is too long', async () => {
    show(lv(), true);
    await ready();
    await user.click(screen.getByLabelText('Reason'));
    await user.paste('x'.repeat(501));
    expect(has('dialog')?.textContent).toMatch(/at most 500 characters/);
    expect((has('apply') as HTMLButtonElement).disabled).toBe(true);
  });
  it('writes nothing without a user name', async () => {
    reply = (url) => (url.endsWith('selfsubjectreviews') ? [500, { message: 'broken' }] : undefined);
    show(lv(), true);
    await waitFor(() => expect(has('no-user')?.textContent).toMatch(/broken/));
    expect((has('apply') as HTMLButtonElement).disabled).toBe(true);
  });
  it('says that the Pods are not known, and not that there are none', async () => {
    reply = (url) => (/\/pods\?/.test(url) ? [403, { message: 'pods is forbidden' }] : undefined);
    show(lv(), true);
    await waitFor(() => expect(has('pods')?.textContent).toMatch(/could not be read: pods is forbidden/));
  });
  it('has no Pods', async () => {
    reply = (url) => (/\/pods\?/.test(url) ? [200, { items: [], metadata: {} }] : undefined);
    show(lv(), true);
    await waitFor(() => expect(has('pods')?.textContent).toBe('No Pod uses the claim.'));
  });
  it('is of no use once the volume was suspended, resumed or deleted by somebody else', async () => {
    const { now } = show(lv(), true);
    await ready();
    now(lv(suspended()));
    expect(has('obstacle')?.textContent).toMatch(/was suspended in the meantime.*by bob/);
    expect((has('apply') as HTMLButtonElement).disabled).toBe(true);
    now(undefined);
    expect(has('obstacle')?.textContent).toMatch(/was deleted in the meantime/);
    cleanup();
    show(lv(suspended()), false).now(lv());
    expect(has('obstacle')?.textContent).toMatch(/was resumed in the meantime/);
  });
  it.each<[string, boolean, () => void, RegExp]>([
    ['it was refused', true, () => (reply = (_, method) => (method === 'PATCH' ? [403, { message: 'logicalvolumes is forbidden' }] : undefined)), /was not suspended.*is forbidden/],
    ['nobody answered', true, () => (reply = (_, method) => (method === 'PATCH' ? [502, {}] : undefined)), /unknown whether the change was saved/],
    ['it was changed', true, () => (listed = lv(suspended())), /was not suspended.*Another user changed/],
    ['it was deleted', false, () => (reply = (url) => (/logicalvolumes/.test(url) ? [404, { message: 'not found' }] : undefined)), /was not resumed.*was deleted/],
  ])('says why nothing was written: %s', async (_, suspend, fail, text) => {
    const { close } = show(suspend ? lv() : lv(suspended()), suspend);
    fail();
    await ready();
    await press('apply');
    await waitFor(() => expect(has('why-not')?.textContent).toMatch(text));
    expect(close).not.toHaveBeenCalled();
  });
});

describe('the button', () => {
  const show = (v: Volume, forbidden = false) => {
    const choose = vi.fn();
    render(tree(<VolumeAction volume={v} forbidden={forbidden} choose={choose} />));
    return choose;
  };
  it.each<[string, LogicalVolume, string | undefined]>([
    ['suspends a volume', lv(), 'Suspend volume data'], ['resumes one', lv(suspended('')), 'Resume volume data'], ['suspends one that only its device suspends', lv({ 'lvm.topolvm.io/suspended-devices': '/dev/sdb' }), 'Suspend volume data'],
    ['has nothing for a volume without a claim', lv({ 'lvm.topolvm.io/claim': '' }), undefined], ['has nothing for one that is deleted', lv({}, { deletionTimestamp: 'x' }), undefined],
    ['has nothing for a snapshot', { ...lv(), spec: { ...lv().spec, source: 'x', accessType: 'ro' } }, undefined],
  ])('%s', async (_, o, name) => {
    const choose = show(volume(o));
    if (!name) return expect(screen.queryByRole('button')).toBeNull();
    await user.click(screen.getByRole('button', { name }));
    return expect(choose).toHaveBeenCalledWith({ volume: volume(o), suspend: name.startsWith('Suspend') });
  });
  it('does nothing for a user who lacks the permission', async () => {
    const choose = show(volume(lv()), true);
    await user.click(screen.getByRole('button'));
    expect(choose).not.toHaveBeenCalled();
  });
});

describe('the label', () => {
  it('says who suspended a volume, when and why', async () => {
    render(tree(<SuspendedVolume suspension={{ own: 'by bob at 2026-01-02T03:04:05Z: backup' }} />));
    await user.hover(has('suspended') as Element);
    await waitFor(() => expect(document.body.textContent).toMatch(/New Pods do not get this volume.*Suspended by bob on .*Reason: backup/));
  });
  it('says that nothing is recorded for a device', async () => {
    render(tree(<SuspendedDevice />));
    await user.hover(has('suspended') as Element);
    await waitFor(() => expect(document.body.textContent).toMatch(/does not record who suspended it, when and why/));
  });
});
