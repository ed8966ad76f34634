// The places of the console in which a plugin's parts show up, other than pages: tabs of resources, the cards of the Overview.
import type { Extension } from '@openshift/dynamic-plugin-sdk';
import { Button, DescriptionList, DescriptionListDescription, DescriptionListGroup, DescriptionListTerm, PageSection, Title } from '@patternfly/react-core';
import i18next from 'i18next';
import { useEffect, useMemo, useState, type ComponentType } from 'react';
import { Link, useParams } from './router';
import { useK8sWatchResource } from './sdk';

type Ref<T> = () => Promise<T>;
interface Kind {
  group?: string;
  version: string;
  kind: string;
}

/** What a reference of an extension leads to, once it is loaded. */
export function useRef<T>(ref: unknown): T | undefined {
  const [loaded, set] = useState<{ value: T }>();
  useEffect(() => {
    let ended = false;
    if (ref) void (ref as Ref<T>)().then((value) => !ended && set({ value }));
    return () => {
      ended = true;
    };
  }, [ref]);
  return loaded?.value;
}

const plurals: Record<string, string> = { Node: 'cluster/nodes', PersistentVolumeClaim: 'ns/:ns/persistentvolumeclaims' };

/** Where the console shows a tab. */
export const tabPath = (e: Extension): string => {
  const { model, page } = e.properties as unknown as { model: Kind; page: { href: string } };
  return `/k8s/${plurals[model.kind]}/:name/${page.href}`;
};

export function Tab({ extension }: { extension: Extension }) {
  const { model, component } = extension.properties as unknown as { model: Kind; component: unknown };
  const { name, ns } = useParams();
  const [obj, loaded] = useK8sWatchResource({ groupVersionKind: model, name, namespace: ns });
  const Shown = useRef<ComponentType<{ obj: unknown }>>(component);
  return Shown && loaded ? (
    <>
      <PageSection>
        <Title headingLevel="h1">{name}</Title>
      </PageSection>
      <Shown obj={obj} />
    </>
  ) : null;
}

interface Subsystem {
  title: string;
  resources: unknown;
  healthHandler: unknown;
  popupComponent: unknown;
}
type Results = Record<string, { data: unknown; loaded: boolean; loadError: unknown }>;

/** A line of the status card, with what is behind it. */
export function Health({ extension, translated }: { extension: Extension; translated: (text: string) => string }) {
  const { title, resources, healthHandler, popupComponent } = extension.properties as unknown as Subsystem;
  const wanted = useRef<Record<string, { groupVersionKind: Kind; isList: boolean }>>(resources);
  const handler = useRef<(results: Results, t: typeof i18next.t) => { state: string; message?: string }>(healthHandler);
  const Popup = useRef<ComponentType<Results>>(popupComponent);
  const [name = '', request] = Object.entries(wanted ?? {})[0] ?? [];
  const [data, loaded, loadError] = useK8sWatchResource(request ?? null);
  const results: Results = { [name]: { data, loaded, loadError } };
  const health = request && handler?.(results, i18next.t);
  return (
    <DescriptionList data-test="status-card">
      <DescriptionListGroup>
        <DescriptionListTerm>{translated(title)}</DescriptionListTerm>
        <DescriptionListDescription data-test="status" data-state={health?.state}>
          {health?.state} {health?.message}
          {Popup && request && <Popup {...results} />}
        </DescriptionListDescription>
      </DescriptionListGroup>
    </DescriptionList>
  );
}

type Counts = Record<string, { statusIDs: string[]; count: number }>;

/** A line of the inventory card: how many there are, and the worst groups of them. */
export function Inventory({ extension }: { extension: Extension }) {
  const refs = extension.properties as unknown as { model: unknown; mapper: unknown };
  const model = useRef<{ apiGroup: string; apiVersion: string; kind: string; labelKey: string; labelPluralKey: string }>(refs.model);
  const mapper = useRef<(resources: unknown[]) => Counts>(refs.mapper);
  const request = useMemo(() => (model ? { groupVersionKind: { group: model.apiGroup, version: model.apiVersion, kind: model.kind }, isList: true } : null), [model]);
  const [data, loaded, loadError] = useK8sWatchResource(request);
  if (!model || !mapper) return null;
  const groups = Object.entries(mapper(data as unknown[])).filter(([, { count }]) => count > 0);
  const sum = groups.reduce((n, [, { count }]) => n + count, 0);
  // As in the console, what has no sign comes first and takes one of the three places.
  const order = ['ERROR', 'WARN', 'PROGRESS', 'UNKNOWN'];
  const worst = groups.sort(([a], [b]) => order.indexOf(a) - order.indexOf(b)).slice(0, 3).filter(([group]) => group !== 'NOT_MAPPED');
  const known = loaded && !loadError;
  return (
    <p data-test="inventory" data-groups={known ? worst.map(([group, { count }]) => `${group}=${count}`).join(' ') : undefined}>
      <Link to={`/k8s/all-namespaces/${model.apiGroup}~${model.apiVersion}~${model.kind}`}>
        {known ? `${sum} ` : ''}
        {i18next.t(sum === 1 ? model.labelKey : model.labelPluralKey)}
      </Link>{' '}
      {loadError ? 'Not available' : worst.map(([group, { count }]) => `${group} ${count}`).join(', ')}
    </p>
  );
}

interface Action {
  alert: string;
  text: string;
  action: unknown;
}
type Overlay = ComponentType<Record<string, unknown> & { closeOverlay: () => void }>;

/** The button beside an alert of a device class on a node. */
export function AlertButton({ extension, translated }: { extension: Extension; translated: (text: string) => string }) {
  const { alert, text, action } = extension.properties as unknown as Action;
  const [overlay, set] = useState<{ Shown: Overlay; props: Record<string, unknown> }>();
  const press = async () => {
    const act = await (action as Ref<(alert: unknown, launch: (Shown: Overlay, props: Record<string, unknown>) => void) => void>)();
    act({ labels: { alertname: alert, node: 'node-a', device_class: 'vg1' } }, (Shown, props) => set({ Shown, props }));
  };
  return (
    <>
      <Button variant="link" data-test={`action-${alert}`} onClick={() => void press()}>
        {alert}: {translated(text)}
      </Button>
      {overlay && <overlay.Shown {...overlay.props} closeOverlay={() => set(undefined)} />}
    </>
  );
}
