// The texts in the editor, kept in this browser.

export interface Draft {
  title: string;
  text: string;
}
const KEY = "headrace-drafts";
const FIRST = "-- Ctrl+Enter runs the statement under the cursor.\nSHOW QUERIES;\n";

class Drafts {
  all = $state<Draft[]>(read());
  current = $state(0);

  get text(): string {
    return this.all[this.current]?.text ?? "";
  }

  open(text: string): void {
    const known = text ? this.all.findIndex((draft) => draft.text === text) : -1;
    if (known >= 0) this.current = known;
    else if (this.all.length === 1 && this.text === FIRST && text) this.all = [{ title: titleOf(text, 1), text }];
    else {
      this.all = [...this.all, { title: titleOf(text, this.all.length + 1), text }].slice(-12);
      this.current = this.all.length - 1;
    }
    this.#save();
  }

  write(text: string): void {
    const draft = this.all[this.current];
    if (!draft) return;
    draft.text = text;
    draft.title = titleOf(text, this.current + 1);
    this.#save();
  }

  choose(tab: number): void {
    this.current = tab;
  }

  close(): void {
    this.all = this.all.filter((_, tab) => tab !== this.current);
    this.current = Math.max(0, this.current - 1);
    this.#save();
  }

  #save(): void {
    localStorage.setItem(KEY, JSON.stringify(this.all));
  }
}

/** A short name for a text: what it creates, else a number. Pure. */
export function titleOf(text: string, number: number): string {
  const made = /\b(?:CREATE(?:\s+OR\s+REPLACE)?|ALTER|DROP)\s+(?:STREAM|TABLE|QUERY|VIEW|EVENT|RULE|SYSTEM)\s+("?[\w.]+"?)/i.exec(text);
  return (made?.[1] ?? `draft ${number}`).slice(0, 24);
}

function read(): Draft[] {
  try {
    const found = JSON.parse(localStorage.getItem(KEY) ?? "[]") as Draft[];
    if (found.length) return found;
  } catch {
    // not ours
  }
  return [{ title: "draft 1", text: FIRST }];
}

export const drafts = new Drafts();
