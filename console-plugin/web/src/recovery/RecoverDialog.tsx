// Starts a recovery. This changes nothing yet: the node agent makes a plan, which has to be approved.
import {
  Alert, Button, Checkbox, Form, FormGroup, FormHelperText, FormSelect, FormSelectOption, HelperText, HelperTextItem, Label, Modal, ModalBody, ModalFooter, ModalHeader, Radio, Stack, TextArea, TextInput,
} from '@patternfly/react-core';
import { useMemo, useState } from 'react';
import type { LVMCluster, LVMRecovery, NodeStatus } from '../api/types';
import { ReadErrors } from '../components/parts';
import { VirtualTable } from '../components/VirtualTable';
import { useT } from '../i18n';
import { createRecovery, type RecoveryOutcome } from '../kube/recover';
import { useLogicalVolumes, usePersistentVolumes, type Watched } from '../kube/watch';
import { formatBytes } from '../model/quantity';
import { actionNames, actions, checkable, emptyDraft, orphansOf, problemOf, recoveryOf, unfinished, volumeUse, type Candidate, type Draft, type Suggestion } from '../model/recovery';
import { classOf, volumesOf } from '../model/volumes';
import { Refusal } from './parts';

interface Props {
  namespace: string;
  cluster: LVMCluster;
  /** The device class. */
  name: string;
  statuses: NodeStatus[];
  recoveries: LVMRecovery[];
  suggestions: Suggestion[];
  initial?: Suggestion;
  close: () => void;
  created: (name: string) => void;
}

export function RecoverDialog({ namespace, cluster, name, statuses, recoveries, suggestions, initial, close, created }: Props) {
  const { t, m } = useT();
  const nodes = statuses.map((s) => s.metadata.name ?? '').sort((a, b) => a.localeCompare(b));
  const only = nodes.length === 1 ? nodes[0] : undefined;
  const [draft, setDraft] = useState<Draft>(() => ({ ...emptyDraft, node: initial?.node ?? only ?? '', action: initial?.action }));
  const [why, setWhy] = useState<string>();
  const [sending, setSending] = useState(false);
  const [outcome, setOutcome] = useState<RecoveryOutcome>();
  const change = (next: Partial<Draft>) => {
    setWhy(undefined);
    setDraft({ ...draft, ...next });
  };
  const suggested = (action: string) => suggestions.some((s) => s.node === draft.node && s.action === action);
  const before = draft.node ? unfinished(recoveries, draft.node, name) : [];
  const press = async () => {
    const problem = problemOf(draft, name);
    if (problem) return setWhy(m(problem));
    setSending(true);
    setOutcome(undefined);
    const result = await createRecovery(recoveryOf(draft, name, namespace));
    setSending(false);
    if (result.kind !== 'accepted') return setOutcome(result);
    close();
    created(result.recovery.metadata.name ?? '');
    return undefined;
  };
  return (
    <Modal isOpen variant="medium" onClose={close} aria-labelledby="recover-title" aria-describedby="recover-body" data-test="dialog">
      <ModalHeader title={t('Recover device class {{name}}', { name })} labelId="recover-title" description={t('This changes nothing yet: the node agent lists what is lost, and requires your approval to continue.')} />
      <ModalBody id="recover-body">
        <Stack hasGutter>
          <Form onSubmit={(e) => e.preventDefault()}>
            <FormGroup label={t('Node')} fieldId="recover-node" isRequired>
              <FormSelect id="recover-node" value={draft.node} onChange={(_, node) => change({ node, selected: [], claims: {}, typed: '' })}>
                <FormSelectOption value="" label={t('Select a node')} isPlaceholder isDisabled />
                {nodes.map((n) => (
                  <FormSelectOption key={n} value={n} label={suggestions.some((s) => s.node === n) ? t('{{node}} (recovery suggested)', { node: n }) : n} />
                ))}
              </FormSelect>
            </FormGroup>
            <FormGroup role="radiogroup" label={t('Action')} isRequired isStack>
              {actionNames.map((a) => (
                <Radio
                  key={a} id={`action-${a}`} name="action" description={m(actions[a])} isChecked={draft.action === a} onChange={() => change({ action: a, selected: [], claims: {}, typed: '' })}
                  label={<>{a} {suggested(a) && <Label isCompact color="orange">{t('Suggested')}</Label>}</>}
                />
              ))}
            </FormGroup>
            {draft.node && volumeUse(draft.action) !== 'none' && <Volumes key={`${draft.node} ${draft.action}`} cluster={cluster} name={name} statuses={statuses} draft={draft} change={change} />}
          </Form>
          {before.length > 0 && (
            <Alert isInline isPlain variant="info" data-test="unfinished" title={t('{{count}} recoveries of this device class on node {{node}} have not ended: {{names}}. The node agent carries out one at a time, the oldest first.', { count: before.length, node: draft.node, names: before.slice(0, 3).map((r) => r.metadata.name).join(', ') })} />
          )}
          {why && <Alert isInline variant="danger" title={why} data-test="why-not" />}
          <Refusal title={t('The recovery could not be created')} outcome={outcome} />
        </Stack>
      </ModalBody>
      <ModalFooter>
        <Button variant="primary" isLoading={sending} isDisabled={sending} onClick={() => void press()} data-test="apply">{t('Create plan')}</Button>
        <Button variant="link" onClick={close}>{t('Cancel')}</Button>
      </ModalFooter>
    </Modal>
  );
}

