// What the console offers beside one of the product's alerts: the way to the page that it is about.
import { useEffect } from 'react';
import { useNavigate } from '../router';
import { classPath, nodePath, overviewPath } from '../paths';

interface Firing {
  labels?: Record<string, string>;
}

/** The page that an alert is about: its device class, else the disks of its node, else the overview. */
export const pageOf = ({ labels = {} }: Firing): string => (labels['device_class'] ? classPath(labels['device_class']) : labels['node'] ? nodePath(labels['node']) : overviewPath);

/** Only a component can go to another page of the console. It shows nothing. */
export function Go({ to, closeOverlay }: { to: string; closeOverlay: () => void }) {
  const navigate = useNavigate();
  useEffect(() => {
    closeOverlay();
    void navigate(to);
    // eslint-disable-next-line react-hooks/exhaustive-deps
  }, []);
  return null;
}

export const action = (alert: Firing, launch: (component: typeof Go, props: { to: string }) => void): void => launch(Go, { to: pageOf(alert) });
