import { Button, Card, CardBody, CardTitle, Content, Stack, Title } from '@patternfly/react-core';
import { useMemo, useState } from 'react';
import type { DeviceApproval, DeviceClass, Node, NodeStatus } from '../api/types';
import { VirtualTable } from '../components/VirtualTable';
import { useT } from '../i18n';
import { useApprovalPermissions, type ApprovalPermissions, type Watched } from '../kube/watch';
import { effectOf, sortedApprovals, stateOf, type ApprovalState, type Waiting } from '../model/approval';
import { RevokeDialog } from './RevokeDialog';
import { WaitingSection } from './WaitingSection';

interface Props {
  namespace: string;
  /** The device class, unless it was removed. */
  c?: DeviceClass;
  statuses: Watched<NodeStatus[]>;
  nodes: Watched<Node[]>;
  waiting: Waiting[];
  /** The approvals for the device class. */
  approvals: Watched<DeviceApproval[]>;
}

/** The devices of a device class that wait for an approval, and its approvals. */
export function ApprovalsCard({ namespace, c, statuses, nodes, waiting, approvals }: Props) {
  const { t } = useT();
  const permissions = useApprovalPermissions(namespace);
  const effect = (w: Waiting) => effectOf(w, c, nodes.data.find((n) => n.metadata.name === w.node));
  return (
    <Card data-test="approvals">
      <CardTitle component="h2">{t('Device approvals')}</CardTitle>
      <CardBody>
        <Stack hasGutter>
          {c && c.approval !== 'Required' && <Content component="p" data-test="not-required">{t('The device class requires no approvals: it uses each device that its selector allows.')}</Content>}
          {(c?.approval === 'Required' || waiting.length > 0) && (
            <WaitingSection namespace={namespace} waiting={waiting} statuses={statuses.data} known={statuses.loaded && !statuses.error} permissions={permissions} effect={effect} of="class" />
          )}
          <Title headingLevel="h3" size="md">{t('Approvals')}</Title>
          <ApprovalsTable namespace={namespace} approvals={approvals} statuses={statuses.data} permissions={permissions} required={c?.approval === 'Required'} />
        </Stack>
      </CardBody>
    </Card>
  );
}

interface TableProps {
  namespace: string;
  approvals: Watched<DeviceApproval[]>;
  statuses: NodeStatus[];
  permissions: ApprovalPermissions;
  required: boolean;
}

function ApprovalsTable({ namespace, approvals, statuses, permissions, required }: TableProps) {
  const { t, locale } = useT();
  const [chosen, setChosen] = useState<string>();
  const rows = useMemo(() => sortedApprovals(approvals.data), [approvals.data]);
  const revoked = rows.find((a) => a.metadata.uid === chosen);
  const forbidden = permissions.loaded && !permissions.remove;
  const states: Record<ApprovalState, string> = {
    used: t('In the volume group'), valid: t('Approved, not used yet'), changed: t('Changed since its approval'), absent: t('Not listed by its node'), unknown: t('Unknown'),
  };
  return (
    <>
      {forbidden && <Content component="small" id="no-revoke">{t('You lack permission to delete lvmdeviceapprovals.lvm.topolvm.io in {{namespace}}.', { namespace })}</Content>}
      <VirtualTable
        label={t('Approvals')}
        rows={rows}
        rowKey={(a) => a.metadata.uid ?? a.metadata.name ?? ''}
        rowHeight={56}
        maxHeight={300}
        empty={approvals.loaded && !approvals.error ? t('No device of this device class has been approved.') : t('Unknown')}
        columns={[
          { key: 'device', title: t('Device'), lines: 2 }, { key: 'node', title: t('Node'), width: 7.5, lines: 2 }, { key: 'by', title: t('Approved by'), width: 10, lines: 2 },
          { key: 'time', title: t('Time'), width: 8, lines: 2 }, { key: 'state', title: t('State'), width: 8.5, lines: 2 }, { key: 'do', title: t('Action'), width: 7.5 },
        ]}
        cells={(a) => [
          a.spec.device, a.spec.nodeName, a.spec.approvedBy, a.metadata.creationTimestamp ? new Date(a.metadata.creationTimestamp).toLocaleString(locale) : '–', states[stateOf(a, statuses)],
          <Button
            key="r" variant="link" isInline isDanger style={{ whiteSpace: 'nowrap' }} isAriaDisabled={forbidden} aria-describedby={forbidden ? 'no-revoke' : undefined} onClick={() => setChosen(a.metadata.uid)}
            aria-label={t('Revoke the approval of {{device}} on node {{node}}', { device: a.spec.device, node: a.spec.nodeName })}
          >
            {t('Revoke')}
          </Button>,
        ]}
      />
      {revoked && <RevokeDialog approval={revoked} state={stateOf(revoked, statuses)} required={required} close={() => setChosen(undefined)} />}
    </>
  );
}
