import { Alert, Button, Content, Form, List, ListItem, Stack } from '@patternfly/react-core';
import { CheckCircleIcon, ExclamationTriangleIcon, InfoCircleIcon, TimesCircleIcon } from '@patternfly/react-icons';
import { classesOf } from '../api/types';
import { useT } from '../i18n';
import { newClass, withClasses } from '../model/cluster';
import { observed } from '../model/devices';
import { Discover } from '../overview/EmptyOverview';
import { useDraft } from './draft';
import { Choice, TextField } from './fields';

type Mark = 'ok' | 'warning' | 'wrong' | 'info';
const icons = {
  ok: <CheckCircleIcon color="var(--pf-t--global--icon--color--status--success--default)" />,
  warning: <ExclamationTriangleIcon color="var(--pf-t--global--icon--color--status--warning--default)" />,
  wrong: <TimesCircleIcon color="var(--pf-t--global--icon--color--status--danger--default)" />,
  info: <InfoCircleIcon color="var(--pf-t--global--icon--color--status--info--default)" />,
};

/** What has to be so before anything can be done, and which device class it is about. */
export function StartStep() {
  const { t } = useT();
  const d = useDraft();
  const listed = d.nodes.filter((n) => observed(n.status).ok).length;
  const checks: [Mark, string][] = [
    d.permissions.create || d.permissions.update
      ? ['ok', t('You have permission to change LVMClusters in {{namespace}}.', { namespace: d.namespace })]
      : ['wrong', t('Read-only: you lack permission to create lvmclusters.lvm.topolvm.io in {{namespace}}.', { namespace: d.namespace })],
    d.permissions.listNodes ? ['ok', t('You have permission to list nodes ({{count}}).', { count: d.nodes.length })] : ['wrong', t('You lack permission to list nodes, so none are shown.')],
    d.live ? ['ok', t('LVMCluster {{name}} exists: the device class is added to it.', { name: d.live.metadata.name ?? '' })] : ['info', t('No LVMCluster exists yet. It is created in the last step.')],
    d.inventoryError
      ? ['wrong', t('The devices of the nodes could not be read: {{error}}', { error: d.inventoryError })]
      : listed === d.nodes.length && listed > 0
        ? ['ok', t('All nodes have listed their devices.')]
        : ['warning', t('{{listed}} of {{count}} nodes have listed their devices. Disks of the other nodes can only be selected by properties.', { listed, count: d.nodes.length })],
  ];
  return (
    <Stack hasGutter>
      <List isPlain data-test="preflight">
        {checks.map(([mark, text]) => (
          <ListItem key={text} icon={icons[mark]}>
            {text}
          </ListItem>
        ))}
      </List>
      {!d.live && d.permissions.create && (
        <div>
          <Content component="p">{t('To see the disks, list the devices now: this creates an LVMCluster without device classes, and changes nothing on the nodes.')}</Content>
          <Discover namespace={d.namespace} variant="secondary" />
        </div>
      )}
      {d.conflict && <Conflict />}
      <Form>
        {!d.live && (
          <TextField
            id="metadata.name"
            label={t('LVMCluster name')}
            help={t('A cluster can have only one LVMCluster.')}
            isRequired
            value={d.cluster.metadata.name ?? ''}
            onChange={(name) => d.setCluster({ ...d.cluster, metadata: { ...d.cluster.metadata, name } })}
          />
        )}
        {d.before && <WhichClass />}
      </Form>
    </Stack>
  );
}

export function Conflict() {
  const { t } = useT();
  return (
    <Alert isInline variant="warning" title={t('The LVMCluster has been updated')} data-test="conflict">
      {t('Your changes are based on an earlier version and cannot be saved. Copy what you need from the YAML, then reload.')}
      <div>
        <Button variant="link" isInline onClick={() => window.location.reload()}>
          {t('Reload')}
        </Button>
      </div>
    </Alert>
  );
}

function WhichClass() {
  const { t } = useT();
  const { cluster, setCluster, index, setIndex, before } = useDraft();
  const classes = classesOf(cluster);
  const isNew = (name: string) => !classesOf(before).some((c) => c.name === name);
  return (
    <>
      <Choice
        id="spec.storage.deviceClasses"
        label={t('Device class')}
        value={String(index)}
        options={classes.map((c, i) => ({ value: String(i), label: c.name, description: isNew(c.name) ? t('New') : undefined }))}
        help={t('A device class that you remove is deleted from the nodes when it is no longer in use.')}
        onChange={(i) => setIndex(Number(i))}
      />
      <div>
        <Button
          variant="link"
          isInline
          data-test="add-class"
          onClick={() => {
            setCluster(withClasses(cluster, [...classes, newClass(classes)]));
            setIndex(classes.length);
          }}
        >
          {t('Add device class')}
        </Button>{' '}
        {classes.length > 1 && (
          <Button
            variant="link"
            isInline
            isDanger
            data-test="remove-class"
            onClick={() => {
              setCluster(withClasses(cluster, classes.filter((_, i) => i !== index)));
              setIndex(0);
            }}
          >
            {t('Remove {{name}}', { name: classes[index]?.name ?? '' })}
          </Button>
        )}
      </div>
    </>
  );
}
