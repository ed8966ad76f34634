// In place of @openshift-console/dynamic-plugin-sdk, whose published package works inside the console only: what the plugin uses of it,
// with the console's behaviour. A unit test holds it to what the plugin imports.
import { useEffect, useRef, useState, type ReactNode } from 'react';

export class HttpError extends Error {
  constructor(
    message: string,
    readonly code?: number,
    readonly response?: Response,
    readonly json?: unknown,
  ) {
    super(message);
    this.name = 'HttpError';
  }
}

const cookie = (name: string): string => document.cookie.split('; ').find((c) => c.startsWith(`${name}=`))?.slice(name.length + 1) ?? '';

export async function consoleFetch(url: string, options: RequestInit = {}, timeout = 60_000): Promise<Response> {
  const headers = new Headers(options.headers);
  if ((options.method ?? 'GET') !== 'GET') headers.set('X-CSRFToken', cookie('csrf-token'));
  const signals = [AbortSignal.timeout(timeout), ...(options.signal ? [options.signal] : [])];
  const response = await fetch(url, { ...options, headers, signal: AbortSignal.any(signals) });
  if (response.ok || response.status === 304) return response;
  const isJSON = response.headers.get('Content-Type')?.includes('json');
  const json = isJSON ? ((await response.json()) as { message?: string }) : undefined;
  throw new HttpError(json?.message ?? (isJSON ? response.statusText : await response.text()), response.status, response, json);
}

interface Resource {
  name: string;
  kind: string;
  namespaced: boolean;
}
const discovered = new Map<string, Promise<Resource[]>>();

const root = (group: string | undefined, version: string): string => `/api/kubernetes/${group ? `apis/${group}` : 'api'}/${version}`;

async function resourceOf(group: string | undefined, version: string, kind: string): Promise<Resource | undefined> {
  const url = root(group, version);
  const known = discovered.get(url) ?? consoleFetch(url).then(async (r) => ((await r.json()) as { resources: Resource[] }).resources);
  discovered.set(url, known);
  known.catch(() => discovered.delete(url));
  return (await known).find((r) => r.kind === kind && !r.name.includes('/'));
}

interface WatchRequest {
  groupVersionKind: { group?: string; version: string; kind: string };
  namespace?: string;
  name?: string;
  isList?: boolean;
}
interface KubeObject {
  apiVersion?: string;
  kind?: string;
  metadata: { uid?: string; name?: string; namespace?: string; resourceVersion?: string };
}

/** How long after a watch ended it is begun again, in milliseconds. */
const PAUSE = 1000;

export function useK8sWatchResource(request: WatchRequest | null): [unknown, boolean, unknown] {
  const [state, set] = useState<[KubeObject[], boolean, unknown]>([[], false, undefined]);
  const key = JSON.stringify(request);
  useEffect(() => {
    if (!request) return undefined;
    const { groupVersionKind: g, namespace, name } = request;
    let ended = false;
    let socket: WebSocket | undefined;
    let timer: ReturnType<typeof setTimeout> | undefined;
    const objects = new Map<string, KubeObject>();
    const show = (error?: unknown) => !ended && set([[...objects.values()], true, error]);
    const again = () => {
      if (!ended) timer = setTimeout(() => void begin(), PAUSE);
    };
    const begin = async () => {
      try {
        const resource = await resourceOf(g.group, g.version, g.kind);
        if (!resource) throw new Error(`The cluster has no ${g.kind}`);
        const url = `${root(g.group, g.version)}${namespace ? `/namespaces/${namespace}` : ''}/${resource.name}`;
        const only = name ? `&fieldSelector=metadata.name%3D${name}` : '';
        const list = (await (await consoleFetch(`${url}?limit=5000${only}`)).json()) as { metadata: { resourceVersion: string }; items: KubeObject[] };
        if (ended) return;
        objects.clear();
        for (const o of list.items) objects.set(o.metadata.uid ?? '', o);
        show();
        socket = new WebSocket(`${location.origin.replace('http', 'ws')}${url}?watch=true&resourceVersion=${list.metadata.resourceVersion}${only}`);
        socket.onmessage = (m: MessageEvent<string>) => {
          const { type, object } = JSON.parse(m.data) as { type: string; object: KubeObject };
          if (type === 'ERROR') return socket?.close();
          if (type === 'DELETED') objects.delete(object.metadata.uid ?? '');
          else objects.set(object.metadata.uid ?? '', object);
          return show();
        };
        socket.onclose = again;
      } catch (error) {
        // As in the console, what was read before stays.
        show(error);
        again();
      }
    };
    void begin();
    return () => {
      ended = true;
      clearTimeout(timer);
      socket?.close();
    };
    // eslint-disable-next-line react-hooks/exhaustive-deps
  }, [key]);
  const [list, loaded, error] = state;
  return [request?.isList ? list : list[0], loaded, error];
}

