import { Component, Suspense, type ReactNode } from 'react';

interface Props {
  /** Shown until the chart is loaded, and in its place if it cannot be loaded. */
  fallback: ReactNode;
  children: ReactNode;
}

/** A chart that is loaded when it is shown. If its code cannot be loaded, the page stays, with the numbers beside the chart. */
export class Lazy extends Component<Props, { failed: boolean }> {
  override state = { failed: false };
  static getDerivedStateFromError() {
    return { failed: true };
  }
  override render() {
    return this.state.failed ? this.props.fallback : <Suspense fallback={this.props.fallback}>{this.props.children}</Suspense>;
  }
}
