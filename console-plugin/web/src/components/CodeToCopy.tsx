import { Button, CodeBlock, CodeBlockAction, CodeBlockCode } from '@patternfly/react-core';
import { CheckIcon, CopyIcon } from '@patternfly/react-icons';
import { useState } from 'react';
import { useT } from '../i18n';

/** Lines to copy. */
export function CodeToCopy({ text }: { text: string }) {
  const { t } = useT();
  const [copied, setCopied] = useState(false);
  const copy = () => void navigator.clipboard.writeText(text).then(() => setCopied(true));
  return (
    <CodeBlock
      actions={
        <CodeBlockAction>
          <Button variant="plain" icon={copied ? <CheckIcon /> : <CopyIcon />} aria-label={copied ? t('Copied') : t('Copy')} onClick={copy} />
        </CodeBlockAction>
      }
    >
      <CodeBlockCode>{text}</CodeBlockCode>
    </CodeBlock>
  );
}
