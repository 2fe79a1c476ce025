// Numbers, durations, sizes and times as people read them. Pure.

const UNITS: [number, string][] = [
  [1e12, "T"],
  [1e9, "G"],
  [1e6, "M"],
  [1e3, "k"],
];

/** A number with at most three digits and a unit: 1.23 M. */
export function short(value: number | null | undefined): string {
  if (value === null || value === undefined || Number.isNaN(value)) return "–";
  const size = Math.abs(value);
  for (const [factor, unit] of UNITS) if (size >= factor * 0.9995) return `${digits(value / factor)} ${unit}`;
  return digits(value);
}

/** Three digits that matter. */
export function digits(value: number): string {
  const size = Math.abs(value);
  if (size === 0) return "0";
  if (size >= 100 || Number.isInteger(value)) return String(Math.round(value));
  if (size >= 10) return trim(value.toFixed(1));
  return size >= 0.01 ? trim(value.toFixed(2)) : value.toPrecision(1);
}

const trim = (text: string): string => text.replace(/\.?0+$/, "");

/** A rate: 21.3 k/s. */
export const rate = (value: number | null | undefined): string => (value === null || value === undefined ? "–" : `${short(value)}/s`);

/** An exact count: 48,211. */
export const count = (value: number | null | undefined): string =>
  value === null || value === undefined ? "–" : Math.round(value).toLocaleString("en-US");

/** A share: 96 %. */
export function percent(value: number | null | undefined): string {
  if (value === null || value === undefined) return "–";
  const share = value * 100;
  return `${share !== 0 && Math.abs(share) < 1 ? digits(share) : Math.round(share)} %`;
}

/** A size in bytes: 312 MB. */
export function bytes(value: number | null | undefined): string {
  if (value === null || value === undefined) return "–";
  const names = ["B", "kB", "MB", "GB", "TB"];
  let size = value;
  let place = 0;
  while (Math.abs(size) >= 1000 && place < names.length - 1) {
    size /= 1024;
    place += 1;
  }
  return `${digits(size)} ${names[place]}`;
}

/** A duration: 840 µs, 84 ms, 2.1 s, 5 min 10 s, 3 h 20 min, 2 d 4 h. */
export function duration(ms: number | null | undefined): string {
  if (ms === null || ms === undefined) return "–";
  if (ms < 0) return `−${duration(-ms)}`;
  if (ms === 0) return "0 ms";
  if (ms < 1) return `${digits(ms * 1000)} µs`;
  if (ms < 1000) return `${digits(ms)} ms`;
  if (ms < 60_000) return `${digits(ms / 1000)} s`;
  const seconds = Math.round(ms / 1000);
  if (seconds < 3600) return two(seconds, 60, "min", "s");
  if (seconds < 86_400) return two(Math.round(seconds / 60), 60, "h", "min");
  return two(Math.round(seconds / 3600), 24, "d", "h");
}

function two(total: number, per: number, large: string, small: string): string {
  const rest = total % per;
  return `${Math.floor(total / per)} ${large}${rest ? ` ${rest} ${small}` : ""}`;
}

/** A promise's value in the unit of its measure: microseconds, bytes, results per second or a ratio. */
export function measured(measure: string, value: number | null | undefined): string {
  if (value === null || value === undefined) return "–";
  if (measure === "latency") return duration(value / 1000);
  if (measure === "smoothness") return value.toFixed(2);
  return measure === "memory" ? bytes(value) : rate(value);
}

/** A local time of day: 12:03:17. */
export const clock = (ms: number): string => new Date(ms).toLocaleTimeString("en-GB");

/** A local time of day, or a date if that is not near: 12:03:17, 2100-01-01. */
export const moment = (ms: number, now: number): string =>
  Math.abs(ms - now) < 20 * 3_600_000 ? clock(ms) : new Date(ms).toLocaleDateString("sv-SE");

/** A local date and time, with UTC beside it; for titles. */
export function exact(ms: number): string {
  const date = new Date(ms);
  return `${date.toLocaleDateString("sv-SE")} ${date.toLocaleTimeString("en-GB")} (${date.toISOString().slice(11, 19)} UTC)`;
}

/** How long ago: 0.4 s ago. */
export const ago = (ms: number): string => (ms < 1000 ? "now" : `${duration(ms < 60_000 ? Math.round(ms / 1000) * 1000 : ms)} ago`);

/** A cell of a result table. */
export function cell(value: unknown): string {
  if (value === null || value === undefined) return "NULL";
  if (typeof value === "number") return Number.isInteger(value) ? String(value) : String(Number(value.toPrecision(9)));
  if (typeof value === "string") return /^\d{4}-\d\d-\d\dT[\d:.]+Z$/.test(value) ? value.replace("T", " ").replace(/\.?0*Z$/, "") : value;
  return typeof value === "object" ? JSON.stringify(value) : String(value);
}

export const plural = (number: number, noun: string, many = `${noun}s`): string => `${count(number)} ${number === 1 ? noun : many}`;
