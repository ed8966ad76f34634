import { Alert, Button, Content, Flex, Stack } from '@patternfly/react-core';
import { useState } from 'react';
import type { NodeStatus } from '../api/types';
import { useT } from '../i18n';
import type { ApprovalPermissions } from '../kube/watch';
import { canBeApproved, keyOf, type Effect, type Waiting } from '../model/approval';
import { ApproveDialog } from './ApproveDialog';
import { WaitingTable } from './WaitingTable';

interface Props {
  namespace: string;
  waiting: Waiting[];
  statuses: NodeStatus[];
  /** The statuses were read. */
  known: boolean;
  permissions: ApprovalPermissions;
  effect: (w: Waiting) => Effect;
  of: 'node' | 'class';
}

/** Devices that wait for an approval, and the way to approve one, or several at once. */
export function WaitingSection({ namespace, waiting, statuses, known, permissions, effect, of }: Props) {
  const { t } = useT();
  const [selected, setSelected] = useState<ReadonlySet<string>>(new Set());
  const [opened, setOpened] = useState<Waiting[]>();
  const forbidden = permissions.loaded && !permissions.create;
  const describedBy = forbidden ? 'no-approve' : undefined;
  const possible = waiting.filter(canBeApproved);
  const chosen = possible.filter((w) => selected.has(keyOf(w)));
  const changed = waiting.filter((w) => w.reason === 'ChangedSinceReview').length;
  const select = (list: Waiting[], on: boolean) => setSelected((old) => new Set([...[...old].filter((key) => on || !list.some((w) => keyOf(w) === key)), ...(on ? list.map(keyOf) : [])]));
  const close = () => {
    setOpened(undefined);
    setSelected(new Set());
  };
  return (
    <Stack hasGutter data-test="waiting">
      {waiting.length > 0 && (
        <Alert isInline variant={changed ? 'warning' : 'info'} title={t('{{count}} devices await approval', { count: waiting.length })} data-test="await">
          {t('They are not used before somebody reviews and approves them.')}
          {changed > 0 && <div>{t('{{count}} of them have changed since they were approved: find out what changed them before you approve them again.', { count: changed })}</div>}
        </Alert>
      )}
      {waiting.length > 0 && (
        <Flex alignItems={{ default: 'alignItemsCenter' }}>
          <Button variant="link" isInline onClick={() => select(possible, true)} data-test="select-all">{t('Select all')}</Button>
          <Button variant="secondary" isAriaDisabled={forbidden || chosen.length === 0} aria-describedby={describedBy} onClick={() => setOpened(chosen)} data-test="approve-selected">
            {t('Approve selected devices ({{number}})', { number: chosen.length })}
          </Button>
          {forbidden && <Content component="small" id="no-approve">{t('You lack permission to create lvmdeviceapprovals.lvm.topolvm.io in {{namespace}}.', { namespace })}</Content>}
        </Flex>
      )}
      <WaitingTable
        rows={waiting} of={of} selected={selected} select={(w, on) => select([w], on)} empty={known ? t('No device awaits approval.') : t('Unknown')}
        action={(w) => (
          <Button
            variant="link" isInline style={{ whiteSpace: 'nowrap' }} isAriaDisabled={forbidden || !canBeApproved(w)} aria-describedby={describedBy} aria-label={t('Approve {{name}} on node {{node}}', { name: w.device.name, node: w.node })}
            onClick={() => setOpened([w])}
          >
            {t('Approve')}
          </Button>
        )}
      />
      {opened && <ApproveDialog namespace={namespace} opened={opened} statuses={statuses} effect={effect} close={close} />}
    </Stack>
  );
}
