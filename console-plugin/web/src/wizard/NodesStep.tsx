import { Alert, Button, Checkbox, Content, Form, Stack } from '@patternfly/react-core';
import { useMemo, useState } from 'react';
import type { NodeSelector, Toleration } from '../api/types';
import { VirtualTable } from '../components/VirtualTable';
import { useT } from '../i18n';
import { withField } from '../model/cluster';
import { observed, verdictOf } from '../model/devices';
import { HOSTNAME, intolerable, isReady, rolesOf, selectorOf, selects } from '../model/nodes';
import type { Seen } from '../model/selection';
import { useDraft } from './draft';
import { Choice, TextField } from './fields';

type Way = 'all' | 'some' | 'labels' | 'other';

/** How a selector can be shown. */
export function wayOf(s: NodeSelector | undefined): Way {
  if (!s) return 'all';
  const [term, ...more] = s.nodeSelectorTerms;
  const expressions = term?.matchExpressions ?? [];
  if (more.length || term?.matchFields?.length) return 'other';
  if (expressions.length === 1 && expressions[0]?.key === HOSTNAME && expressions[0].operator === 'In') return 'some';
  return expressions.every((e) => e.operator === 'Exists' || (e.operator === 'In' && e.values?.length === 1)) ? 'labels' : 'other';
}

/** "disk=fast, storage" ⇄ a selector. */
export function labelsOf(s: NodeSelector | undefined): string {
  return (s?.nodeSelectorTerms[0]?.matchExpressions ?? []).map((e) => (e.operator === 'Exists' ? e.key : `${e.key}=${e.values?.[0] ?? ''}`)).join(', ');
}
export function selectorOfLabels(text: string): NodeSelector {
  const matchExpressions = text
    .split(',')
    .map((part) => part.trim())
    .filter(Boolean)
    .map((part) => {
      const [key = '', ...value] = part.split('=');
      return value.length ? { key: key.trim(), operator: 'In' as const, values: [value.join('=').trim()] } : { key, operator: 'Exists' as const };
    });
  return { nodeSelectorTerms: [{ matchExpressions }] };
}

/** The nodes of the device class. */
export function NodesStep() {
  const { t } = useT();
  const d = useDraft();
  const id = `${d.at}.nodeSelector`;
  const selector = d.c.nodeSelector;
  const [asked, setAsked] = useState<Way>();
  // What is typed as labels stays that, also where it could be shown as names.
  const way = asked === 'labels' && selector ? asked : wayOf(selector);
  const [labels, setLabels] = useState(() => (way === 'labels' ? labelsOf(selector) : ''));
  const set = (next?: NodeSelector) => d.setDevices(withField(d.c, 'nodeSelector', next));
  const matched = d.nodes.filter((n) => selects(selector, n.node));
  const kept = d.nodes.filter((n) => intolerable(n.node, d.cluster.spec?.tolerations).length > 0 && selects(selector, n.node));
  const options = [
    { value: 'all' as Way, label: t('All nodes'), description: t('Includes nodes that are added later.') },
    { value: 'some' as Way, label: t('Selected nodes') },
    { value: 'labels' as Way, label: t('Nodes with specific labels'), description: t('Includes nodes that get the labels later.') },
    ...(way === 'other' ? [{ value: 'other' as Way, label: t('Custom nodeSelector (YAML)'), description: t('It cannot be shown in this form, and is kept unchanged.') }] : []),
  ];
  const choose = (next: Way) => {
    setAsked(next);
    if (next === 'all') set(undefined);
    if (next === 'some') set(selectorOf(matched.map((n) => n.node)) ?? selectorOf([]));
    if (next === 'labels') set(selectorOfLabels(labels));
  };
  const toggle = (seen: Seen, on: boolean) => {
    const names = new Set(selector?.nodeSelectorTerms[0]?.matchExpressions?.[0]?.values ?? []);
    const host = seen.node.metadata.labels?.[HOSTNAME];
    if (!host) return;
    if (on) names.add(host);
    else names.delete(host);
    set({ nodeSelectorTerms: [{ matchExpressions: [{ key: HOSTNAME, operator: 'In', values: [...names].sort() }] }] });
  };
  return (
    <Stack hasGutter>
      <Form>
        <Choice id={id} label={t('Node selection')} value={way} options={options} onChange={choose} />
        {way === 'labels' && (
          <TextField
            id={`${id}.nodeSelectorTerms[0]`}
            label={t('Labels')}
            help={t('For example: disk=fast, storage. A node must have all labels.')}
            value={labels}
            onChange={(text) => {
              setLabels(text);
              set(selectorOfLabels(text));
            }}
          />
        )}
      </Form>
      <Content component="p" aria-live="polite" data-test="matched">
        {t('{{count}} of {{all}} nodes are selected.', { count: matched.length, all: d.nodes.length })}
      </Content>
      {kept.length > 0 && <Taints nodes={kept} />}
      <NodeTable way={way} selector={selector} toggle={toggle} />
    </Stack>
  );
}

