// A durable function as a graph at an earlier moment, which the API does not draw: its operations side by side where they overlapped.

import type { GraphEdge, GraphNode, RunGraph, Step } from "./types";

const MOST = 60; // operations that are drawn: the last ones

/** The run's own node is the function; the others are what its log has. */
export function isOfFunction(graph: RunGraph): boolean {
  return graph.nodes[0]?.kind === "function";
}

/** One row for each set of operations that began before the first of them ended; an edge from each row to the next. */
export function functionGraph(graph: RunGraph): RunGraph {
  const all = Object.entries(graph.steps).filter(([name]) => name !== graph.start);
  const began = all.filter(([, step]) => step.started_at).sort(([, one], [, other]) => Date.parse(one.started_at ?? "") - Date.parse(other.started_at ?? ""));
  const rows = [[graph.start], ...rowsOf(began.slice(-MOST))];
  const own = graph.nodes.find((node) => node.name === graph.start);
  const edges: GraphEdge[] = [];
  rows.slice(1).forEach((row, at) => {
    for (const to of row) for (const from of rows[at] ?? []) edges.push({ id: `${from} ${to}`, from, to, stage: "", when: null, foreach: null, fail: null });
  });
  return {
    ...graph,
    nodes: [...(own ? [own] : []), ...began.slice(-MOST).map(([name]) => operation(name))],
    edges,
    taken: Object.fromEntries(edges.map((edge) => [edge.id, 1])),
  };
}

function rowsOf(began: [string, Step][]): string[][] {
  const rows: string[][] = [];
  let firstEnd = -1;
  for (const [name, step] of began) {
    const from = Date.parse(step.started_at ?? "");
    const to = step.ended_at ? Date.parse(step.ended_at) : Number.MAX_SAFE_INTEGER;
    const row = rows.at(-1);
    if (row && from < firstEnd) {
      row.push(name);
      firstEnd = Math.min(firstEnd, to);
    } else {
      rows.push([name]);
      firstEnd = to;
    }
  }
  return rows;
}

function operation(name: string): GraphNode {
  return { name, kind: "operation", operation: name, run: null, wait: null, calls: [], compensate: null, terminal: false, forks_to: null, joins: null };
}
