// The reason of a suspension, which is recorded with the user name.
import { Alert, FormGroup, FormHelperText, HelperText, HelperTextItem, TextInput } from '@patternfly/react-core';
import { useMemo, useState } from 'react';
import { useT } from '../i18n';
import { useUser } from '../kube/user';
import { MAX_REASON, suspendedBy } from '../model/suspension';

export const isTooLong = (reason: string): boolean => [...reason].length > MAX_REASON;

/** Who suspends, when and why. text is undefined while the user name is not known, or if the reason is too long. */
export function useRecord(enabled: boolean) {
  const [reason, setReason] = useState('');
  const user = useUser(enabled);
  const text = useMemo(() => (user.name && !isTooLong(reason) ? suspendedBy(user.name, new Date(), reason) : undefined), [user.name, reason]);
  return { reason, setReason, user, text };
}

export function Reason({ text, set, help }: { text: string; set: (text: string) => void; help: string }) {
  const { t } = useT();
  const tooLong = isTooLong(text);
  return (
    <FormGroup label={t('Reason')} fieldId="suspend-reason">
      <TextInput id="suspend-reason" value={text} onChange={(_, v) => set(v)} validated={tooLong ? 'error' : 'default'} aria-describedby="suspend-reason-help" />
      <FormHelperText>
        <HelperText id="suspend-reason-help">
          <HelperTextItem variant={tooLong ? 'error' : 'default'}>
            {tooLong ? t('The reason must have at most {{max}} characters.', { max: MAX_REASON }) : help}
          </HelperTextItem>
        </HelperText>
      </FormHelperText>
    </FormGroup>
  );
}

/** Says that nothing can be suspended without a user name. */
export function UserError({ error }: { error?: string }) {
  const { t } = useT();
  return error ? <Alert isInline variant="danger" title={t('Your user name, which is recorded, could not be read')} data-test="no-user">{error}</Alert> : null;
}
