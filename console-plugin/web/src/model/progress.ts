// How far each device class is on each node.
import { classesOf, type LVMCluster, type Node, type NodeStatus, type State } from '../api/types';
import { msg, type Message } from './message';
import { intolerable, isReady, selects } from './nodes';
import { bytesOf } from './quantity';

export interface ProgressRow {
  deviceClass: string;
  node: string;
  state: State;
  size?: number;
  text: Message;
}

/** A text of the agent is shown as it is. */
const verbatim = (text: string): Message => msg('{{text}}', { text });

export function progressOf(cluster: LVMCluster, nodes: Node[], statuses: NodeStatus[]): ProgressRow[] {
  const byNode = new Map(statuses.map((s) => [s.metadata.name, s]));
  return classesOf(cluster).flatMap((c) =>
    nodes
      .filter((n) => selects(c.nodeSelector, n) && intolerable(n, cluster.spec?.tolerations).length === 0)
      .map((n): ProgressRow => {
        const node = n.metadata.name ?? '';
        const status = byNode.get(node);
        const group = status?.status?.nodeStatus?.find((g) => g.name === c.name);
        const base = { deviceClass: c.name, node };
        if (!isReady(n) && !group) return { ...base, state: 'Unknown', text: msg('The node is not ready.') };
        if (!status) return { ...base, state: 'Progressing', text: msg('The node agent is starting.') };
        if (!group) return { ...base, state: 'Progressing', text: msg('The node agent has not started with this device class yet.') };
        const size = bytesOf(group.thinPool?.size ?? group.size);
        const state = group.status ?? 'Unknown';
        return { ...base, state, size, text: group.reason ? verbatim(group.reason) : state === 'Ready' ? msg('Volumes can be created.') : msg('The volume group is being created.') };
      }),
  );
}
