// What the wizard is working on. The LVMCluster is the only truth; everything else is about how it is shown.
import { createContext, useCallback, useContext, useEffect, useMemo, useState, type ReactNode } from 'react';
import { classesOf, type DeviceClass, type LVMCluster, type Node, type NodeStatus } from '../api/types';
import type { Outcome } from '../kube/submit';
import type { Permissions } from '../kube/watch';
import { newClass, withClass, withClasses } from '../model/cluster';
import { msg, type Message } from '../model/message';
import { intolerable, selects } from '../model/nodes';
import { carriersOf, consentOf, exceeds, seenOf, withCarriers, withConsent, without, type Carrier, type Consent, type Seen } from '../model/selection';
import { classField, validate, validateChange, type Problem } from '../model/validate';
import { problemsOf, YAML_FIELD, type StepId } from './steps';

export interface Draft {
  namespace: string;
  permissions: Permissions;
  /** The LVMCluster as it was when the wizard began, if it had device classes. */
  before?: LVMCluster;
  /** The LVMCluster as it is now, if there is one. */
  live?: LVMCluster;
  cluster: LVMCluster;
  setCluster: (cluster: LVMCluster) => void;
  index: number;
  setIndex: (index: number) => void;
  /** The device class that is being worked on, and what it was. */
  c: DeviceClass;
  was?: DeviceClass;
  at: string;
  setClass: (c: DeviceClass) => void;
  /** A change of which disks are chosen takes the consent to destroy what is on them back. */
  setDevices: (c: DeviceClass) => void;
  nodes: Seen[];
  /** The nodes of the device class. */
  chosen: Seen[];
  inventoryError?: string;
  carriers: Carrier[];
  confirmed: boolean;
  confirm: (yes: boolean) => void;
  problems: Problem[];
  shown: ReadonlySet<StepId>;
  show: (step: StepId) => void;
  /** Why the text in the review cannot be read: it is not what would be sent. */
  setFault: (fault: Message | undefined) => void;
  server?: Outcome;
  setServer: (outcome: Outcome | undefined) => void;
  /** What is sent: the draft on top of the object that is there. */
  outgoing: LVMCluster;
  conflict: boolean;
}

const Context = createContext<Draft | undefined>(undefined);

export function useDraft(): Draft {
  const draft = useContext(Context);
  if (!draft) throw new Error('useDraft needs a DraftProvider around it');
  return draft;
}

interface Props {
  namespace: string;
  permissions: Permissions;
  before?: LVMCluster;
  live?: LVMCluster;
  initial: LVMCluster;
  initialIndex: number;
  nodes: Node[];
  statuses: NodeStatus[];
  inventoryError?: string;
  children: ReactNode;
}

/** Two lists of carriers are the same if the same disks have the same on them. */
const keyOf = (carriers: Carrier[]): string => carriers.map((x) => `${x.seen.node.metadata.name} ${x.path} ${x.device.fingerprint ?? x.device.id ?? ''}`).sort().join('\n');

