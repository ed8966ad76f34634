import type { Quantity } from '../api/types';

const binary = { Ki: 2 ** 10, Mi: 2 ** 20, Gi: 2 ** 30, Ti: 2 ** 40, Pi: 2 ** 50, Ei: 2 ** 60 } as const;
const decimal = { n: 1e-9, u: 1e-6, m: 1e-3, '': 1, k: 1e3, M: 1e6, G: 1e9, T: 1e12, P: 1e15, E: 1e18 } as const;
const suffixes: Record<string, number> = { ...binary, ...decimal };

const form = /^([+-]?(?:\d+\.?\d*|\.\d+))(?:([EPTGMK]i|[EPTGMkmun])|[eE]([+-]?\d+))?$/;

/**
 * Bytes of a quantity, rounded up to a whole one as Kubernetes does it; undefined where it is none. Beyond 9 PB a number of
 * JavaScript is no longer exact, which does not matter for disks.
 */
export function bytesOf(quantity: Quantity | undefined): number | undefined {
  if (quantity === undefined || quantity === '') return undefined;
  const match = form.exec(String(quantity).trim());
  if (!match) return undefined;
  const scale = match[3] !== undefined ? 10 ** Number(match[3]) : suffixes[match[2] ?? ''];
  return scale === undefined ? undefined : Math.ceil(Number(match[1]) * scale);
}

const units = ['B', 'KiB', 'MiB', 'GiB', 'TiB', 'PiB', 'EiB'];

/** A size for people, in powers of 1024, rounded down: what is shown as free is there. */
export function formatBytes(bytes: number | undefined, locale?: string): string {
  if (bytes === undefined || !Number.isFinite(bytes)) return '–';
  let [value, unit] = [Math.max(0, bytes), 0];
  while (value >= 1024 && unit < units.length - 1) {
    value /= 1024;
    unit++;
  }
  const digits = unit === 0 || value >= 100 ? 0 : 1;
  const rounded = Math.floor(value * 10 ** digits) / 10 ** digits;
  return `${new Intl.NumberFormat(locale, { maximumFractionDigits: digits }).format(rounded)} ${units[unit]}`;
}

/** A percentage, for a person: 40 is 40%. */
export const formatPercent = (percent: number, locale: string): string =>
  new Intl.NumberFormat(locale, { style: 'percent', maximumFractionDigits: 2 }).format(percent / 100);