interface VolumesProps {
  cluster: LVMCluster;
  name: string;
  statuses: NodeStatus[];
  draft: Draft;
  change: (next: Partial<Draft>) => void;
}

/** The volumes of an action: orphans, or for a check the volumes of the node. */
function Volumes(props: VolumesProps) {
  const { draft, statuses, name } = props;
  if (draft.action === 'CheckFileSystems') return <Checkable {...props} />;
  const group = statuses.find((s) => s.metadata.name === draft.node)?.status?.nodeStatus?.find((g) => g.name === name);
  return <Picker {...props} candidates={orphansOf(group, draft.action)} known={group !== undefined} />;
}

function Checkable(props: VolumesProps) {
  const { t, m } = useT();
  const { cluster, name, draft } = props;
  const logicalVolumes = useLogicalVolumes();
  const persistentVolumes = usePersistentVolumes();
  const reads: [string, Watched<unknown>][] = [[t('LogicalVolumes'), logicalVolumes], [t('PersistentVolumes'), persistentVolumes]];
  const candidates = useMemo(
    () => checkable(volumesOf(logicalVolumes.data.filter((lv) => classOf(lv, cluster) === name), persistentVolumes.error ? undefined : persistentVolumes.data), draft.node, m),
    [logicalVolumes.data, persistentVolumes.data, persistentVolumes.error, cluster, name, draft.node, m],
  );
  return (
    <>
      <ReadErrors reads={reads} />
      <Picker {...props} candidates={candidates} known={logicalVolumes.loaded && !logicalVolumes.error} />
    </>
  );
}

/** known: the list could be read, so that an empty one is empty. */
function Picker({ draft, change, candidates, known }: VolumesProps & { candidates: Candidate[]; known: boolean }) {
  const { t, locale } = useT();
  const imports = draft.action === 'ImportVolumes';
  const checks = draft.action === 'CheckFileSystems';
  const toggle = (name: string, on: boolean) => change({ selected: on ? [...draft.selected, name] : draft.selected.filter((v) => v !== name) });
  return (
    <>
      <FormGroup role="group" label={checks ? t('Volumes') : t('Orphans')} isRequired={!imports}>
        <VirtualTable
          label={checks ? t('Volumes') : t('Orphans')}
          rows={candidates}
          maxHeight={260}
          rowHeight={48}
          rowKey={(v) => v.name}
          empty={!known ? t('Unknown') : checks ? t('This device class has no volumes on the node.') : t('The status of the node lists no orphans of this device class.')}
          columns={[
            { key: 'on', title: t('Select'), width: 4.5 }, { key: 'name', title: t('Name'), lines: 2 }, { key: 'size', title: t('Size'), width: 5.5 }, { key: 'claim', title: imports ? t('Claim (namespace/name)') : t('Claim'), width: imports ? 15 : 11, lines: imports ? undefined : 2 },
            ...(checks ? [{ key: 'problem', title: t('Problem'), width: 11, lines: 2 }] : []),
          ]}
          cells={(v) => [
            <Checkbox key="c" id={`volume-${v.name}`} aria-label={t('Select volume {{name}}', { name: v.name })} isChecked={draft.selected.includes(v.name)} onChange={(_, on) => toggle(v.name, on)} />,
            v.name, formatBytes(v.size, locale),
            imports && draft.selected.includes(v.name) ? (
              <TextInput
                key="i" aria-label={t('Claim for volume {{name}}', { name: v.name })} value={draft.claims[v.name] ?? ''} placeholder={v.claim ?? t('namespace/name')}
                onChange={(_, claim) => change({ claims: { ...draft.claims, [v.name]: claim } })}
              />
            ) : (v.claim ?? '–'),
            ...(checks ? [v.problem ?? '–'] : []),
          ]}
        />
        {imports && (
          <FormHelperText>
            <HelperText>
              <HelperTextItem>{t('If no volume is selected, all volumes whose tags name a claim are imported. A claim that you enter replaces the claim in the tags.')}</HelperTextItem>
            </HelperText>
          </FormHelperText>
        )}
      </FormGroup>
      <FormGroup label={t('Other volumes')} fieldId="recover-typed">
        <TextArea id="recover-typed" value={draft.typed} onChange={(_, typed) => change({ typed })} rows={2} resizeOrientation="vertical" spellCheck={false} aria-describedby="recover-typed-help" />
        <FormHelperText>
          <HelperText id="recover-typed-help">
            <HelperTextItem>{imports ? t('Names of logical volumes, one on each line, each with its claim if its tags name none: NAME NAMESPACE/CLAIM') : t('Names of logical volumes, one on each line.')}</HelperTextItem>
          </HelperText>
        </FormHelperText>
      </FormGroup>
    </>
  );
}