export function DraftProvider({ namespace, permissions, before, live, initial, initialIndex, nodes, statuses, inventoryError, children }: Props) {
  const [cluster, setCluster] = useState(initial);
  const [index, setIndex] = useState(initialIndex);
  const [confirmedKey, setConfirmedKey] = useState<string>();
  const [shown, setShown] = useState<ReadonlySet<StepId>>(new Set());
  const [server, setServer] = useState<Outcome>();
  const [fault, setFault] = useState<Message>();

  const seen = useMemo(() => {
    const byNode = new Map(statuses.map((s) => [s.metadata.name, s]));
    return [...nodes].sort((a, b) => (a.metadata.name ?? '').localeCompare(b.metadata.name ?? '')).map((n) => seenOf(n, byNode.get(n.metadata.name)));
  }, [nodes, statuses]);

  const classes = classesOf(cluster);
  const c = useMemo<DeviceClass>(() => classes[index] ?? classes[0] ?? newClass([]), [classes, index]);
  const was = classesOf(before).find((o) => o.name === c.name);
  const at = classField(Math.min(index, Math.max(0, classes.length - 1)));
  const chosen = useMemo(() => seen.filter((s) => selects(c.nodeSelector, s.node) && intolerable(s.node, cluster.spec?.tolerations).length === 0), [seen, c.nodeSelector, cluster.spec?.tolerations]);
  const consented = useMemo<Consent>(() => (was ? consentOf(was) : { paths: new Set(), groups: new Set() }), [was]);
  const carriers = useMemo(() => without(consented, carriersOf(c, seen)), [c, seen, consented]);
  const key = keyOf(carriers);
  const confirmed = carriers.length > 0 && confirmedKey === key;

  const setClass = useCallback((next: DeviceClass) => setCluster((old) => (classesOf(old).length ? withClass(old, index, next) : withClasses(old, [next]))), [index]);
  const setDevices = useCallback(
    (next: DeviceClass) => {
      setConfirmedKey(undefined);
      setClass(exceeds(consentOf(next), consented) ? withConsent(next, consented, carriersOf(next, seen)) : next);
    },
    [setClass, consented, seen],
  );
  const confirm = useCallback(
    (yes: boolean) => {
      setConfirmedKey(yes ? key : undefined);
      setClass(withConsent(c, yes ? withCarriers(consented, carriers) : consented, carriersOf(c, seen)));
    },
    [key, c, consented, carriers, seen, setClass],
  );
  // What is on the disks changed after somebody consented to destroy it: that consent was for something else.
  useEffect(() => {
    if (confirmedKey !== undefined && confirmedKey !== key) {
      setConfirmedKey(undefined);
      setClass(withConsent(c, consented, carriersOf(c, seen)));
    }
  }, [confirmedKey, key, c, consented, seen, setClass]);

  const problems = useMemo(() => {
    const all = [...validate(cluster), ...(before ? validateChange(before, cluster) : [])];
    if (!cluster.metadata.name) all.unshift({ field: 'metadata.name', message: msg('The LVMCluster must have a name.') });
    if (carriers.length > 0 && !confirmed) all.push({ field: 'protection.confirm', message: msg('{{count}} of the selected disks contain data: confirm that it will be destroyed, or deselect them.', { count: carriers.length }) });
    if (fault) all.push({ field: YAML_FIELD, message: msg('The YAML is not valid and would not be saved: correct it, or leave the YAML view.') });
    return all;
  }, [cluster, before, carriers.length, confirmed, fault]);

  const show = useCallback((step: StepId) => setShown((old) => new Set([...old, step])), []);

  const outgoing = useMemo<LVMCluster>(() => {
    if (!live) return cluster;
    const { name, uid, resourceVersion } = live.metadata;
    return { ...cluster, metadata: { ...live.metadata, ...cluster.metadata, name, uid, resourceVersion } };
  }, [cluster, live]);
  // The number of the last change of the spec that this draft is based on.
  const conflict = before ? live !== undefined && live.metadata.generation !== before.metadata.generation : classesOf(live).length > 0;

  const value: Draft = {
    namespace, permissions, before, live, cluster, setCluster, index, setIndex, c, was, at, setClass, setDevices, nodes: seen, chosen, inventoryError,
    carriers, confirmed, confirm, problems, shown, show, setFault, server, setServer, outgoing, conflict,
  };
  return <Context.Provider value={value}>{children}</Context.Provider>;
}

/** What is wrong with a field, in words: by our own rules once the step was left, and by the API server. */
export function useProblems(field: string, step: StepId): { text: string; key: string; values?: Record<string, string | number> }[] {
  const { problems, shown, server } = useDraft();
  const own = shown.has(step) || shown.has('review') ? problemsOf(step, problems).filter((p) => p.field === field) : [];
  const theirs = server?.kind === 'refused' ? server.causes.filter((x) => x.field === field) : [];
  return [...own.map((p) => ({ text: p.message.key, key: p.message.key, values: p.message.values })), ...theirs.filter(() => own.length === 0).map((x) => ({ text: x.message, key: '' }))];
}
