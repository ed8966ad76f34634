import { Alert, Button, Content, Form, Label, Stack, TextInput, FormGroup, FormHelperText, HelperText, HelperTextItem } from '@patternfly/react-core';
import { useState } from 'react';
import { DeviceName } from '../components/parts';
import { VirtualTable } from '../components/VirtualTable';
import { useT } from '../i18n';
import { contentOf } from '../model/devices';
import { bytesOf, formatBytes } from '../model/quantity';
import { sameGroup, untick } from '../model/selection';
import { useDraft } from './draft';
import { useErrors } from './fields';

/** What would be destroyed, by name; and the consent to it, typed. */
export function ProtectionStep() {
  const { t, m, locale } = useT();
  const { c, carriers, confirmed, confirm, setDevices, at } = useDraft();
  const [typed, setTyped] = useState('');
  const errors = [...useErrors('protection.confirm'), ...useErrors(`${at}.deviceSelector.forceWipeDevicesAndDestroyAllData`), ...useErrors(`${at}.deviceSelector.wipeVolumeGroups`)];
  const groups = [...new Set(carriers.filter((x) => x.verdict === 'group').map((x) => x.device.volumeGroup ?? ''))];
  if (carriers.length === 0)
    return (
      <Alert isInline variant="success" title={t('No data will be destroyed')} data-test="nothing-destroyed">
        {(c.adopt ?? []).length > 0 || c.existingVolumeGroup ? t('The volume group keeps its data. No other selected disk contains known data.') : t('No selected disk contains known data. Each disk is checked again before it is used: if it contains data then, it is not used.')}
      </Alert>
    );
  return (
    <Stack hasGutter>
      <Alert isInline variant="danger" title={t('{{count}} of the selected disks contain data', { count: carriers.length })}>
        {t('The data is destroyed before the disk is used, once for each disk. The node keeps a backup of only the first and last MiB, and of the areas of other signatures.')}
      </Alert>
      {groups.length > 0 && (
        <Alert isInline variant="warning" title={t('Volume groups to destroy: {{names}}', { names: groups.join(', ') })} data-test="groups">
          {t('They are destroyed with all their logical volumes, unless one of these is in use. The node keeps a backup of their metadata. To use a volume group with its volumes instead, deselect its disks, and adopt it or use it as an existing volume group in the step Disks.')}
        </Alert>
      )}
      <VirtualTable
        label={t('Disks to wipe')}
        rows={carriers}
        rowKey={(x) => `${x.seen.node.metadata.name}/${x.path}`}
        empty=""
        columns={[
          { key: 'node', title: t('Node'), width: 8, lines: 2 }, { key: 'disk', title: t('Disk'), width: 12 }, { key: 'size', title: t('Size'), width: 5.5 },
          { key: 'content', title: t('Content'), lines: 2 }, { key: 'out', title: t('Action'), width: 7 },
        ]}
        cells={(x) => [
          x.seen.node.metadata.name, <DeviceName key="d" device={x.device} />, formatBytes(bytesOf(x.device.size), locale), 
          x.verdict === 'group' ? <span key="c" title={x.device.volumeGroupUUID}>{t('In volume group {{name}}', { name: x.device.volumeGroup ?? '' })}</span> : contentOf(x.device, m),
          <Button key="o" variant="link" isInline aria-label={t('Deselect {{name}} on node {{node}}', { name: x.device.name, node: x.seen.node.metadata.name ?? '' })} onClick={() => setDevices(sameGroup(x.seen, x.device).reduce((next, d) => untick(next, x.seen, d), c))}>
            {t('Deselect')}
          </Button>,
        ]}
      />
      <Content component="p">{t('Disks that are mounted, in use, or used by the operating system can never be selected.')}</Content>
      <Form onSubmit={(e) => e.preventDefault()}>
        <FormGroup label={t('To confirm that all data on these disks will be destroyed, type the name of the device class: {{name}}', { name: c.name })} fieldId="protection.confirm">
          <TextInput
            id="protection.confirm"
            value={typed}
            autoComplete="off"
            validated={errors.length && !confirmed ? 'error' : 'default'}
            onChange={(_, v) => {
              setTyped(v);
              if ((v === c.name) !== confirmed) confirm(v === c.name);
            }}
          />
          <FormHelperText>
            <HelperText>
              {confirmed ? (
                <HelperTextItem variant="warning">
                  <Label color="red" data-test="confirmed">{t('Confirmed: these disks will be wiped')}</Label>
                </HelperTextItem>
              ) : (
                errors.map((e) => <HelperTextItem key={e} variant="error">{e}</HelperTextItem>)
              )}
            </HelperText>
          </FormHelperText>
        </FormGroup>
      </Form>
    </Stack>
  );
}
