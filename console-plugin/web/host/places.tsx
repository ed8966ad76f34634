// The places of the console in which a plugin's parts show up, other than pages: tabs of resources, the status card.
import type { Extension } from '@openshift/dynamic-plugin-sdk';
import { Button, DescriptionList, DescriptionListDescription, DescriptionListGroup, DescriptionListTerm, PageSection, Title } from '@patternfly/react-core';
import i18next from 'i18next';
import { useEffect, useState, type ComponentType } from 'react';
import { useParams } from 'react-router';
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
