import { Alert, Button, Card, CardBody, CardHeader, CardTitle, Content, Flex, Stack } from '@patternfly/react-core';
import { useMemo, useState } from 'react';
import { useNavigate } from '../router';
import type { LVMCluster, LVMRecovery, NodeStatus } from '../api/types';
import { useT } from '../i18n';
import { useRecoveryPermissions, type Watched } from '../kube/watch';
import { actions, byProblem, openSuggestions, suggestionsOf, type Suggestion } from '../model/recovery';
import { recoveryPath } from '../paths';
import { RecoverDialog } from './RecoverDialog';
import { RecoveriesTable } from './RecoveriesTable';

/** So many problems are shown; the dialog has those of all nodes. */
const MOST = 5;

interface Props {
  namespace: string;
  cluster: LVMCluster;
  name: string;
  statuses: Watched<NodeStatus[]>;
  recoveries: Watched<LVMRecovery[]>;
}

/** The recoveries of a device class, what the status suggests, and the way to start one. */
export function RecoveriesCard({ namespace, cluster, name, statuses, recoveries }: Props) {
  const { t } = useT();
  const navigate = useNavigate();
  const permissions = useRecoveryPermissions(namespace);
  const [chosen, setChosen] = useState<Suggestion | 'any'>();
  const all = useMemo(() => statuses.data.flatMap((s) => suggestionsOf(s, name)), [statuses.data, name]);
  // What was started is not suggested again, so the suggestions wait for the recoveries.
  const known = recoveries.loaded || recoveries.error;
  const problems = byProblem(known ? openSuggestions(all, name, recoveries.data) : []);
  const forbidden = permissions.loaded && !permissions.create;
  return (
    <Card data-test="recoveries">
      <CardHeader
        actions={{
          actions: (
            <Flex alignItems={{ default: 'alignItemsCenter' }}>
              {forbidden && <Content component="small" id="no-recover">{t('You lack permission to create lvmrecoveries.lvm.topolvm.io in {{namespace}}.', { namespace })}</Content>}
              <Button variant="secondary" isAriaDisabled={forbidden} aria-describedby={forbidden ? 'no-recover' : undefined} onClick={() => setChosen('any')} data-test="recover">
                {t('Recover')}
              </Button>
            </Flex>
          ),
          hasNoOffset: true,
        }}
      >
        <CardTitle component="h2">{t('Recoveries')}</CardTitle>
      </CardHeader>
      <CardBody>
        <Stack hasGutter>
          {problems.slice(0, MOST).map((list) => (
            <SuggestionAlert key={`${list[0].node} ${list[0].cause}`} suggestions={list} forbidden={forbidden} choose={setChosen} />
          ))}
          {problems.length > MOST && <Content component="small">{t('{{count}} more recoveries are suggested: see “Recover”.', { count: problems.slice(MOST).flat().length })}</Content>}
          <RecoveriesTable recoveries={recoveries} name={name} />
        </Stack>
        {chosen && (
          <RecoverDialog
            namespace={namespace} cluster={cluster} name={name} statuses={statuses.data} recoveries={recoveries.data} suggestions={all} initial={chosen === 'any' ? undefined : chosen}
            close={() => setChosen(undefined)} created={(r) => navigate(recoveryPath(r))}
          />
        )}
      </CardBody>
    </Card>
  );
}

interface SuggestionProps {
  /** Those for one problem of a node. */
  suggestions: [Suggestion, ...Suggestion[]];
  forbidden: boolean;
  choose: (suggestion: Suggestion) => void;
}

function SuggestionAlert({ suggestions, forbidden, choose }: SuggestionProps) {
  const { t, m } = useT();
  const [{ node, cause, count = 0, message }] = suggestions;
  const title =
    cause === 'Orphans' ? t('Node {{node}} has {{count}} orphans', { node, count })
    : cause === 'PoolNearlyFull' ? t('The thin pool on node {{node}} is nearly full', { node })
    : t('Node {{node}}: {{reason}}', { node, reason: cause });
  return (
    <Alert
      isInline variant={cause === 'Orphans' ? 'info' : 'warning'} title={title} data-test="suggestion"
      actionLinks={suggestions.map((s) => (
        <Button key={s.action} variant="link" isInline isAriaDisabled={forbidden} aria-describedby={forbidden ? 'no-recover' : undefined} onClick={() => choose(s)} aria-label={t('Recover with {{action}} on node {{node}}', { node, action: s.action })}>
          {t('Recover with {{action}}', { action: s.action })}
        </Button>
      ))}
    >
      {message && <Content component="p">{message}</Content>}
      {suggestions.map((s) => (
        <div key={s.action}>{t('{{action}}: {{text}}', { action: s.action, text: m(actions[s.action]) })}</div>
      ))}
    </Alert>
  );
}
