// Where a graph's nodes and edges stand: laid out by dagre, once for each shape.

import { Graph as Layout, layout } from "@dagrejs/dagre";
import type { Graph, GraphEdge, GraphNode } from "./types";

export const NODE_WIDTH = 188;
export const NODE_HEIGHT = 46;
export const END = "end";
const FAILED = " failed"; // no node has a name with a space in front
const LABEL_CHARACTERS = 30;
const CHARACTER_WIDTH = 5.9;
const LOOP = 30; // how far an edge from a node to itself stands off it
const COUNT = " · 999×"; // that its label has room for

export interface Box {
  x: number;
  y: number;
}

export interface PlacedEdge {
  edge: GraphEdge;
  label: string;
  path: string;
  at: Box | null;
}

export interface Placed {
  width: number;
  height: number;
  nodes: { node: GraphNode | null; name: string; at: Box }[];
  edges: PlacedEdge[];
}

const known = new Map<string, Placed>();

/** The layout, made once for each shape: what happens to a run changes its colours alone. */
export function placed(graph: Graph): Placed {
  const shape = JSON.stringify([graph.nodes, graph.edges]);
  const found = known.get(shape) ?? place(graph);
  known.set(shape, found);
  return found;
}

export function cut(text: string, most: number): string {
  return text.length > most ? text.slice(0, most - 1) + "…" : text;
}

const pen = document.createElement("canvas").getContext("2d");
const widths = new Map<string, number>();

/** How wide a text is in this font of the page, such as "400 11px". */
export function widthIn(text: string, font: string): number {
  const key = `${font} ${text}`;
  const found = widths.get(key);
  if (found !== undefined || !pen) return found ?? text.length * CHARACTER_WIDTH;
  pen.font = `${font} ${getComputedStyle(document.body).fontFamily}`;
  const { width } = pen.measureText(text);
  widths.set(key, width);
  return width;
}

/** As much of a text as is not wider than this: its beginning, or its end. */
export function fitted(text: string, width: number, font: string, isEnd = false): string {
  const part = (most: number): string => (isEnd ? `…${text.slice(text.length - most + 1)}` : cut(text, most));
  if (widthIn(text, font) <= width) return text;
  let most = Math.ceil((text.length * width) / widthIn(text, font));
  while (most > 1 && widthIn(part(most), font) > width) most--;
  return part(most);
}

export function widthOf(label: string): number {
  return label.length * CHARACTER_WIDTH + 8;
}

function labelOf(edge: GraphEdge): string {
  const text = edge.foreach ? `each ${edge.foreach}` : (edge.when ?? "");
  return cut(edge.fail && !text ? edge.fail : text, LABEL_CHARACTERS);
}

function place(graph: Graph): Placed {
  const drawn = new Layout({ multigraph: true });
  drawn.setGraph({ rankdir: "TB", nodesep: 28, ranksep: 34, edgesep: 18, marginx: 4, marginy: 8 });
  drawn.setDefaultEdgeLabel(() => ({}));
  for (const node of graph.nodes) drawn.setNode(node.name, { width: NODE_WIDTH, height: NODE_HEIGHT });
  // A `to` of null fails the run, or says no more than where it stands: then it is no edge.
  const edges = graph.edges.filter((edge) => edge.to !== null || edge.fail);
  for (const edge of edges) {
    const to = edge.to ?? FAILED;
    if (!drawn.hasNode(to)) drawn.setNode(to, { width: 16, height: 16 });
    const label = labelOf(edge);
    drawn.setEdge(edge.from, to, { width: label ? widthOf(label) : 0, height: label ? 16 : 0, labelpos: "c" }, edge.id);
  }
  layout(drawn);
  const named = new Map(graph.nodes.map((node) => [node.name, node]));
  const size = drawn.graph() as { width?: number; height?: number };
  const loops = edges.filter((edge) => edge.from === edge.to);
  const ends = loops.map((edge) => endOf(drawn.node(edge.from) as unknown as Box) + widthOf(labelOf(edge) + COUNT));
  return {
    width: Math.max(size.width ?? 0, ...ends),
    height: size.height ?? 0,
    nodes: drawn.nodes().map((name) => ({ node: named.get(name) ?? null, name, at: drawn.node(name) as unknown as Box })),
    edges: edges.map((edge) => {
      const laid = drawn.edge(edge.from, edge.to ?? FAILED, edge.id) as unknown as { points: Box[]; x?: number; y?: number };
      const label = labelOf(edge);
      if (edge.from === edge.to) return { edge, label, ...looped(drawn.node(edge.from) as unknown as Box, label) };
      return { edge, label, path: curve(laid.points), at: laid.x === undefined || laid.y === undefined ? null : { x: laid.x, y: laid.y } };
    }),
  };
}

/** Where the label of an edge from a node to itself begins. */
function endOf(node: Box): number {
  return node.x + NODE_WIDTH / 2 + LOOP;
}

/** An edge from a node to itself, on its right, where dagre leaves room for it. */
function looped(node: Box, label: string): { path: string; at: Box } {
  const right = node.x + NODE_WIDTH / 2;
  const path = `M${right} ${node.y - 9} C${right + LOOP} ${node.y - 30}, ${right + LOOP} ${node.y + 30}, ${right} ${node.y + 9}`;
  return { path, at: { x: endOf(node) + widthOf(label) / 2, y: node.y } };
}

/** A smooth line through the points, straight at both ends. */
function curve(points: Box[]): string {
  const [first, ...rest] = points;
  if (!first) return "";
  let path = `M${first.x} ${first.y}`;
  for (let at = 0; at < rest.length - 1; at++) {
    const [one, next] = [rest[at] as Box, rest[at + 1] as Box];
    const isLast = at === rest.length - 2;
    const end = isLast ? next : { x: (one.x + next.x) / 2, y: (one.y + next.y) / 2 };
    path += ` Q${one.x} ${one.y} ${end.x} ${end.y}`;
  }
  return rest.length === 1 ? `${path} L${(rest[0] as Box).x} ${(rest[0] as Box).y}` : path;
}
