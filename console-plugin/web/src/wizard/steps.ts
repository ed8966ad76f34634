import type { Problem } from '../model/validate';

export type StepId = 'start' | 'nodes' | 'devices' | 'class' | 'protection' | 'review';

/** Stands for the text in the review, which is no field of the LVMCluster. */
export const YAML_FIELD = 'review.yaml';

/** The step that has the control for a field of the LVMCluster. */
export function stepOf(field: string): StepId {
  if (field === YAML_FIELD) return 'review';
  if (field === '' || field.startsWith('metadata') || field === 'spec.storage.deviceClasses') return 'start';
  if (/forceWipe|wipeVolumeGroups|^protection/.test(field)) return 'protection';
  if (/deviceSelector|deviceDiscoveryPolicy|\.approval$|deviceRequests|adopt|existingVolumeGroup$/.test(field)) return 'devices';
  if (/nodeSelector|tolerations/.test(field)) return 'nodes';
  return 'class';
}

export const problemsOf = (step: StepId, problems: Problem[]): Problem[] => problems.filter((p) => step === 'review' || stepOf(p.field) === step);

/** The control for a field, or for the nearest field around it that has one. */
export function controlOf(field: string, root: Document = document): HTMLElement | null {
  let at = field;
  while (at) {
    const found = root.getElementById(at);
    if (found) return found;
    const cut = Math.max(at.lastIndexOf('.'), at.endsWith(']') ? at.lastIndexOf('[') : -1);
    at = cut > 0 ? at.slice(0, cut) : '';
  }
  return null;
}
