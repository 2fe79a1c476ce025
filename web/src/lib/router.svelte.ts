// Addresses say everything: page, name, choices. A dozen routes need no library.

export type PageName =
  | "overview" | "graph" | "queries" | "query" | "sql" | "streams" | "stream" | "decisions" | "rules" | "savings" | "plans"
  | "parcels" | "explore" | "system" | "missing";

export interface Place {
  page: PageName;
  name: string;
  search: URLSearchParams;
}

/** The place that an address names. Pure. */
export function placeOf(path: string, search: string): Place {
  const [first = "", ...rest] = path.split("/").filter(Boolean).map(decode);
  const name = rest.join("/");
  const known: Record<string, PageName> = {
    "": "overview", graph: "graph", sql: "sql", decisions: "decisions", rules: "rules", savings: "savings", plans: "plans",
    parcels: "parcels", explore: "explore", system: "system", queries: name ? "query" : "queries", streams: name ? "stream" : "streams",
  };
  return { page: known[first] ?? "missing", name, search: new URLSearchParams(search) };
}

function decode(part: string): string {
  try {
    return decodeURIComponent(part);
  } catch {
    return part;
  }
}

class Router {
  place = $state<Place>(placeOf(location.pathname, location.search));

  go(to: string, { replace = false } = {}): void {
    if (replace) history.replaceState(null, "", to);
    else history.pushState(null, "", to);
    const before = this.place;
    this.place = placeOf(location.pathname, location.search);
    if (!replace && (before.page !== this.place.page || before.name !== this.place.name)) {
      window.scrollTo(0, 0);
      document.getElementById("content")?.focus({ preventScroll: true });
    }
  }

  /** Change one choice of this page; an empty value removes it. */
  choose(key: string, value: string): void {
    const search = new URLSearchParams(location.search);
    if (value) search.set(key, value);
    else search.delete(key);
    const text = search.toString();
    this.go(location.pathname + (text ? `?${text}` : ""), { replace: true });
  }
}

export const router = new Router();
window.addEventListener("popstate", () => {
  router.place = placeOf(location.pathname, location.search);
});

/** Let links of the page change the page without loading it again. */
export function followLinks(event: MouseEvent): void {
  if (event.defaultPrevented || event.button !== 0 || event.metaKey || event.ctrlKey || event.shiftKey || event.altKey) return;
  const link = (event.target as Element | null)?.closest?.("a");
  if (!link || link.target || link.hasAttribute("download") || link.origin !== location.origin) return;
  if (link.pathname.startsWith("/api/") || link.pathname === "/plain" || link.hash) return;
  event.preventDefault();
  router.go(link.pathname + link.search);
}

export const queryLink = (name: string): string => `/queries/${encodeURIComponent(name)}`;
export const streamLink = (name: string): string => `/streams/${encodeURIComponent(name)}`;
export const graphLink = (query?: string | null, vertex?: string | null): string => {
  const search = new URLSearchParams();
  if (query) search.set("query", query);
  if (vertex) search.set("vertex", vertex);
  const text = search.toString();
  return text ? `/graph?${text}` : "/graph";
};

/** Where a definition of a kind is shown; null if nowhere. */
export function linkOf(kind: string, name: string): string | null {
  if (kind === "stream") return streamLink(name);
  if (kind === "query" || kind === "view" || kind === "event") return queryLink(name);
  return kind === "rule" ? "/rules" : kind === "table" ? "/streams" : null;
}
