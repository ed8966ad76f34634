import { Label, Tooltip } from '@patternfly/react-core';
import { useT } from '../i18n';
import { detailsOf, type Suspension } from '../model/suspension';

/** Says that new Pods do not get something; lines say more, when somebody points at it or gives it the focus. */
function SuspendedLabel({ lines }: { lines: string[] }) {
  const { t } = useT();
  return (
    <Tooltip content={lines.map((line) => <div key={line}>{line}</div>)}>
      <Label isCompact color="orange" tabIndex={0} data-test="suspended">
        {t('Suspended')}
      </Label>
    </Tooltip>
  );
}

/** The label of a suspended volume, with who suspended it, when and why. */
export function SuspendedVolume({ suspension }: { suspension: Suspension }) {
  const { t } = useT();
  const details = useSuspensionDetails();
  return <SuspendedLabel lines={[t('New Pods do not get this volume.'), ...details(suspension)]} />;
}

/** The label of a suspended device. A request has no field for who, when and why. */
export function SuspendedDevice() {
  const { t } = useT();
  return <SuspendedLabel lines={[t('New Pods do not get the volumes that have data on this device.'), t('The cluster does not record who suspended it, when and why.')]} />;
}

/** Returns a function that writes who suspended a volume, when and why. */
export function useSuspensionDetails(): (suspension: Suspension) => string[] {
  const { m, locale } = useT();
  return (suspension) => detailsOf(suspension, (time) => time.toLocaleString(locale)).map(m);
}
