import { Graph, layout } from "@dagrejs/dagre";
import { type Direction, GAP, type Job, type Picture, type Placed, RANK_GAP } from "./layout";

interface Point {
  x: number;
  y: number;
}
const PAD = 16;
const LARGE = 80; // from here on the better ranks of network simplex take seconds

self.onmessage = (event: MessageEvent<Job>) => {
  self.postMessage({ number: event.data.number, picture: draw(event.data) });
};

function draw({ boxes, edges, direction }: Job): Picture {
  const graph = new Graph({ multigraph: true, compound: true });
  const ranker = boxes.length > LARGE ? "tight-tree" : "network-simplex";
  graph.setGraph({ rankdir: direction, nodesep: GAP, ranksep: RANK_GAP, edgesep: 14, marginx: PAD, marginy: PAD, ranker });
  graph.setDefaultEdgeLabel(() => ({}));
  const groups = [...new Set(boxes.flatMap((box) => (box.group ? [box.group] : [])))];
  for (const box of boxes) graph.setNode(box.id, { width: box.width, height: box.height });
  edges.forEach((edge, number) => {
    const size = { width: edge.label, height: edge.label ? 14 : 0, labelpos: "c" };
    graph.setEdge({ v: edge.from, w: edge.to, name: String(number) }, size);
  });
  layout(graph);
  const placed: Record<string, Placed> = {};
  for (const box of boxes) {
    const node = graph.node(box.id) as Placed;
    placed[box.id] = { x: node.x - box.width / 2, y: node.y - box.height / 2, width: box.width, height: box.height };
  }
  const paths = edges.map((edge, number) => {
    const { points, x, y } = graph.edge({ v: edge.from, w: edge.to, name: String(number) }) as { points: Point[]; x?: number; y?: number };
    const middle = points[Math.floor(points.length / 2)] as Point;
    return { d: curve(points, direction), x: x ?? middle.x, y: y ?? middle.y };
  });
  const { width = 0, height = 0 } = graph.graph() as { width?: number; height?: number };
  const regions: Record<string, Placed> = {};
  for (const group of groups) regions[group] = around(boxes.filter((box) => box.group === group).map((box) => placed[box.id] as Placed));
  return { width, height, boxes: placed, groups: regions, paths };
}

function around(places: Placed[]): Placed {
  const x = Math.min(...places.map((place) => place.x)) - 12;
  const y = Math.min(...places.map((place) => place.y)) - 12;
  const right = Math.max(...places.map((place) => place.x + place.width)) + 12;
  const bottom = Math.max(...places.map((place) => place.y + place.height)) + 12;
  return { x, y, width: right - x, height: bottom - y };
}

/** A smooth line through points, with tangents along the direction of flow. */
function curve(points: Point[], direction: Direction): string {
  const [first, ...rest] = points as [Point, ...Point[]];
  let path = `M${at(first)}`;
  let from = first;
  for (const to of rest) {
    const [dx, dy] = direction === "LR" ? [(to.x - from.x) / 2, 0] : [0, (to.y - from.y) / 2];
    path += `C${at({ x: from.x + dx, y: from.y + dy })} ${at({ x: to.x - dx, y: to.y - dy })} ${at(to)}`;
    from = to;
  }
  return path;
}

const at = (point: Point): string => `${point.x.toFixed(1)} ${point.y.toFixed(1)}`;
