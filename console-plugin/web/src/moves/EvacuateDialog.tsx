// Moves all volumes of a node, after what that does was shown: `kubectl lvms evacuate`.
import { Alert, Button, Content, Form, FormGroup, List, ListItem, Modal, ModalBody, ModalFooter, ModalHeader, Stack, TextInput } from '@patternfly/react-core';
import { useEffect, useMemo, useRef, useState } from 'react';
import type { VolumeMove } from '../api/types';
import { CodeToCopy } from '../components/CodeToCopy';
import { Loading, ReadErrors } from '../components/parts';
import { VirtualTable } from '../components/VirtualTable';
import { useT } from '../i18n';
import { createMove } from '../kube/moves';
import { useClusters, useLogicalVolumes, useNodeStatuses, type Watched } from '../kube/watch';
import { aboutMove, DEFAULT_RATE, evacuationOf, hasForecast, sentencesOf, type Evacuated, type Evacuation } from '../model/evacuation';
import { formatDuration, newMove, openMove } from '../model/moves';
import { bytesOf, formatBytes } from '../model/quantity';
import { ClaimLink } from '../recovery/parts';

interface Props {
  namespace: string;
  node: string;
  /** All moves. */
  moves: Watched<VolumeMove[]>;
  close: () => void;
}

interface Result {
  created: number;
  failures: { claim: string; message: string }[];
}

export function EvacuateDialog({ namespace, node, moves, close }: Props) {
  const { t, locale } = useT();
  const clusters = useClusters(namespace);
  const statuses = useNodeStatuses(namespace);
  const volumes = useLogicalVolumes();
  const reads: [string, Watched<unknown>][] = [[t('LVMClusters'), clusters], [t('Node statuses'), statuses], [t('LogicalVolumes'), volumes], [t('Moves of volumes'), moves]];
  // A plan of what could be read in part would be wrong.
  const known = reads.every(([, r]) => r.loaded && !r.error);
  const cluster = clusters.data[0];
  const plan = useMemo(
    () => (known && cluster ? evacuationOf(node, cluster, volumes.data, statuses.data, moves.data, (n) => formatBytes(n, locale)) : undefined),
    [known, cluster, node, volumes.data, statuses.data, moves.data, locale],
  );
  const { create, sending, result } = useCreation(namespace, moves.data);
  return (
    <Modal isOpen variant="large" onClose={close} aria-labelledby="evacuate-title" aria-describedby="evacuate-body" data-test="dialog">
      <ModalHeader title={t('Evacuate node {{node}}', { node })} labelId="evacuate-title" description={t('Each volume is copied to another node, and switched when no Pod that is bound to a node uses its claim. Thin volumes are copied while Pods use them, thick ones only while no Pod does. The operator selects the nodes.')} />
      <ModalBody id="evacuate-body">
        <Stack hasGutter>
          <ReadErrors reads={reads} />
          {!known && !reads.some(([, r]) => r.error) && <Loading />}
          {known && !cluster && <Alert isInline variant="warning" title={t('There is no LVMCluster.')} />}
          {plan && !result && <Plan plan={plan} />}
          {result && <Created result={result} />}
          {plan && <NextStep node={node} />}
        </Stack>
      </ModalBody>
      <ModalFooter>
        {plan && !result && (
          <Button variant="primary" isLoading={sending} isDisabled={sending || plan.moves.length === 0} onClick={() => void create(plan.moves.map((v) => v.claim))} data-test="apply">{t('Move {{count}} volumes', { count: plan.moves.length })}</Button>
        )}
        <Button variant="link" onClick={close}>{result ? t('Close') : t('Cancel')}</Button>
      </ModalFooter>
    </Modal>
  );
}

/** Creates the moves one after the other. It ends with the dialog, and if the cluster does not respond. */
function useCreation(namespace: string, moves: VolumeMove[]) {
  const { t } = useT();
  const [sending, setSending] = useState(false);
  const [result, setResult] = useState<Result>();
  const ended = useRef(false);
  const latest = useRef(moves);
  useEffect(() => {
    latest.current = moves;
  }, [moves]);
  useEffect(() => {
    ended.current = false;
    return () => {
      ended.current = true;
    };
  }, []);
  const create = async (claims: string[]) => {
    setSending(true);
    const next: Result = { created: 0, failures: [] };
    for (const claim of claims) {
      if (ended.current) return;
      // Somebody else can have created it meanwhile.
      if (openMove(latest.current, claim)) continue;
      const outcome = await createMove(newMove(namespace, claim));
      if (outcome.kind === 'accepted') next.created++;
      else next.failures.push({ claim, message: outcome.kind === 'unknown' ? t('The cluster did not respond, so it is unknown whether the change was saved: {{error}}', { error: outcome.message }) : outcome.message });
      if (outcome.kind === 'unknown') break;
    }
    if (ended.current) return;
    setSending(false);
    setResult(next);
  };
  return { create, sending, result };
}

