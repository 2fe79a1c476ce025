// Every change goes through a statement that is shown before it runs.

import type { StatementsAnswer } from "./views";

export interface Proposal {
  title: string;
  statement: string;
  danger?: boolean;
  /** A name to type before it runs. */
  type?: string;
  done?: (answer: StatementsAnswer) => void;
}

export interface Toast {
  id: number;
  text: string;
  tone: "good" | "bad" | "info";
  link?: string;
}

class Actions {
  proposal = $state.raw<Proposal | null>(null);
  toasts = $state<Toast[]>([]);
  palette = $state(false);
  help = $state(false);
  #next = 1;

  propose(proposal: Proposal): void {
    this.proposal = proposal;
  }

  toast(text: string, tone: Toast["tone"] = "info", link?: string): void {
    const id = this.#next++;
    this.toasts = [...this.toasts.slice(-3), { id, text, tone, link }];
    setTimeout(() => this.dismiss(id), tone === "bad" ? 12_000 : 6000);
  }

  dismiss(id: number): void {
    this.toasts = this.toasts.filter((toast) => toast.id !== id);
  }
}

export const actions = new Actions();

/** A name as SQL writes it: quoted where it is not a plain word. */
export const quoted = (name: string): string => (/^[A-Za-z_][A-Za-z0-9_]*$/.test(name) ? name : `"${name.replaceAll('"', '""')}"`);