export function useAccessReview(attributes: { group?: string; resource?: string; verb?: string; namespace?: string }): [boolean, boolean] {
  const [state, set] = useState<[boolean, boolean]>([false, true]);
  const key = JSON.stringify(attributes);
  useEffect(() => {
    let ended = false;
    const spec = { resourceAttributes: JSON.parse(key) as unknown };
    consoleFetch('/api/kubernetes/apis/authorization.k8s.io/v1/selfsubjectaccessreviews', {
      method: 'POST', headers: { 'Content-Type': 'application/json' }, body: JSON.stringify({ apiVersion: 'authorization.k8s.io/v1', kind: 'SelfSubjectAccessReview', spec }),
    })
      .then(async (r) => ((await r.json()) as { status: { allowed: boolean } }).status.allowed)
      // The console lets a user try where it could not ask.
      .catch(() => true)
      .then((allowed) => !ended && set([allowed, false]));
    return () => {
      ended = true;
    };
  }, [key]);
  return state;
}

export function DocumentTitle({ children }: { children: ReactNode }) {
  const text = Array.isArray(children) ? children.join('') : String(children);
  useEffect(() => {
    document.title = text;
  }, [text]);
  return null;
}

/** The console opens a panel beside the page. Here, the document tells which quick start it would show. */
export const useQuickStartContext = (): { setActiveQuickStart: (name: string) => void } => ({
  setActiveQuickStart: (name) => {
    document.documentElement.dataset['quickStart'] = name;
  },
});

interface EditorProps {
  value?: string;
  onChange?: (value: string, event: never) => void;
  height?: string;
  minHeight?: string;
}

/**
 * The console has Monaco in PatternFly's editor. A text area has the same contract: a value, and what becomes of it. It also has the layout
 * of the console's editor: minHeight and 100 % of the parent are those of the outermost box, and the editor itself, which is positioned and
 * so gives its box no height, fills what `height` sets, or 100 % of that box: nothing where the parent has no height.
 */
export function CodeEditor({ value = '', onChange, height, minHeight }: EditorProps) {
  const [text, setText] = useState(value);
  const last = useRef(value);
  useEffect(() => {
    if (value !== last.current) setText((last.current = value));
  }, [value]);
  return (
    <div className="pf-v6-c-code-editor pf-m-full-height" style={{ minHeight }}>
      <div className="pf-v6-c-code-editor__main">
        <div className="pf-v6-c-code-editor__code">
          <section style={{ position: 'relative', width: '100%', height: height ?? '100%' }}>
            <textarea
              aria-label="YAML"
              spellCheck={false}
              value={text}
              style={{ position: 'absolute', inset: 0, width: '100%', height: '100%', border: 0, boxSizing: 'border-box', fontFamily: 'monospace', resize: 'none' }}
              onChange={(e) => {
                setText((last.current = e.target.value));
                onChange?.(e.target.value, undefined as never);
              }}
            />
          </section>
        </div>
      </div>
    </div>
  );
}
