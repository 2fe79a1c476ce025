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
