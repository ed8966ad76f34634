import { CodeEditor } from '@openshift-console/dynamic-plugin-sdk';
import {
  Alert, Button, ClipboardCopy, ClipboardCopyVariant, Content, DescriptionList, DescriptionListDescription, DescriptionListGroup, DescriptionListTerm,
  Stack, ToggleGroup, ToggleGroupItem, useWizardContext,
} from '@patternfly/react-core';
import { useEffect, useState } from 'react';
import { DEFAULTS } from '../api/limits';
import { classesOf, storageClassName } from '../api/types';
import { useT } from '../i18n';
import { useDryRun } from '../kube/dryrun';
import { provisioningOf } from '../model/cluster';
import { encryptionOf } from '../model/encryption';
import type { Message } from '../model/message';
import { formatPercent } from '../model/quantity';
import { allPaths, modeOf } from '../model/selection';
import { fromYAML, toYAML, type Fault } from '../model/yaml';
import { CapacityPreview } from './CapacityPreview';
import { useDraft } from './draft';
import { labelsOf, wayOf } from './NodesStep';
import { Conflict } from './StartStep';
import { SharedNames } from './SharedNames';
import { stepOf, type StepId } from './steps';

/** The whole, as a summary and as YAML, and what the API server says to it. */
export function ReviewStep() {
  const { t } = useT();
  const { c, chosen, conflict } = useDraft();
  const [view, setView] = useState<'form' | 'yaml'>('form');
  return (
    <Stack hasGutter>
      <ToggleGroup aria-label={t('View')}>
        <ToggleGroupItem text={t('Summary')} buttonId="view-form" isSelected={view === 'form'} onChange={() => setView('form')} />
        <ToggleGroupItem text="YAML" buttonId="view-yaml" isSelected={view === 'yaml'} onChange={() => setView('yaml')} />
      </ToggleGroup>
      {conflict && <Conflict />}
      <DryRun />
      <SharedNames />
      {view === 'form' ? (
        <>
          <Summary />
          {modeOf(c) !== 'group' && <CapacityPreview c={c} nodes={chosen} />}
        </>
      ) : (
        <YAML />
      )}
      <Command />
    </Stack>
  );
}

/** What the API server would say. */
function DryRun() {
  const { t } = useT();
  const { outgoing, server, setServer, problems, permissions } = useDraft();
  const { asking, again } = useDryRun(outgoing, setServer);
  const retry = (
    <Button variant="link" isInline onClick={again}>
      {t('Retry')}
    </Button>
  );
  return (
    <div aria-live="polite" data-test="dry-run" data-state={asking ? 'asking' : (server?.kind ?? 'asking')}>
      {(asking || !server) && <Content component="p">{t('Dry run in progress …')}</Content>}
      {!asking && server?.kind === 'accepted' && problems.length === 0 && (
        <Alert isInline variant="success" title={t('Dry run succeeded')}>
          {t('No changes have been made yet.')}
        </Alert>
      )}
      {server?.kind === 'unknown' && (
        <Alert isInline variant="warning" title={t('Dry run not completed')} actionLinks={retry}>
          {server.message}
        </Alert>
      )}
      {server?.kind === 'refused' && (
        <Alert isInline variant="danger" title={permissions.create || permissions.update ? t('Dry run failed') : t('Permission denied')} data-test="refused" actionLinks={retry}>
          {server.causes.length ? <Causes list={server.causes.map((x) => ({ field: x.field, text: x.message }))} /> : server.message}
        </Alert>
      )}
      {problems.length > 0 && (
        <Alert isInline variant="danger" title={t('Some values are not valid')} data-test="own-problems">
          <Causes list={problems.map((p) => ({ field: p.field, message: p.message }))} />
        </Alert>
      )}
      {server && server.kind !== 'unknown' && server.warnings.length > 0 && (
        <Alert isInline variant="warning" title={t('Warnings')} data-test="warnings">
          {server.warnings.map((w) => (
            <div key={w}>{w}</div>
          ))}
        </Alert>
      )}
    </div>
  );
}

/** Each with a way to its field. */
function Causes({ list }: { list: { field: string; text?: string; message?: Message }[] }) {
  const { t, m } = useT();
  const { goToStepById } = useWizardContext();
  const { show } = useDraft();
  const go = (field: string) => {
    const step: StepId = stepOf(field);
    show(step);
    goToStepById(step);
  };
  return (
    <>
      {list.map((x) => (
        <div key={`${x.field} ${x.text ?? x.message?.key}`} data-test="cause" data-field={x.field}>
          {x.message ? m(x.message) : x.text}{' '}
          {stepOf(x.field) !== 'review' && (
            <Button variant="link" isInline onClick={() => go(x.field)}>
              {t('Go to {{field}}', { field: x.field.replace('spec.storage.', '') || t('the first step') })}
            </Button>
          )}
        </div>
      ))}
    </>
  );
}

