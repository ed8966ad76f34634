import { Alert, Button, Flex, PageSection, Wizard, WizardFooterWrapper, WizardStep, type WizardStepType } from '@patternfly/react-core';
import { useEffect, useRef, useState, type ReactNode } from 'react';
import { useNavigate } from '../router';
import { classesOf, type LVMCluster } from '../api/types';
import { useT } from '../i18n';
import { sendNewest } from '../kube/submit';
import type { Problem } from '../model/validate';
import { overviewPath } from '../paths';
import { ClassStep } from './ClassStep';
import { DevicesStep } from './DevicesStep';
import { useDraft } from './draft';
import { NodesStep } from './NodesStep';
import { ProtectionStep } from './ProtectionStep';
import { ReviewStep } from './ReviewStep';
import { StartStep } from './StartStep';
import { controlOf, problemsOf, stepOf, type StepId } from './steps';

/** Nothing is written before the last button is pressed. */
export function ClusterWizard({ onDone, startAt }: { onDone: (cluster: LVMCluster) => void; startAt?: string }) {
  const { t } = useT();
  const { before } = useDraft();
  const navigate = useNavigate();
  const close = () => void navigate(overviewPath);
  const steps: [StepId, string, ReactNode][] = [
    ['start', t('Prerequisites'), <StartStep key="s" />],
    ['nodes', t('Nodes'), <NodesStep key="n" />],
    ['devices', t('Disks'), <DevicesStep key="d" />],
    ['class', t('Device class and pool'), <ClassStep key="c" />],
    ['protection', t('Data to be destroyed'), <ProtectionStep key="p" />],
    ['review', before ? t('Review and save') : t('Review and create'), <ReviewStep key="r" />],
  ];
  return (
    <Wizard
      isVisitRequired={!before}
      startIndex={before ? Math.max(1, steps.findIndex(([id]) => id === startAt) + 1) : 1}
      onClose={close}
      navAriaLabel={t('Steps')}
      footer={(active: WizardStepType, next, back) => <Footer active={active} next={() => void next(undefined as never)} back={() => void back(undefined as never)} close={close} onDone={onDone} />}
    >
      {steps.map(([id, name, content]) => (
        <WizardStep key={id} id={id} name={name}>
          <PageSection padding={{ default: 'noPadding' }} data-test={`step-${id}`}>
            {content}
          </PageSection>
        </WizardStep>
      ))}
    </Wizard>
  );
}

interface FooterProps {
  active: WizardStepType;
  next: () => void;
  back: () => void;
  close: () => void;
  onDone: (cluster: LVMCluster) => void;
}

/** Next can always be pressed. Where it leads nowhere it says why. */
function Footer({ active, next, back, close, onDone }: FooterProps) {
  const { t, m } = useT();
  const d = useDraft();
  const [tried, setTried] = useState(false);
  const [sending, setSending] = useState(false);
  const latest = useRef(d.outgoing);
  latest.current = d.outgoing;
  const [error, setError] = useState<string>();
  const summary = useRef<HTMLDivElement>(null);
  const step = active.id as StepId;
  const wrong = problemsOf(step, d.problems);
  const last = step === 'review';
  useEffect(() => {
    setTried(false);
    setError(undefined);
  }, [step]);
  const forbidden = last && d.permissions.loaded && (d.live ? !d.permissions.update : !d.permissions.create);
  const press = async () => {
    setTried(true);
    setError(undefined);
    d.show(step);
    if (wrong.length > 0 || (last && (forbidden || d.conflict))) {
      requestAnimationFrame(() => summary.current?.focus());
      return;
    }
    if (!last) return next();
    setSending(true);
    const outcome = await sendNewest(() => latest.current, { dryRun: false });
    setSending(false);
    d.setServer(outcome);
    if (outcome.kind === 'accepted') onDone(outcome.cluster);
    else setError(outcome.message);
  };
  const go = (field: string) => {
    const control = controlOf(field);
    control?.focus();
    control?.scrollIntoView({ block: 'center' });
  };
  /** Names the device class of a problem, where it is not the one in sight. */
  const text = (p: Problem): string => {
    const i = Number(/deviceClasses\[(\d+)\]/.exec(p.field)?.[1] ?? d.index);
    return i === d.index ? m(p.message) : `${classesOf(d.cluster)[i]?.name ?? ''}: ${m(p.message)}`;
  };
  const blocked = tried && (wrong.length > 0 || (last && (forbidden || d.conflict)));
  return (
    <WizardFooterWrapper>
      <Flex direction={{ default: 'column' }} style={{ width: '100%' }}>
        {blocked && (
          <div ref={summary} tabIndex={-1} data-test="why-not">
            <Alert isInline variant="danger" title={last ? t('The LVMCluster cannot be saved yet') : t('This step is not complete')}>
              {forbidden && <div>{t('You lack permission to change LVMClusters in {{namespace}}. Copy the command for a user with this permission.', { namespace: d.namespace })}</div>}
              {last && d.conflict && <div>{t('The LVMCluster has been updated. Reload the page.')}</div>}
              {wrong.map((p) => (
                <div key={`${p.field} ${p.message.key}`}>
                  {stepOf(p.field) === step ? (
                    <Button variant="link" isInline onClick={() => go(p.field)}>
                      {text(p)}
                    </Button>
                  ) : (
                    text(p)
                  )}
                </div>
              ))}
            </Alert>
          </div>
        )}
        {error && (
          <Alert isInline variant="danger" title={t('The LVMCluster could not be saved')} data-test="send-error">
            {error}
          </Alert>
        )}
        <Flex>
          {step !== 'start' && (
            <Button variant="secondary" onClick={back}>
              {t('Back')}
            </Button>
          )}
          <Button variant="primary" onClick={() => void press()} isLoading={sending} isDisabled={sending} data-test="next">
            {!last ? t('Next') : d.before ? t('Save') : t('Create')}
          </Button>
          <Button variant="link" onClick={close}>
            {t('Cancel')}
          </Button>
        </Flex>
      </Flex>
    </WizardFooterWrapper>
  );
}