function Plan({ plan }: { plan: Evacuation }) {
  const { t, m, locale } = useT();
  const [rate, setRate] = useState(DEFAULT_RATE);
  const perSecond = bytesOf(rate);
  const valid = perSecond !== undefined && perSecond > 0;
  const forecast = valid ? perSecond : (bytesOf(DEFAULT_RATE) ?? 1);
  const writing = { size: (n: number) => formatBytes(n, locale), duration: (s: number) => formatDuration(s, locale) };
  const sentences = sentencesOf(plan, forecast, writing);
  const about = (v: Evacuated) => {
    const text = aboutMove(v, forecast, writing);
    return text ? m(text) : '–';
  };
  const rows = [
    ...plan.moves.map((v) => ({ key: `m ${v.claim}`, claim: v.claim, plain: false, does: v.left === undefined ? t('Moves') : t('Pending'), why: about(v) })),
    ...plan.running.map((claim) => ({ key: `r ${claim}`, claim, plain: false, does: t('Moves already'), why: '–' })),
    ...plan.stay.map(({ claim, snapshot, name, why }) => ({ key: `s ${name}`, claim: claim ?? name, plain: snapshot, does: t('Stays'), why: m(why) })),
  ];
  return (
    <>
      <div data-test="plan">{sentences.map((s) => <Content key={m(s)} component="p">{m(s)}</Content>)}</div>
      {hasForecast(plan) && (
        <Form onSubmit={(e) => e.preventDefault()}>
          <FormGroup label={t('Rate for the forecast (bytes for each second)')} fieldId="evacuate-rate">
            <TextInput id="evacuate-rate" value={rate} onChange={(_, v) => setRate(v)} validated={valid ? 'default' : 'error'} />
            {!valid && <Content component="small" data-test="bad-rate">{t('Enter a number above 0, for example 100Mi.')}</Content>}
          </FormGroup>
        </Form>
      )}
      {plan.stay.length > 0 && <Alert isInline variant="warning" data-test="stays" title={t('{{count}} volumes of node {{node}} cannot be moved.', { count: plan.stay.length, node: plan.node })} />}
      <VirtualTable
        label={t('Volumes of node {{node}}', { node: plan.node })} rows={rows} maxHeight={300} rowHeight={52} rowKey={(r) => r.key} empty={t('The node has no volumes.')}
        columns={[{ key: 'claim', title: t('Volume'), width: 14, lines: 2 }, { key: 'does', title: t('Result'), width: 8, lines: 2 }, { key: 'why', title: t('Reason'), lines: 3 }]}
        cells={(r) => [<ClaimLink key="c" claim={r.claim} plain={r.plain} />, r.does, r.why]}
      />
    </>
  );
}

/** Failures that are shown. */
const MOST = 5;

function Created({ result: { created, failures } }: { result: Result }) {
  const { t } = useT();
  return (
    <>
      {(created > 0 || failures.length === 0) && <Alert isInline variant="success" data-test="created" title={t('{{count}} VolumeMoves were created.', { count: created })}>{t('For their progress, see the moves of volumes.')}</Alert>}
      {failures.length > 0 && (
        <Alert isInline variant="danger" data-test="why-not" title={t('{{count}} VolumeMoves could not be created', { count: failures.length })}>
          <List>{failures.slice(0, MOST).map(({ claim, message }) => <ListItem key={claim}>{t('{{label}}: {{value}}', { label: claim, value: message })}</ListItem>)}</List>
          {failures.length > MOST && t('{{count}} more', { count: failures.length - MOST })}
        </Alert>
      )}
    </>
  );
}

function NextStep({ node }: { node: string }) {
  const { t } = useT();
  return (
    <div data-test="next-step">
      <Content component="p">{t('When the copies wait for Pods, end them with:')}</Content>
      <CodeToCopy text={`kubectl drain ${node} --ignore-daemonsets --delete-emptydir-data`} />
    </div>
  );
}
