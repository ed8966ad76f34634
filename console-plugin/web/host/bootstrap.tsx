import { PluginStore, PluginStoreProvider, useExtensions, type Extension } from '@openshift/dynamic-plugin-sdk';
import { Masthead, MastheadBrand, MastheadContent, MastheadMain, Nav, NavItem, NavList, Page, PageSection, PageSidebar, PageSidebarBody } from '@patternfly/react-core';
import i18next from 'i18next';
import HttpBackend from 'i18next-http-backend';
import { transformNamespace } from 'i18next-v4-format-converter';
import { Component, lazy, Suspense, type ComponentType, type ReactNode } from 'react';
import { I18nextProvider, initReactI18next } from 'react-i18next';
import { AlertButton, Health, Inventory, Tab, tabPath } from './places';
import { Languages, lastLanguage } from './languages';
import { CALLBACK, consoleVersion, prepare, show } from './react';
import { BrowserRouter, Link, Route, Routes } from './router';
import { consoleFetch } from './sdk';

declare const __webpack_init_sharing__: (scope: string) => Promise<void>;
declare const __webpack_share_scopes__: { default: never };

const NAMESPACE = 'plugin__lvms-console';
const query = new URLSearchParams(location.search);

/** ⟦Ŵôŕđş⟧: what is not in brackets was not translated, and longer words show what does not fit. */
const pseudo = {
  type: 'postProcessor' as const,
  name: 'pseudo',
  process: (value: string) => (i18next.language === query.get('lng') ? bracketed(value) : value),
};
const bracketed = (value: string): string => `⟦${value.replace(/[aeiou]/g, (v) => `${v}${{ a: 'á', e: 'é', i: 'í', o: 'ó', u: 'ú' }[v]}`)}⟧`;

/** As the console sets it up: in the language of its setting, or else of the browser, and in English where a plugin lacks that language. */
async function translations(): Promise<void> {
  const pseudolocal = query.get('pseudolocalization') === 'true';
  await i18next.use(HttpBackend).use(initReactI18next).use(pseudo).init({
    backend: {
      loadPath: '/locales/resource.json?lng={{lng}}&ns={{ns}}',
      parse: (data: string, lng?: string | string[]) => transformNamespace('en', transformNamespace(String(lng), JSON.parse(data) as Record<string, string>)) as Record<string, string>,
    },
    lng: lastLanguage(), fallbackLng: 'en', load: 'languageOnly', ns: [NAMESPACE], defaultNS: NAMESPACE, nsSeparator: '~', keySeparator: false, contextSeparator: '~',
    interpolation: { escapeValue: false }, react: { useSuspense: false },
    ...(pseudolocal ? { postProcess: ['pseudo'] } : {}),
    saveMissing: true, missingKeyHandler: (_, ns, key) => console.error(`missing translation ${ns}~${key}`),
  });
}

interface Props {
  [key: string]: unknown;
}
const of = (type: string) => (e: Extension): e is Extension<string, Props> => e.type === type;
const isRoute = of('console.page/route');
const isCreate = of('console.resource/create');
const isNavigation = of('console.navigation/href');
const isTab = of('console.tab/horizontalNav');
const isAction = of('console.alert-action');
const isHealth = of('console.dashboards/overview/health/resource');
const isInventory = of('console.dashboards/overview/inventory/item');

class Boundary extends Component<{ children: ReactNode }, { error?: Error }> {
  override state: { error?: Error } = {};
  static getDerivedStateFromError(error: Error) {
    return { error };
  }
  override render() {
    return this.state.error ? <pre role="alert" data-test="crash">{this.state.error.stack}</pre> : this.props.children;
  }
}

const translated = (text: string): string => text.replace(/^%(.*)%$/, (_, key: string) => i18next.t(key));

/** A page is loaded when it is visited, as in the console. */
const pages = new Map<unknown, ComponentType>();
function pageOf(ref: unknown): ComponentType {
  const known = pages.get(ref) ?? lazy(async () => ({ default: await (ref as () => Promise<ComponentType>)() }));
  pages.set(ref, known);
  return known;
}

