// What a picture of operators shows of each. Pure.

import { bytes, count, digits, duration, percent, rate } from "./format";
import type { VertexFigures } from "./views";

export interface Metric {
  key: string;
  title: string;
  of: (figures: VertexFigures) => number;
  text: (figures: VertexFigures) => string;
  absolute?: boolean; // 1 is full, whatever the others have
}

export const METRICS: Metric[] = [
  { key: "busy", title: "busy share", of: (v) => v.busy, text: (v) => `${percent(v.busy)} busy`, absolute: true },
  { key: "queue", title: "queue", of: (v) => v.queued, text: (v) => `${count(v.queued)} wait` },
  { key: "state", title: "state", of: (v) => v.state_bytes, text: (v) => bytes(v.state_bytes) },
  { key: "service", title: "time per tuple", of: (v) => v.service_us ?? 0, text: (v) => duration((v.service_us ?? 0) / 1000) },
  { key: "rate", title: "tuples in", of: (v) => v.rate_in, text: (v) => rate(v.rate_in) },
  { key: "saved", title: "saved by feedback", of: (v) => v.saved, text: (v) => `${count(v.saved)} saved` },
  { key: "shed", title: "shed", of: (v) => v.shed, text: (v) => `${count(v.shed)} shed` },
  { key: "late", title: "late", of: (v) => v.late, text: (v) => `${count(v.late)} late` },
];

/** The figures of a vertex in words, for a panel and for those who hear the page. */
export function facts(v: VertexFigures): [string, string][] {
  return [
    ["tuples in", rate(v.rate_in)],
    ["tuples out", rate(v.rate_out)],
    ["busy", `${percent(v.busy)} of all cores`],
    ["time per tuple", v.service_us === null ? "–" : duration(v.service_us / 1000)],
    ["out of each in", v.selectivity === null ? "–" : digits(v.selectivity)],
    ["queue", `${count(v.queued)} tuples, at most ${count(v.peak)}`],
    ["wait (estimate)", duration(v.wait_ms)],
    ["waits for a bound", v.idle === null ? "–" : `${percent(v.idle)} of the time`],
    ["kept", `${count(v.held)} tuples, ${bytes(v.state_bytes)}`],
    ["saved by feedback", count(v.saved)],
    ["shed", count(v.shed)],
    ["late", count(v.late)],
  ];
}