function Taints({ nodes }: { nodes: Seen[] }) {
  const { t } = useT();
  const { cluster, setCluster } = useDraft();
  const taints = [...new Map(nodes.flatMap((n) => intolerable(n.node, cluster.spec?.tolerations)).map((x) => [`${x.key}=${x.value ?? ''}:${x.effect}`, x])).values()];
  const tolerate = () => {
    const more = taints.map(({ key, value, effect }): Toleration => ({ key, operator: value ? 'Equal' : 'Exists', ...(value ? { value } : {}), effect }));
    setCluster({ ...cluster, spec: { ...cluster.spec, tolerations: [...(cluster.spec?.tolerations ?? []), ...more] } });
  };
  return (
    <Alert
      isInline
      variant="warning"
      title={t('{{count}} selected nodes have taints that prevent volume groups', { count: nodes.length })}
      actionLinks={
        <Button variant="link" isInline onClick={tolerate}>
          {t('Tolerate these taints')}
        </Button>
      }
    >
      {taints.map((x) => `${x.key}${x.value ? `=${x.value}` : ''}:${x.effect}`).join(', ')}
    </Alert>
  );
}

function NodeTable({ way, selector, toggle }: { way: Way; selector?: NodeSelector; toggle: (seen: Seen, on: boolean) => void }) {
  const { t } = useT();
  const { nodes } = useDraft();
  const rows = useMemo(
    () =>
      nodes.map((seen) => ({
        seen, name: seen.node.metadata.name ?? '', selected: selects(selector, seen.node),
        usable: seen.devices.filter((x) => verdictOf(x, seen.groups) === 'usable').length,
      })),
    [nodes, selector],
  );
  return (
    <VirtualTable
      label={t('Nodes')}
      rows={rows}
      rowKey={(r) => r.name}
      empty={t('There are no nodes that you can see.')}
      columns={[
        { key: 'select', title: t('Selected'), width: 7 }, { key: 'name', title: t('Node'), lines: 2 }, { key: 'roles', title: t('Roles'), width: 8.5 },
        { key: 'ready', title: t('Ready'), width: 5.5 }, { key: 'devices', title: t('Available disks'), width: 11.5 },
      ]}
      cells={({ seen, name, selected, usable }) => [
        way === 'some' ? (
          <Checkbox key="c" id={`node-${name}`} aria-label={t('Select node {{name}}', { name })} isChecked={selected} isDisabled={!seen.node.metadata.labels?.[HOSTNAME]} onChange={(_, on) => toggle(seen, on)} />
        ) : selected ? t('Yes') : t('No'),
        name, rolesOf(seen.node).join(', ') || '–', isReady(seen.node) ? t('Yes') : t('No'),
        !seen.status ? t('Not listed yet') : !observed(seen.status).ok ? t('{{count}} (old data)', { count: usable }) : t('{{count}} of {{all}}', { count: usable, all: seen.devices.length }),
      ]}
    />
  );
}
