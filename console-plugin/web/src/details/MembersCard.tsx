import { Alert, Button, Card, CardBody, CardTitle, Stack } from '@patternfly/react-core';
import { useMemo, useState } from 'react';
import type { DeviceClass, DeviceRequest, LVMCluster, Node, NodeStatus } from '../api/types';
import { DeviceName, Noted, Second, ShareBar, StateLabel } from '../components/parts';
import { VirtualTable } from '../components/VirtualTable';
import { useT } from '../i18n';
import type { Permissions, Watched } from '../kube/watch';
import { doneRequests, membersOf, requestFor, usedOf, type Member } from '../model/members';
import { bytesOf } from '../model/quantity';
import { seenOf } from '../model/selection';
import { requestText } from '../model/suspension';
import { SuspendedDevice } from '../suspension/SuspendedLabel';
import { DoneDialog, MemberDialog } from './ActionDialog';

interface Props {
  cluster: LVMCluster;
  c?: DeviceClass;
  name: string;
  statuses: Watched<NodeStatus[]>;
  nodes: Watched<Node[]>;
  permissions: Permissions;
}

/** The devices of a device class, what is asked for them, and what can be. */
export function MembersCard({ cluster, c, name, statuses, nodes, permissions }: Props) {
  const { t } = useT();
  const [chosen, setChosen] = useState<string>();
  const [done, setDone] = useState<DeviceRequest>();
  const members = useMemo(() => membersOf(name, statuses.data), [name, statuses.data]);
  const seen = useMemo(() => {
    const byNode = new Map(statuses.data.map((s) => [s.metadata.name, s]));
    return nodes.data.map((n) => seenOf(n, byNode.get(n.metadata.name)));
  }, [nodes.data, statuses.data]);
  const left = c && statuses.loaded && !statuses.error ? doneRequests(c, statuses.data) : [];
  const member = members.find((x) => x.pv.uuid === chosen);
  const told = statuses.loaded && !statuses.error;
  const asked = (x: Member): string => {
    const request = c && requestFor(c, x);
    return request ? t('Requested: {{action}}', { action: requestText(request) }) : '';
  };
  return (
    <Card data-test="members">
      <CardTitle component="h2">{t('Devices')}</CardTitle>
      <CardBody>
        <Stack hasGutter>
          {left.map((r) => (
            <Alert
              key={`${r.node} ${r.device}`}
              isInline
              isPlain
              variant="info"
              data-test="done-request"
              title={t('{{device}} on node {{node}} is no longer in the volume group, but the request still exists: {{action}}', { device: r.device, node: r.node, action: requestText(r) })}
              actionLinks={
                <Button variant="link" isInline onClick={() => setDone(r)}>
                  {t('Remove request')}
                </Button>
              }
            />
          ))}
          <VirtualTable
            label={t('Devices')}
            rows={members}
            rowKey={(x) => x.pv.uuid}
            rowHeight={68}
            empty={told ? t('No node has a device in this device class yet.') : t('Unknown')}
            columns={[
              { key: 'node', title: t('Node'), width: 6.25, lines: 2 }, { key: 'device', title: t('Device'), width: 11.5 }, { key: 'used', title: t('Used'), width: 13.25 },
              { key: 'state', title: t('State'), width: 9 }, { key: 'message', title: t('Activity'), lines: 3 }, ...(c ? [{ key: 'do', title: t('Action'), width: 6.5 }] : []),
            ]}
            cells={(x) => [
              x.node, <MemberName key="n" member={x} />, <ShareBar key="u" label={t('Usage of {{name}} on {{node}}', { name: x.pv.name ?? x.pv.uuid, node: x.node })} part={usedOf(x)} whole={bytesOf(x.pv.size)} plain />,
              <StateLabel key="s" state={x.pv.state} percent={x.pv.state === 'Draining' ? x.pv.movedPercent : undefined} />, <Noted key="m" label={x.pv.suspended && <SuspendedDevice />} text={x.pv.message || asked(x) || '–'} />,
              ...(c
                ? [
                    <Button key="d" variant="link" isInline style={{ whiteSpace: 'nowrap' }} data-test="change-device" aria-label={t('Manage {{name}} on node {{node}}', { name: x.pv.name ?? x.pv.uuid, node: x.node })} onClick={() => setChosen(x.pv.uuid)}>
                      {t('Manage')}
                    </Button>,
                  ]
                : []),
            ]}
          />
        </Stack>
        {c && member && <MemberDialog key={member.pv.uuid} cluster={cluster} c={c} member={member} members={members} nodes={seen} permissions={permissions} close={() => setChosen(undefined)} />}
        {c && done && <DoneDialog cluster={cluster} c={c} request={done} nodes={seen} members={members} permissions={permissions} close={() => setDone(undefined)} />}
      </CardBody>
    </Card>
  );
}

/** A device that is missing is no longer in the inventory, or no longer under the name that it had. */
const MemberName = ({ member: { pv, device } }: { member: Member }) =>
  device ? (
    <DeviceName device={device} />
  ) : (
    <span title={pv.uuid}>
      {pv.name ?? pv.deviceID ?? pv.uuid}
      <Second text={pv.deviceID ?? pv.uuid} />
    </span>
  );