function Console() {
  const routes = useExtensions(isRoute);
  const creates = useExtensions(isCreate);
  const items = useExtensions(isNavigation);
  const tabs = useExtensions(isTab);
  const health = useExtensions(isHealth);
  const inventory = useExtensions(isInventory);
  const actions = useExtensions(isAction);
  return (
    <Page
      isManagedSidebar
      masthead={
        <Masthead>
          <MastheadMain>
            <MastheadBrand>Console</MastheadBrand>
          </MastheadMain>
          <MastheadContent>
            <Languages />
          </MastheadContent>
        </Masthead>
      }
      sidebar={
        <PageSidebar>
          <PageSidebarBody>
            <Nav aria-label="Console">
              <NavList>
                {items.map((i) => (
                  <NavItem key={String(i.properties.id)} isActive={location.pathname.startsWith(String(i.properties.href))}>
                    <Link to={String(i.properties.href)}>{translated(String(i.properties.name))}</Link>
                  </NavItem>
                ))}
              </NavList>
            </Nav>
          </PageSidebarBody>
        </PageSidebar>
      }
    >
      <Boundary>
        <Suspense fallback={null}>
          <Routes>
            {routes.map((r) => {
              const [path, Shown] = [r.properties.path as string, pageOf(r.properties.component)];
              return <Route key={path} path={path} element={<Shown />} />;
            })}
            {creates.map((r) => {
              const { group, version, kind } = r.properties.model as Record<string, string>;
              const Shown = pageOf(r.properties.component);
              return <Route key={kind} path={`/k8s/ns/:ns/${group}~${version}~${kind}/~new`} element={<Shown />} />;
            })}
            {tabs.map((e) => (
              <Route key={tabPath(e)} path={tabPath(e)} element={<Tab extension={e} />} />
            ))}
            <Route path="/monitoring/alerts" element={<PageSection>{actions.map((e) => <AlertButton key={e.uid} extension={e} translated={translated} />)}</PageSection>} />
            <Route
              path="/dashboards"
              element={
                <PageSection>
                  {health.map((e) => <Health key={e.uid} extension={e} translated={translated} />)}
                  {inventory.map((e) => <Inventory key={e.uid} extension={e} />)}
                </PageSection>
              }
            />
          </Routes>
        </Suspense>
      </Boundary>
    </Page>
  );
}

/** Flags that stand for kinds of the API server, as the console finds them out. */
async function flagsOf(store: PluginStore): Promise<Record<string, boolean>> {
  const flags: Record<string, boolean> = {};
  const all = store.getPluginInfo().flatMap((p) => (p.status === 'loaded' ? p.manifest.extensions : []));
  for (const e of all.filter((x) => x.type === 'console.flag/model')) {
    const { flag, model } = e.properties as unknown as { flag: string; model: { group: string; version: string; kind: string } };
    flags[flag] = await consoleFetch(`/api/kubernetes/apis/${model.group}/${model.version}`).then(
      async (r) => ((await r.json()) as { resources: { kind: string }[] }).resources.some((k) => k.kind === model.kind),
      () => false,
    );
  }
  return flags;
}

async function start(): Promise<void> {
  if (query.get('theme') === 'dark') document.documentElement.classList.add('pf-v6-theme-dark');
  if (query.get('theme') === 'contrast') document.documentElement.classList.add('pf-v6-theme-high-contrast');
  await translations();
  document.documentElement.lang = i18next.resolvedLanguage ?? 'en';
  await __webpack_init_sharing__('default');
  const store = new PluginStore({
    loaderOptions: { entryCallbackSettings: { name: CALLBACK }, sharedScope: __webpack_share_scopes__.default, customDependencyResolutions: { '@console/pluginAPI': consoleVersion } },
  });
  prepare();
  await store.loadPlugin('/api/plugins/lvms-console/plugin-manifest.json');
  const failed = store.getPluginInfo().find((p) => p.status === 'failed');
  if (failed) throw new Error(JSON.stringify(failed));
  store.setFeatureFlags(await flagsOf(store));
  show(
    <I18nextProvider i18n={i18next}>
      <PluginStoreProvider store={store}>
        <BrowserRouter>
          <Console />
        </BrowserRouter>
      </PluginStoreProvider>
    </I18nextProvider>,
    document.getElementById('app') as HTMLElement,
  );
}

start().catch((error: unknown) => {
  const text = document.createElement('pre');
  text.dataset.test = 'crash';
  text.textContent = String(error instanceof Error ? error.stack : error);
  document.body.append(text);
});
