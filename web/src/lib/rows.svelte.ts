// The newest results of a query, as they come; bounded, so that the browser survives. What was skipped is counted.

import { get, path, problemOf } from "./api";
import { live } from "./live.svelte";
import type { Column, Problem, ResultsView } from "./views";

export interface Row {
  key: number;
  batch: number;
  cells: unknown[];
}
const KEPT = 2000;

export class Rows {
  columns = $state.raw<Column[]>([]);
  rows = $state.raw<Row[]>([]); // oldest first
  total = $state(0);
  skipped = $state(0);
  paused = $state(false);
  problem = $state.raw<Problem | null>(null);
  #next = 0;
  #held: { batch: number; columns: Column[]; rows: unknown[][]; skipped: number }[] = [];

  constructor(readonly query: string) {}

  /** Follow the query; call what is returned to end it. */
  follow(): () => void {
    let ended = false;
    let stop = (): void => undefined;
    void get<ResultsView>(`${path("queries", this.query, "results")}?limit=500`)
      .then((kept) => {
        if (ended) return;
        this.columns = kept.columns;
        // Rows before these were not asked for; hidden ones never came to the shelf.
        for (const batch of kept.batches) this.#add(batch.batch, batch.columns, batch.rows as unknown[][], 0);
        this.skipped = kept.shelf.hidden;
        stop = this.#watch(kept.next);
      })
      .catch((error) => {
        if (ended) return;
        this.problem = problemOf(error);
        if (this.problem.status !== 404) stop = this.#watch(-1);
      });
    return () => {
      ended = true;
      stop();
    };
  }

  #watch(after: number): () => void {
    return live.watch({ t: "results", query: this.query, after }, (message) => {
      if (message.t === "error") this.problem = message.problem;
      if (message.t !== "results") return;
      this.problem = null;
      const { batch, columns, rows, skipped } = message.result;
      this.#add(batch, columns, rows as unknown[][], skipped);
    });
  }

  pause(paused: boolean): void {
    this.paused = paused;
    if (paused) return;
    for (const held of this.#held.splice(0)) this.#add(held.batch, held.columns, held.rows, held.skipped);
  }

  #add(batch: number, columns: Column[], rows: unknown[][], skipped: number): void {
    if (this.paused) {
      this.#held.push({ batch, columns, rows, skipped });
      if (this.#held.length > 200) {
        const gone = this.#held.shift();
        this.skipped += (gone?.rows.length ?? 0) + (gone?.skipped ?? 0);
      }
      return;
    }
    if (columns.length) this.columns = columns;
    this.skipped += skipped;
    this.total += rows.length;
    if (rows.length) this.rows = [...this.rows, ...rows.map((cells) => ({ key: this.#next++, batch, cells }))].slice(-KEPT);
  }
}

export interface Drawing {
  x: number; // columns
  y: number;
  series: number | null;
}

/** Choose how rows are drawn: a timestamp on x, a number on y, a column with few values as series. Pure. */
export function drawing(columns: Column[], rows: Row[]): Drawing | null {
  const of = (test: RegExp): number[] => columns.flatMap((column, place) => (test.test(column.type) ? [place] : []));
  const times = of(/TIMESTAMP/i);
  const x = times.find((place) => columns[place]?.name === "window_end") ?? times[0];
  const numbers = of(/INT|DOUBLE|FLOAT|DECIMAL|REAL/i);
  if (x === undefined || !numbers.length) return null;
  const distinct = (place: number): number => new Set(rows.map((row) => String(row.cells[place]))).size;
  const keys = columns.map((_, place) => place).filter((place) => place !== x && !/DOUBLE|FLOAT|REAL|TIMESTAMP/i.test(columns[place]?.type ?? ""));
  const series = keys.find((place) => distinct(place) <= 12 && (distinct(place) > 1 || !numbers.includes(place)) && numbers.some((number) => number !== place)) ?? null;
  const rest = numbers.filter((place) => place !== series);
  const y = rest.find((place) => /DOUBLE|FLOAT|REAL|DECIMAL/i.test(columns[place]?.type ?? "")) ?? rest[0];
  return y === undefined ? null : { x, y, series };
}

/** The lines of a drawing, over the same times. Pure. */
export function linesOf(rows: Row[], { x, y, series }: Drawing): { times: number[]; lines: Map<string, (number | null)[]> } {
  const points = new Map<string, Map<number, number | null>>();
  const times = new Set<number>();
  for (const row of rows) {
    const time = Date.parse(String(row.cells[x]));
    if (Number.isNaN(time)) continue;
    times.add(time);
    const name = series === null ? "" : String(row.cells[series]);
    const line = points.get(name) ?? new Map<number, number | null>();
    points.set(name, line);
    const value = Number(row.cells[y] ?? NaN); // "NaN" and "Infinity" are texts, and have no place on an axis
    line.set(time, Number.isFinite(value) ? value : null);
  }
  const sorted = [...times].sort((a, b) => a - b);
  const lines = new Map<string, (number | null)[]>();
  for (const [name, line] of [...points].sort((a, b) => a[0].localeCompare(b[0], "en", { numeric: true })).slice(0, 12))
    lines.set(name, sorted.map((time) => line.get(time) ?? null));
  return { times: sorted, lines };
}