function Summary() {
  const { t, locale } = useT();
  const { c, cluster, chosen, carriers, confirmed } = useDraft();
  const { goToStepById } = useWizardContext();
  const pool = c.thinPoolConfig;
  const encryption = encryptionOf(c);
  const way = wayOf(c.nodeSelector);
  const nodes = chosen.map((s) => s.node.metadata.name);
  const rows: [string, string, StepId][] = [
    [t('LVMCluster'), `${cluster.metadata.namespace}/${cluster.metadata.name}`, 'start'],
    [t('Nodes'), way === 'all' ? t('All: currently {{count}}', { count: nodes.length }) : way === 'labels' ? labelsOf(c.nodeSelector) : nodes.slice(0, 8).join(', ') + (nodes.length > 8 ? ' …' : ''), 'nodes'],
    [t('Disks'), modeOf(c) === 'group' ? t('In volume group {{name}}', { name: c.existingVolumeGroup ?? '' }) : modeOf(c) === 'all' ? t('All unused disks') : modeOf(c) === 'rules' ? t('By properties') : allPaths(c).slice(0, 6).join(', ') + (allPaths(c).length > 6 ? t(' and {{count}} more', { count: allPaths(c).length - 6 }) : ''), 'devices'],
    ...((c.adopt ?? []).length > 0 ? [[t('Adopted volume groups'), (c.adopt ?? []).map((a) => `${a.node}: ${a.volumeGroupUUID}`).join(', '), 'devices'] as [string, string, StepId]] : []),
    ...(c.approval === 'Required' ? [[t('Approval of devices'), t('Required for each new device'), 'devices'] as [string, string, StepId]] : []),
    [t('Device class'), `${c.name}${c.default ? ` (${t('default')})` : ''}, ${t('StorageClass {{name}}', { name: storageClassName(c.name) })}`, 'class'],
    [t('Volume type'), pool && modeOf(c) === 'group' ? t('Thin: in the thin pool {{name}}, overprovision ratio {{ratio}}', { name: pool.name, ratio: pool.overprovisionRatio }) : pool ? t('Thin: {{percent}} of the volume group, overprovision ratio {{ratio}}', { percent: formatPercent(pool.sizePercent ?? DEFAULTS['thinPoolConfig.sizePercent'], locale), ratio: pool.overprovisionRatio }) : provisioningOf(c), 'class'],
    ...(encryption ? [[t('Encryption'), t('LUKS2, with the key in Secret {{name}}', { name: `${encryption.namespace}/${encryption.name}` }), 'class'] as [string, string, StepId]] : []),
    [t('Data to be destroyed'), carriers.length ? (confirmed ? t('Data on {{count}} disks', { count: carriers.length }) : t('Not confirmed')) : t('None'), 'protection'],
  ];
  const others = classesOf(cluster).filter((o) => o !== c).map((o) => o.name);
  return (
    <>
      <DescriptionList isHorizontal isCompact data-test="summary">
        {rows.map(([term, text, step]) => (
          <DescriptionListGroup key={term}>
            <DescriptionListTerm>{term}</DescriptionListTerm>
            <DescriptionListDescription>
              {text}{' '}
              <Button variant="link" isInline aria-label={t('Edit: {{what}}', { what: term })} onClick={() => goToStepById(step)}>
                {t('Edit')}
              </Button>
            </DescriptionListDescription>
          </DescriptionListGroup>
        ))}
      </DescriptionList>
      {others.length > 0 && <Content component="small">{t('Other device classes: {{names}}.', { names: others.join(', ') })}</Content>}
    </>
  );
}

/** The text follows the form until somebody types; what is typed goes into the form as soon as it can be read. */
function YAML() {
  const { t, m } = useT();
  const { cluster, setCluster, show, setFault: tell } = useDraft();
  const [text, setText] = useState(() => toYAML(cluster));
  const [fault, setFault] = useState<Fault>();
  useEffect(() => show('review'), [show]);
  // Who leaves the text leaves what could not be read of it.
  useEffect(() => () => tell(undefined), [tell]);
  const onChange = (value: string) => {
    if (value === text) return;
    setText(value);
    const parsed = fromYAML(value, cluster);
    setFault('fault' in parsed ? parsed.fault : undefined);
    tell('fault' in parsed ? parsed.fault.message : undefined);
    if ('cluster' in parsed) setCluster(parsed.cluster);
  };
  return (
    <>
      <Content component="small">{t('The form reflects your changes here. Unknown fields are kept, but comments are lost when you leave this view.')}</Content>
      <CodeEditor value={text} language={'yaml' as never} onChange={onChange} height="20rem" />
      {fault && (
        <Alert isInline variant="danger" data-test="yaml-fault" title={fault.line ? t('Line {{line}}: {{text}}', { line: fault.line, text: m(fault.message) }) : m(fault.message)}>
          {t('The form shows the last valid version.')}
        </Alert>
      )}
    </>
  );
}

function Command() {
  const { t } = useT();
  const { cluster } = useDraft();
  return (
    <div>
      <Content component="small">{t('Equivalent command:')}</Content>
      <ClipboardCopy isCode isReadOnly variant={ClipboardCopyVariant.expansion} hoverTip={t('Copy')} clickTip={t('Copied')} textAriaLabel={t('Command')} toggleAriaLabel={t('Show command')}>
        {`oc apply -f - <<'EOF'\n${toYAML(cluster)}EOF`}
      </ClipboardCopy>
    </div>
  );
}
