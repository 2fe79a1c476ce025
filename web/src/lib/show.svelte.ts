// The rows of a SHOW statement, again every few seconds while the page is open.

import { post, problemOf, run } from "./api";
import type { Diagnosis, ListingOutcome, Problem } from "./views";

export class Shown {
  listing = $state.raw<ListingOutcome | null>(null);
  problem = $state.raw<Problem | null>(null);
  /** Whether this version of Headrace knows the statement. */
  known = $state<boolean | null>(null);
  #busy = false;

  constructor(readonly statement: string) {}

  async refresh(): Promise<void> {
    if (this.#busy || this.known === false) return;
    this.#busy = true;
    try {
      if (this.known === null) this.known = (await post<Diagnosis>("/check", { text: this.statement })).problem === null;
      if (!this.known) return;
      const [outcome] = (await run(this.statement)).outcomes;
      this.listing = outcome?.kind === "listing" ? outcome : null;
      this.problem = null;
    } catch (error) {
      this.problem = problemOf(error);
    } finally {
      this.#busy = false;
    }
  }
}
