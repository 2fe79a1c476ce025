// Where the nodes and arcs of a picture go. The work is done in a Web Worker, so that the page does not stop for it.

export interface Box {
  id: string;
  width: number;
  height: number;
  group?: string;
}
export interface Edge {
  from: string;
  to: string;
  label: number; // width of its label, 0 if there is none
}
export interface Placed {
  x: number;
  y: number;
  width: number;
  height: number;
}
export interface Picture {
  width: number;
  height: number;
  boxes: Record<string, Placed>;
  groups: Record<string, Placed>;
  paths: { d: string; x: number; y: number }[];
}
export type Direction = "LR" | "TB";
export interface Job {
  number: number;
  boxes: Box[];
  edges: Edge[];
  direction: Direction;
}

/** Between boxes of a rank, and between ranks. */
export const GAP = 26;
export const RANK_GAP = 46;

/** From left to right if that is readable in the room, or at least not wider than from top to bottom. Pure. */
export function directionOf(boxes: Box[], edges: Edge[], room: number, readable: number): Direction {
  if (room < 620) return "TB";
  const ranks = ranksOf(boxes, edges);
  const labels = edges.some((edge) => edge.label) ? Math.max(...edges.map((edge) => edge.label)) : 0;
  const across = ranks.reduce((sum, rank) => sum + Math.max(...rank.map((box) => box.width)), (ranks.length - 1) * (RANK_GAP + labels));
  const down = Math.max(0, ...ranks.map((rank) => rank.reduce((sum, box) => sum + box.width + GAP, -GAP)));
  return room / across < readable && down < across ? "TB" : "LR";
}

/** The boxes by their longest way from a beginning. */
function ranksOf(boxes: Box[], edges: Edge[]): Box[][] {
  const inputs = new Map<string, string[]>();
  for (const edge of edges) inputs.set(edge.to, [...(inputs.get(edge.to) ?? []), edge.from]);
  const known = new Map<string, number>();
  const rank = (id: string): number => {
    const found = known.get(id);
    if (found !== undefined) return found;
    known.set(id, 0); // should there be a cycle
    const own = Math.max(-1, ...(inputs.get(id) ?? []).map(rank)) + 1;
    known.set(id, own);
    return own;
  };
  const ranks: Box[][] = [];
  for (const box of boxes) (ranks[rank(box.id)] ??= []).push(box);
  return ranks.filter(Boolean);
}

let worker: Worker | null = null;
let next = 1;
const waiting = new Map<number, (picture: Picture) => void>();

export function layout(boxes: Box[], edges: Edge[], direction: Direction): Promise<Picture> {
  if (worker === null) {
    worker = new Worker(new URL("./layout.worker.ts", import.meta.url), { type: "module" });
    worker.onmessage = (event: MessageEvent<{ number: number; picture: Picture }>) => {
      waiting.get(event.data.number)?.(event.data.picture);
      waiting.delete(event.data.number);
    };
  }
  const job: Job = { number: next++, boxes, edges, direction };
  return new Promise((resolve) => {
    waiting.set(job.number, resolve);
    worker?.postMessage(job);
  });
}
