// LogicalVolumes with what they are for: claims, snapshots, copies.
import { CLAIM_ANNOTATION, classesOf, CONDITION_ANNOTATION, DRIVER, MOVE_ANNOTATION, UNCLAIMED_ANNOTATION, type LogicalVolume, type LVMCluster, type PersistentVolume } from '../api/types';
import { msg, type Message } from './message';
import { bytesOf } from './quantity';
import { suspensionOf, type Suspension } from './suspension';

export interface Volume {
  name: string;
  kind: 'volume' | 'snapshot';
  /** The claim, or the VolumeSnapshot. */
  namespace?: string;
  claim?: string;
  node: string;
  size?: number;
  /** The PersistentVolume and its phase. */
  persistentVolume?: string;
  phase?: string;
  /** The LogicalVolume that it is a copy of, by what that is for. */
  source?: string;
  /** Whether a VolumeMove created it: it is not the volume of the claim, and no snapshot of a user. */
  isPartOfMove: boolean;
  snapshots: number;
  problems: Message[];
  /** How much of the data of its source is copied, while it is being copied. */
  copying?: string;
  /** Why new Pods do not get it. */
  suspension?: Suspension;
  lv: LogicalVolume;
}

/** The claim, or else the name of the LogicalVolume. */
export const titleOf = ({ namespace, claim, name }: Volume): string => (namespace && claim ? `${namespace}/${claim}` : name);

/** A LogicalVolume without a device class is of the default one. */
export const classOf = (lv: LogicalVolume, cluster: LVMCluster | undefined): string | undefined => {
  const classes = classesOf(cluster);
  return lv.spec.deviceClass || (classes.find((c) => c.default) ?? (classes.length === 1 ? classes[0] : undefined))?.name;
};

/** Whether a VolumeMove created it: a snapshot, the copy, or the old logical volume. */
export const isPartOfMove = ({ metadata }: LogicalVolume): boolean => !!metadata.annotations?.[MOVE_ANNOTATION];

/** Gives each LogicalVolume what the cluster knows of it. persistentVolumes is undefined where they could not be read. */
export function volumesOf(volumes: LogicalVolume[], persistentVolumes: PersistentVolume[] | undefined): Volume[] {
  const byHandle = new Map((persistentVolumes ?? []).filter((pv) => pv.spec.csi?.driver === DRIVER).map((pv) => [pv.spec.csi?.volumeHandle, pv]));
  const byName = new Map(volumes.map((lv) => [lv.metadata.name, lv]));
  const snapshots = new Map<string, number>();
  for (const lv of volumes) if (lv.spec.source && lv.spec.accessType === 'ro' && !isPartOfMove(lv)) snapshots.set(lv.spec.source, (snapshots.get(lv.spec.source) ?? 0) + 1);
  return volumes
    .map((lv): Volume => {
      const pv = lv.status?.volumeID ? byHandle.get(lv.status.volumeID) : undefined;
      const [namespace, claim] = purposeOf(lv, pv);
      const source = lv.spec.source ? byName.get(lv.spec.source) : undefined;
      return {
        lv, namespace, claim, name: lv.metadata.name ?? lv.spec.name, node: lv.spec.nodeName, kind: lv.spec.accessType === 'ro' && lv.spec.source ? 'snapshot' : 'volume',
        isPartOfMove: isPartOfMove(lv), size: bytesOf(lv.status?.currentSize ?? lv.spec.size), persistentVolume: pv?.metadata.name, phase: pv?.status?.phase,
        source: lv.spec.source && (source ? purposeOf(source, undefined).filter(Boolean).join('/') || lv.spec.source : lv.spec.source),
        snapshots: snapshots.get(lv.metadata.name ?? '') ?? 0, problems: problemsOf(lv), copying: copyingOf(lv), suspension: suspensionOf(lv),
      };
    })
    .sort((a, b) => Number(b.problems.length > 0) - Number(a.problems.length > 0) || Number(!!b.suspension) - Number(!!a.suspension) || (a.namespace ?? '').localeCompare(b.namespace ?? '') || (a.claim ?? a.name).localeCompare(b.claim ?? b.name));
}

function purposeOf(lv: LogicalVolume, pv: PersistentVolume | undefined): [string | undefined, string | undefined] {
  if (pv?.spec.claimRef) return [pv.spec.claimRef.namespace, pv.spec.claimRef.name];
  const [namespace, name] = (lv.metadata.annotations?.[CLAIM_ANNOTATION] ?? '').split('/');
  return namespace && name ? [namespace, name] : [undefined, undefined];
}

/** The code of gRPC with which a node agent reports the progress of a copy. Errors of a copy have other codes. */
const ABORTED = 10;

/** How much of the data of its source is copied to a volume, or undefined if it is not being copied. */
export const copyingOf = ({ spec, status, metadata }: LogicalVolume): string | undefined =>
  spec.source && !status?.volumeID && status?.code === ABORTED && !metadata.deletionTimestamp ? status.message : undefined;

function problemsOf(lv: LogicalVolume): Message[] {
  const { annotations = {}, deletionTimestamp } = lv.metadata;
  const condition = annotations[CONDITION_ANNOTATION];
  return [
    ...(condition ? [msg('{{text}}', { text: condition })] : []),
    ...(lv.status?.code && copyingOf(lv) === undefined ? [msg('{{text}}', { text: lv.status.message || String(lv.status.code) })] : []),
    ...(annotations[UNCLAIMED_ANNOTATION] === 'true' ? [msg('Orphaned: no PersistentVolume, snapshot or claim refers to this volume. It is not deleted automatically.')] : []),
    ...(deletionTimestamp ? [msg('The volume is being deleted.')] : !lv.status?.volumeID && !lv.status?.code && !isPartOfMove(lv) ? [msg('The volume is being created.')] : []),
  ];
}
