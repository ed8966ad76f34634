import { Alert, Content, ExpandableSection } from '@patternfly/react-core';
import { useState } from 'react';
import type { DeviceClass } from '../api/types';
import { CodeToCopy } from '../components/CodeToCopy';
import { useT } from '../i18n';
import { encryptionOf } from '../model/encryption';
import { exampleOf } from '../model/example';

/** What to do with a device class that is ready: a claim and a Pod to copy. */
export function FirstVolume({ c, open }: { c: DeviceClass; open: boolean }) {
  const { t } = useT();
  const [shown, setShown] = useState(open);
  return (
    <ExpandableSection toggleText={t('Example: a Pod with a volume')} isExpanded={shown} onToggle={(_, is) => setShown(is)} data-test={`example-${c.name}`}>
      <Content component="p">{t('Copy the YAML, select Import YAML (the plus sign at the top of the console), and paste it into a project of yours. If the cluster cannot pull the image, set another one.')}</Content>
      {encryptionOf(c) && <Alert isInline isPlain variant="info" title={t('Encrypted volumes require a Secret with their key.')} />}
      <CodeToCopy text={exampleOf(c.name)} />
    </ExpandableSection>
  );
}
