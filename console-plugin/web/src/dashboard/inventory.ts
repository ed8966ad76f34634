// The line "Local volume groups" in the inventory of the console's Overview: how many there are, and how many are not well.
import { clusterModel, type LVMCluster, type State } from '../api/types';
import { msg } from '../model/message';
import { NAMESPACE } from '../namespace';

const one = msg('Local volume group').key;
const many = msg('Local volume groups').key;

/** What the console reads for it, and how it is called there. It leads to the list of LVMClusters. */
export const model = {
  ...clusterModel, abbr: 'LVMC', crd: true, label: one, labelKey: `${NAMESPACE}~${one}`, labelPlural: many, labelPluralKey: `${NAMESPACE}~${many}`,
};

/** The words of the console's InventoryStatusGroup. What is NOT_MAPPED is counted and has no sign. */
type Group = 'ERROR' | 'WARN' | 'PROGRESS' | 'UNKNOWN' | 'NOT_MAPPED';
type Groups = Record<Group, { statusIDs: string[]; count: number }>;

const groupOf = (state: State | undefined): Group => {
  switch (state) {
    case 'Ready':
      return 'NOT_MAPPED';
    case 'Failed':
      return 'ERROR';
    case 'Degraded':
      return 'WARN';
    // One that says nothing is not ready: controllers/lvmcluster/status/status.go, stateOf.
    case 'Progressing':
    case undefined:
      return 'PROGRESS';
    default:
      return 'UNKNOWN';
  }
};

/** The volume groups of all nodes, as the operator judges them: one of a node that does not answer is not well. */
export function mapper(clusters: LVMCluster[]): Groups {
  const count: Record<Group, number> = { ERROR: 0, WARN: 0, PROGRESS: 0, UNKNOWN: 0, NOT_MAPPED: 0 };
  for (const { status } of clusters) {
    const listed = (status?.deviceClassStatuses ?? []).flatMap((c) => c.nodeStatus ?? []);
    for (const { status: state } of listed) count[groupOf(state)]++;
    // A list that would be too long is cut, ready ones first. The operator's two numbers count all of them.
    const [ready = NaN, all = NaN] = (status?.volumeGroups ?? '').split('/').map(Number);
    if (!(all > listed.length)) continue;
    const cut = Math.max(0, Math.min(all - listed.length, ready - listed.filter((g) => g.status === 'Ready').length));
    count.NOT_MAPPED += cut;
    count.UNKNOWN += all - listed.length - cut;
  }
  const groups = Object.entries(count).map(([group, n]) => [group, { statusIDs: [], count: n }]);
  return Object.fromEntries(groups) as Groups;
}
