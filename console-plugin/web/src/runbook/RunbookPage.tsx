import { DocumentTitle } from '@openshift-console/dynamic-plugin-sdk';
import { Breadcrumb, BreadcrumbItem, EmptyState, EmptyStateBody, PageSection } from '@patternfly/react-core';
import { useEffect } from 'react';
import { Link, useLocation, useParams } from '../router';
import { useT } from '../i18n';
import { runbookOf } from '../model/runbook';
import { overviewPath, runbookPath } from '../paths';
import { Markdown } from './Markdown';
import { textOf } from './texts';

/** The name of the page that lists the others. */
const INDEX = 'README';

/** What to do about an alert, as it stands in monitoring/runbooks. */
export default function RunbookPage() {
  const { t } = useT();
  const name = runbookOf(useParams()['name'] ?? '');
  const text = textOf(name);
  const { hash } = useLocation();
  useEffect(() => {
    if (hash) document.getElementById(hash.slice(1))?.scrollIntoView();
  }, [hash, name]);
  return (
    <>
      <DocumentTitle>{name === INDEX ? t('Runbooks') : name}</DocumentTitle>
      <PageSection>
        <Breadcrumb>
          <BreadcrumbItem><Link to={overviewPath}>{t('Local volumes')}</Link></BreadcrumbItem>
          <BreadcrumbItem isActive={name === INDEX}>{name === INDEX ? t('Runbooks') : <Link to={runbookPath(INDEX)}>{t('Runbooks')}</Link>}</BreadcrumbItem>
          {name !== INDEX && <BreadcrumbItem isActive>{name}</BreadcrumbItem>}
        </Breadcrumb>
      </PageSection>
      <PageSection isFilled data-test="runbook">{text === undefined ? <Unknown name={name} /> : <Markdown text={text} />}</PageSection>
    </>
  );
}

function Unknown({ name }: { name: string }) {
  const { t } = useT();
  return (
    <EmptyState headingLevel="h2" titleText={t('Runbook {{name}} does not exist', { name })} data-test="no-runbook">
      <EmptyStateBody><Link to={runbookPath(INDEX)}>{t('Go to the runbooks')}</Link></EmptyStateBody>
    </EmptyState>
  );
}
