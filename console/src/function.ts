// A durable function as it was after an earlier record: the API's drawing of its log, with what had begun by then.

import { stateAfter, summed, type Point, type Seen } from "./replay";
import type { Entry, GraphNode, Moment, RunGraph, Step } from "./types";
import { withOwnWaits } from "./until";

/** The run's own node is the function; the others are what its log has. */
export function isOfFunction(graph: RunGraph): boolean {
  return graph.nodes[0]?.kind === "function";
}

/** How many of the operations that are drawn have ended; of a long log, the newest are drawn. */
export function operationsOf(graph: RunGraph): string {
  const drawn = graph.nodes.filter((node) => node.kind !== "function");
  const ended = drawn.filter(({ name }) => !["running", "waiting"].includes(graph.states[name] ?? "running"));
  const isCut = graph.edges.some((edge) => edge.from === graph.start && edge.when); // it says how many came before
  return drawn.length ? `${ended.length} of ${isCut ? "the newest " : ""}${drawn.length} operations` : "";
}

/** One use of a name: an operation of the log, of the run's own token or of a branch. */
interface Use {
  place: number[]; // in the log: the fork's slot and the branch for each fork on the way, then its own slot
  seen: (Seen & { at: number })[]; // after which records it was how
}

/** The drawing without what the log says of later records. */
export function functionThen(graph: RunGraph, moment: Moment, points: Point[], at: number): RunGraph {
  const uses = usesOf(points);
  const steps: Record<string, Step> = {};
  for (const [name, ofNode] of usesByNode(graph, uses)) {
    const seen = ofNode.flatMap((use) => use.seen.findLast((one) => one.at <= at) ?? []);
    const step = ofNode.length ? seen.length > 0 && summed(worst(seen), seen) : begun(graph.steps[name], points[at]);
    if (step) steps[name] = step;
  }
  const states = { ...Object.fromEntries(Object.entries(steps).map(([name, step]) => [name, step.status])), [graph.start]: moment.states[graph.start] ?? "running" };
  const isThere = (name: string | null): boolean => name !== null && name in states;
  const edges = graph.edges.filter((edge) => isThere(edge.from) && isThere(edge.to));
  return { ...graph, nodes: graph.nodes.filter(({ name }) => isThere(name)), edges, states, steps, taken: Object.fromEntries(edges.map((edge) => [edge.id, 1])) };
}

function usesOf(points: Point[]): Map<string, Use[]> {
  const found = new Map<string, Use[]>();
  const open = new Map<string, Use>();
  const places = new Map(points.flatMap(({ entries }, at) => entries.map((entry) => [entry.id, at] as const)));
  for (const entry of withOwnWaits(points.flatMap((point) => point.entries))) {
    const at = places.get(entry.id) ?? 0;
    const { token, slot } = points[at] ?? { token: "0", slot: 0 };
    if (!entry.step) continue;
    const key = `${token} ${entry.step}`;
    let use = open.get(key);
    const state = stateAfter(entry.type) || (use?.seen.every((one) => one.state === "waiting") && afterWait(entry));
    if (!state) continue;
    const last = use?.seen.at(-1);
    const isEnd = use?.seen[0]?.state === "waiting" && /^step\.(completed|failed)$/.test(entry.type); // of a wait, told once more
    const goesOn = (entry.attempt ?? 1) > 1 || /retry|compensated/.test(entry.type) || isEnd;
    if (!use || (last?.to && !goesOn)) {
      use = { place: [...(token.match(/\d+/g) ?? []).slice(1).map(Number), slot], seen: [] };
      open.set(key, use);
      found.set(entry.step, [...(found.get(entry.step) ?? []), use]);
    }
    const isOpen = state === "running" || state === "waiting";
    use.seen.push({ at, state, from: use.seen[0]?.from ?? entry.at, to: isOpen ? null : entry.at, attempts: entry.attempt ?? last?.attempts ?? 1 });
  }
  for (const uses of found.values()) uses.sort((one, other) => compared(one.place, other.place));
  return found;
}

/** A wait of the function's own is an operation: what reaches it ends it. One that a step asked for ends with the step. */
function afterWait({ type, data }: Entry): string {
  if (type === "timer.fired") return (data as { outcome?: string } | null)?.outcome === "timeout" ? "failed" : "completed";
  if (/^(approval\.rejected|child\.(failed|refused)|lock\.refused)$/.test(type)) return "failed";
  return /^(sleep\.completed|(approval|event)\.received|children\.completed|lock\.granted)$/.test(type) ? "completed" : "";
}

function compared(one: number[], other: number[]): number {
  const at = one.findIndex((part, index) => part !== other[index]);
  return at < 0 ? one.length - other.length : (one[at] ?? 0) - (other[at] ?? -1);
}

/** The nodes stand in the log's order, and so do the uses of each name; of a long log, the newest are drawn. */
function usesByNode(graph: RunGraph, uses: Map<string, Use[]>): [string, Use[]][] {
  const widthOf = ({ name }: GraphNode): number => graph.steps[name]?.branches?.["total"] ?? 1;
  const left = new Map<string, Use[]>();
  const nodes = graph.nodes.filter((node) => node.name !== graph.start);
  for (const node of nodes) {
    const name = node.operation ?? node.name;
    const drawn = nodes.filter((one) => (one.operation ?? one.name) === name).reduce((sum, one) => sum + widthOf(one), 0);
    const all = uses.get(name) ?? [];
    if (!left.has(name)) left.set(name, all.slice(Math.max(all.length - drawn, 0)));
  }
  return nodes.map((node) => [node.name, (left.get(node.operation ?? node.name) ?? []).splice(0, widthOf(node))]);
}

const WORST = ["running", "waiting", "failed", "compensated", "completed", "skipped", "passed"];

function worst(seen: Seen[]): string {
  return WORST.find((state) => seen.some((one) => one.state === state)) ?? "";
}

/** What the history does not tell, of a fork too wide for it: it had begun and ended by the record's time, or not. */
function begun(step: Step | undefined, point: Point | undefined): Step | null {
  const now = point?.entries.at(-1)?.at ?? "";
  if (!step?.started_at || !now || step.started_at > now) return null;
  return step.ended_at && step.ended_at <= now ? step : { ...step, status: "running", ended_at: null, branches: null };
}
