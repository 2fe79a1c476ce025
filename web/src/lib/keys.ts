// Keys that work on every page.

import { actions } from "./actions.svelte";
import { router } from "./router.svelte";
import { nextTheme } from "./theme.svelte";

export const GOTO: [key: string, path: string, title: string][] = [
  ["o", "/", "Overview"],
  ["g", "/graph", "Graph"],
  ["q", "/queries", "Queries"],
  ["e", "/sql", "SQL editor"],
  ["x", "/explore", "Explore"],
  ["s", "/streams", "Streams"],
  ["d", "/decisions", "Decisions"],
  ["r", "/rules", "Events & rules"],
  ["v", "/savings", "Savings"],
  ["p", "/plans", "Plans"],
  ["b", "/parcels", "Parcels"],
  ["y", "/system", "System"],
];

let waiting = 0;

export function keyPressed(event: KeyboardEvent): void {
  if ((event.ctrlKey || event.metaKey) && event.key.toLowerCase() === "k") {
    event.preventDefault();
    actions.palette = !actions.palette;
    return;
  }
  if (event.ctrlKey || event.metaKey || event.altKey || types(event)) return;
  if (Date.now() < waiting) {
    waiting = 0;
    const goal = GOTO.find(([key]) => key === event.key);
    if (goal) {
      event.preventDefault();
      router.go(goal[1]);
      return;
    }
  }
  if (event.key === "g") waiting = Date.now() + 1500;
  else if (event.key === "?") actions.help = !actions.help;
  else if (event.key === "/") {
    event.preventDefault();
    actions.palette = true;
  } else if (event.key === "t") nextTheme();
}

/** Whether the key goes into a field. Editors are in shadow trees, so the path counts. */
function types(event: KeyboardEvent): boolean {
  return event
    .composedPath()
    .some((node) => node instanceof HTMLElement && (node.isContentEditable || /^(INPUT|TEXTAREA|SELECT)$/.test(node.tagName)));
}
