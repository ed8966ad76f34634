import { consoleFetch } from '@openshift-console/dynamic-plugin-sdk';
import { useEffect, useState } from 'react';
import { clusterModel, GROUP } from '../api/types';

interface ServiceVersion {
  metadata: { annotations?: Record<string, string> };
  spec?: { customresourcedefinitions?: { owned?: { name: string }[] } };
}

const IMAGE = 'operators.openshift.io/must-gather-image';
/** Seconds that the answer may take; versions that are looked at. Old ones go when a new one is installed. */
const TIMEOUT = 15;
const MOST = 50;

/** The command that the installed release names; none where the user may not read it, or none is named. */
export async function gatherCommand(namespace: string): Promise<string | undefined> {
  const url = `/api/kubernetes/apis/operators.coreos.com/v1alpha1/namespaces/${namespace}/clusterserviceversions?limit=${MOST}`;
  const { items = [] } = (await (await consoleFetch(url, {}, TIMEOUT * 1000)).json()) as { items?: ServiceVersion[] };
  const ours = items.filter((v) => v.spec?.customresourcedefinitions?.owned?.some((d) => d.name === `${clusterModel.plural}.${GROUP}`));
  const image = ours.map((v) => v.metadata.annotations?.[IMAGE]).find((i) => i && /^[\w.:/@-]+$/.test(i));
  return image && `oc adm must-gather --image=${image}`;
}

export function useGatherCommand(namespace: string, wanted: boolean): string | undefined {
  const [command, set] = useState<string>();
  useEffect(() => {
    let ended = false;
    // It is a help and no fact: where it cannot be read there is none.
    if (wanted) gatherCommand(namespace).then((c) => !ended && set(c), () => undefined);
    return () => {
      ended = true;
    };
  }, [namespace, wanted]);
  return wanted ? command : undefined;
}
