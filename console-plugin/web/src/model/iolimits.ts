// The I/O limits of a volume, as the CSI controller and the node agent record them at its LogicalVolume (internal/volume/view/limits.go).
import { IO_LIMITS_ANNOTATION, IO_LIMITS_ERROR_ANNOTATION, IO_LIMITS_IN_FORCE_ANNOTATION, type LogicalVolume } from '../api/types';
import { msg, type Message } from './message';

const NONE = 'none';

/** The limits in force, then those that were requested and are not in force, with the reason if the node refused them. */
export function limitsOf({ metadata: { annotations = {} } }: LogicalVolume): Message[] {
  const inForce = annotations[IO_LIMITS_IN_FORCE_ANNOTATION] || NONE;
  const requested = annotations[IO_LIMITS_ANNOTATION];
  const refusal = annotations[IO_LIMITS_ERROR_ANNOTATION];
  const current = inForce === NONE ? msg('None') : msg('{{text}}', { text: inForce });
  if (!requested || requested === inForce) return [current];
  // An error about earlier limits does not answer this request.
  const refused = refusal?.startsWith(`${requested}: `);
  return [current, refused ? msg('Requested, but refused by the node: {{error}}', { error: refusal ?? '' }) : msg('Requested, not in force yet: {{limits}}', { limits: requested })];
}
