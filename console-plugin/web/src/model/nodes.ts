// Which nodes a NodeSelector selects: k8s.io/component-helpers, scheduling/corev1/nodeaffinity.
import type { Node, NodeSelector, NodeSelectorTerm, Requirement, Toleration } from '../api/types';

export const HOSTNAME = 'kubernetes.io/hostname';

function meets(value: string | undefined, { operator, values = [] }: Requirement): boolean {
  const number = () => (value !== undefined && /^-?\d+$/.test(value) && values.length === 1 && /^-?\d+$/.test(values[0] ?? '') ? Number(value) : NaN);
  switch (operator) {
    case 'In':
      return value !== undefined && values.includes(value);
    case 'NotIn':
      return value === undefined || !values.includes(value);
    case 'Exists':
      return value !== undefined;
    case 'DoesNotExist':
      return value === undefined;
    case 'Gt':
      return number() > Number(values[0]);
    case 'Lt':
      return number() < Number(values[0]);
    default:
      return false;
  }
}

function termSelects(term: NodeSelectorTerm, node: Node): boolean {
  const [expressions, fields] = [term.matchExpressions ?? [], term.matchFields ?? []];
  if (expressions.length + fields.length === 0) return false;
  return (
    expressions.every((r) => meets(node.metadata.labels?.[r.key], r)) &&
    fields.every((r) => r.key === 'metadata.name' && meets(node.metadata.name, r))
  );
}

/** Without a selector all nodes are meant. */
export const selects = (selector: NodeSelector | undefined, node: Node): boolean =>
  !selector || selector.nodeSelectorTerms.some((term) => termSelects(term, node));

/** The taints by which Kubernetes marks a node's condition do not keep the node agent away (docs/reference/lvmcluster.md). */
const ownTaints = ['node.kubernetes.io/', 'node.cloudprovider.kubernetes.io/uninitialized'];

const tolerates = (t: Toleration, taint: { key: string; value?: string; effect: string }): boolean =>
  (!t.effect || t.effect === taint.effect) &&
  (t.operator === 'Exists' ? !t.key || t.key === taint.key : t.key === taint.key && (t.value ?? '') === (taint.value ?? ''));

/** The taints of a node that keep the node agent away. */
export const intolerable = (node: Node, tolerations: Toleration[] = []) =>
  (node.spec?.taints ?? []).filter(
    (taint) => taint.effect !== 'PreferNoSchedule' && !ownTaints.some((own) => taint.key.startsWith(own)) && !tolerations.some((t) => tolerates(t, taint)),
  );

export const isReady = (node: Node): boolean => node.status?.conditions?.some((c) => c.type === 'Ready' && c.status === 'True') ?? false;

/** A selector of exactly these nodes; undefined where that is not possible because a node has no hostname label. */
export function selectorOf(nodes: Node[]): NodeSelector | undefined {
  const values = nodes.map((n) => n.metadata.labels?.[HOSTNAME]);
  if (values.some((v) => v === undefined)) return undefined;
  return { nodeSelectorTerms: [{ matchExpressions: [{ key: HOSTNAME, operator: 'In', values: (values as string[]).sort() }] }] };
}

/** A selector of one node, also of one without a hostname label. */
export const onlyNode = (node: Node): NodeSelector =>
  selectorOf([node]) ?? { nodeSelectorTerms: [{ matchFields: [{ key: 'metadata.name', operator: 'In', values: [node.metadata.name ?? ''] }] }] };

/** The roles of a node, from its labels. */
export const rolesOf = (node: Node): string[] =>
  Object.keys(node.metadata.labels ?? {})
    .filter((key) => key.startsWith('node-role.kubernetes.io/'))
    .map((key) => key.slice('node-role.kubernetes.io/'.length))
    .sort();
