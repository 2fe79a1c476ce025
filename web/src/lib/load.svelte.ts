// What a page fetches: again when one of its causes changes; the old value stays on screen until the new one is there.

import { get, problemOf } from "./api";
import type { Problem } from "./views";

export class Loaded<T> {
  value = $state.raw<T | null>(null);
  problem = $state.raw<Problem | null>(null);
  loading = $state(true);
  #stop: AbortController | null = null;
  #what = "";

  async fetch(path: string): Promise<void> {
    this.#stop?.abort();
    const stop = new AbortController();
    this.#stop = stop;
    const [what = ""] = path.split("?"); // what comes after it only says when to look again
    if (what !== this.#what) this.value = null;
    this.#what = what;
    this.loading = true;
    try {
      const value = await get<T>(path, stop.signal);
      if (stop !== this.#stop) return;
      this.value = value;
      this.problem = null;
    } catch (error) {
      if (stop !== this.#stop || stop.signal.aborted) return;
      this.problem = problemOf(error);
    }
    this.loading = false;
  }
}

/** Fetch a path now and whenever what `path` reads changes; an empty path fetches nothing. Call it in a component. */
export function loaded<T>(path: () => string): Loaded<T> {
  const result = new Loaded<T>();
  $effect(() => {
    const now = path();
    if (now) void result.fetch(now);
  });
  return result;
}
