// The last quarter of an hour: what the server remembers when the page opens, and then every beat.

import { get } from "./api";
import { live } from "./live.svelte";
import type { Beat, HistoryView } from "./views";

const SPAN = 15 * 60_000;

export interface Points {
  times: number[];
  values: (number | null)[];
}

/** The figures of a beat that are kept, by the names that the server's history uses. Pure. */
export function figuresOf(beat: Beat): Record<string, number | null> {
  const figures: Record<string, number | null> = {
    load: beat.load,
    took_ms: beat.took_ms,
    rate: beat.rate,
    state_bytes: beat.state_bytes,
    queued: beat.queued,
  };
  for (const stream of beat.streams) {
    figures[`stream.${stream.name}.rate`] = stream.rate;
    figures[`stream.${stream.name}.lag_ms`] = stream.lag_ms;
    figures[`stream.${stream.name}.behind_ms`] = stream.behind_ms;
  }
  for (const query of beat.queries) {
    figures[`query.${query.name}.rate`] = query.rate;
    figures[`query.${query.name}.latency_ms`] = query.latency_ms;
    figures[`query.${query.name}.waiting`] = query.waiting;
    figures[`query.${query.name}.shed`] = query.shed;
  }
  for (const promise of beat.promises) figures[`promise.${promise.query}.${promise.measure}.observed`] = promise.observed;
  return figures;
}

class Trail {
  /** Grows with every change, so that what reads it is drawn again. */
  version = $state(0);
  #series = new Map<string, Points>();

  async start(): Promise<void> {
    live.onBeat((beat) => this.#add(beat));
    try {
      this.#merge(await get<HistoryView>(`/history?from=${Date.now() - SPAN}`));
    } catch {
      // without a history the page fills up by itself
    }
  }

  of(name: string): Points {
    this.version;
    return this.#series.get(name) ?? { times: [], values: [] };
  }

  #add(beat: Beat): void {
    if (beat.state === "starting") return;
    for (const [name, value] of Object.entries(figuresOf(beat))) {
      const points = this.#series.get(name) ?? { times: [], values: [] };
      this.#series.set(name, points);
      if (points.times.length && beat.at <= (points.times.at(-1) as number)) continue;
      points.times.push(beat.at);
      points.values.push(value);
      const oldest = beat.at - SPAN;
      let gone = 0;
      while (gone < points.times.length && (points.times[gone] as number) < oldest) gone += 1;
      if (gone > 60) {
        points.times.splice(0, gone);
        points.values.splice(0, gone);
      }
    }
    this.version += 1;
  }

  #merge(history: HistoryView): void {
    for (const { name, values } of history.series) {
      const points = this.#series.get(name) ?? { times: [], values: [] };
      const first = points.times[0] ?? Number.POSITIVE_INFINITY;
      const older = history.times.filter((time) => time < first).length;
      this.#series.set(name, {
        times: [...history.times.slice(0, older), ...points.times],
        values: [...values.slice(0, older), ...points.values],
      });
    }
    this.version += 1;
  }
}

export const trail = new Trail();
