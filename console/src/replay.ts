// A run's log in the order of time, its branches among it, and what the branches had done by any record of it.

import { functionThen, isOfFunction } from "./function";
import type { Entry, Moment, RunGraph, Step } from "./types";

/** A record: of the run's own token, or of a branch. */
export interface Point {
  token: string;
  slot: number;
  entries: Entry[];
}

/** All records that can be looked at; of a wide fork the history tells nothing, so there they are the run's own. */
export function pointsOf(entries: Entry[], last: number, hasMore: boolean): Point[] {
  const found: Point[] = [];
  const known = new Map<string, Point>();
  for (const entry of entries) {
    const [, token = "0", slot = "-1"] = /^(.*)@(-?\d+)\./.exec(entry.id) ?? [];
    if (Number(slot) < 0 || (hasMore && token !== "0")) continue;
    const point = known.get(`${token}@${slot}`) ?? { token, slot: Number(slot), entries: [] };
    if (!point.entries.length) found.push(point);
    point.entries.push(entry);
    known.set(`${token}@${slot}`, point);
  }
  for (let slot = 0; slot <= last; slot++) {
    if (known.has(`0@${slot}`)) continue; // a record that the history says nothing of, or that was not read yet
    const after = found.findIndex((point) => point.token === "0" && point.slot > slot);
    found.splice(after < 0 ? found.length : after, 0, { token: "0", slot, entries: [] });
  }
  return found;
}

const STATES: [RegExp, string][] = [
  [/^step\.(started|retry_scheduled)$/, "running"],
  [/^(step|until)\.completed$/, "completed"],
  [/^step\.failed$/, "failed"],
  [/^step\.skipped$/, "skipped"],
  [/^step\.compensated$/, "compensated"],
  [/\.(requested|awaited)$|^sleep\.started$|^children\.started$/, "waiting"],
  [/^(node\.passed|join\.fired)$/, "passed"],
];
const WORST = ["running", "waiting", "failed", "compensated", "completed", "skipped", "passed"];

export function stateAfter(type: string): string {
  return STATES.find(([fits]) => fits.test(type))?.[1] ?? "";
}

/** How a token was at a step. */
export interface Seen {
  state: string;
  from: string;
  to: string | null;
  attempts: number;
}

/** The graph as it was after the record `at`; `moment` has the run's own token, the points the branches. */
export function graphThen(graph: RunGraph, moment: Moment, points: Point[], at: number): RunGraph {
  if (at >= points.length - 1) return graph;
  if (isOfFunction(graph)) return functionThen(graph, moment, points, at);
  const taken = { ...moment.taken };
  const nodes = new Map<string, Map<string, Seen>>();
  for (const point of points.slice(0, at + 1)) {
    if (point.token === "0") continue;
    for (const entry of point.entries) {
      for (const rule of (entry.data as { rules?: string[] } | null)?.rules ?? []) taken[rule] = (taken[rule] ?? 0) + 1;
      const state = stateAfter(entry.type);
      if (!state || !entry.step) continue;
      const tokens = nodes.get(entry.step) ?? new Map();
      const before = tokens.get(point.token);
      const isOpen = state === "running" || state === "waiting";
      tokens.set(point.token, { state, from: before?.from ?? entry.at, to: isOpen ? null : entry.at, attempts: entry.attempt ?? before?.attempts ?? 1 });
      nodes.set(entry.step, tokens);
    }
  }
  const inBranches = new Set(points.flatMap((point) => (point.token === "0" ? [] : point.entries.map((entry) => entry.step ?? ""))));
  const isOwn = ([name]: [string, unknown]): boolean => !inBranches.has(name) && !isDag(graph); // of branches the server tells how they are today
  const states = Object.fromEntries(Object.entries(moment.states).filter(isOwn));
  const steps = Object.fromEntries(Object.entries(moment.steps).filter(isOwn));
  for (const [name, tokens] of nodes) {
    const all = [...tokens.values()];
    const state = WORST.find((one) => all.some((token) => token.state === one)) ?? "";
    states[name] = state;
    if (state !== "passed") steps[name] = summed(state, all);
  }
  for (const edge of graph.edges) if (edge.stage === "depends_on" && isDone(states[edge.from])) taken[edge.id] = 1;
  return { ...graph, states, steps, taken };
}

function isDone(state: string | undefined): boolean {
  return state === "completed" || state === "skipped" || state === "compensated";
}

function isDag(graph: RunGraph): boolean {
  return graph.edges.some((edge) => edge.stage === "depends_on");
}

export function summed(state: string, all: Seen[]): Step {
  const counts: Record<string, number> = { total: all.length };
  for (const one of all) counts[one.state] = (counts[one.state] ?? 0) + 1;
  const isOpen = all.some((one) => !one.to);
  return {
    status: state,
    output: null,
    error: null,
    attempts: Math.max(...all.map((one) => one.attempts)),
    started_at: all.map((one) => one.from).sort()[0] ?? null,
    ended_at: isOpen ? null : (all.map((one) => one.to ?? "").sort().at(-1) ?? null),
    branches: all.length > 1 ? counts : null,
  };
}
