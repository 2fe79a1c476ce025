// The journal of decisions; it is fetched once, and then what is new.

import { get } from "./api";
import type { DecisionsView, DecisionView } from "./views";

class Journal {
  decisions = $state.raw<DecisionView[]>([]);
  ready = $state(false);
  #newest = -1;
  #busy = false;

  async refresh(): Promise<void> {
    if (this.#busy) return;
    this.#busy = true;
    try {
      const found = await get<DecisionsView>(this.#newest < 0 ? "/decisions?limit=1000" : `/decisions?limit=1000&after=${this.#newest}`);
      if (found.newest < this.#newest) this.decisions = []; // another checkpoint
      if (found.decisions.length) this.decisions = [...this.decisions, ...found.decisions].slice(-2000);
      this.#newest = found.newest;
      this.ready = true;
    } catch {
      // the next beat tries again
    } finally {
      this.#busy = false;
    }
  }
}

export const journal = new Journal();
