import { Alert } from '@patternfly/react-core';
import { Component, Suspense, type ReactNode } from 'react';
import { useT } from '../i18n';

interface Props {
  /** Shown until the chart is loaded. */
  fallback: ReactNode;
  /** Shown if the chart cannot be loaded; by default, nothing. */
  failed?: ReactNode;
  children: ReactNode;
}

/** A chart that is loaded when it is shown. If its code cannot be loaded, the rest of the page stays. */
export class Lazy extends Component<Props, { failed: boolean }> {
  override state = { failed: false };
  static getDerivedStateFromError() {
    return { failed: true };
  }
  override render() {
    return this.state.failed ? (this.props.failed ?? null) : <Suspense fallback={this.props.fallback}>{this.props.children}</Suspense>;
  }
}

/** For a card that has nothing but its chart. */
export function NotLoaded() {
  const { t } = useT();
  return <Alert isInline isPlain variant="warning" data-test="not-loaded" title={t('The chart could not be loaded. Reload the page.')} />;
}
