// A graph, laid out by dagre and coloured by what happened.

import { Graph as Layout, layout } from "@dagrejs/dagre";
import type { JSX } from "preact";
import type { Graph, GraphEdge, GraphNode, RunGraph, Step } from "./types";
import { plain, span } from "./words";

const NODE_WIDTH = 188;
const NODE_HEIGHT = 46;
const NARROW = 420;
const LABEL_CHARACTERS = 30;
const CHARACTER_WIDTH = 5.9;
const END = "end";
const FAILED = " failed"; // no node has a name with a space in front

interface Box {
  x: number;
  y: number;
}

interface Placed {
  width: number;
  height: number;
  nodes: { node: GraphNode | null; name: string; at: Box }[];
  edges: { edge: GraphEdge; label: string; points: Box[]; at: Box | null }[];
}

/** Whether the graph is too wide for a narrow column. */
export function isWide(graph: Graph): boolean {
  return placed(graph).width > NARROW;
}

const known = new Map<string, Placed>();

/** The layout, made once for each shape: what happens to a run changes its colours alone. */
function placed(graph: Graph): Placed {
  const shape = JSON.stringify([graph.nodes, graph.edges]);
  const found = known.get(shape) ?? place(graph);
  known.set(shape, found);
  return found;
}

export function GraphView({ graph, chosen, choose }: { graph: Graph | RunGraph; chosen?: string; choose?: (node: string) => void }): JSX.Element {
  const { width, height, nodes, edges } = placed(graph);
  const ran = "states" in graph ? graph : null;
  return (
    <div class="graph" tabIndex={0} role="group" aria-label="Graph">
      <svg viewBox={`-8 -8 ${width + 16} ${height + 16}`} width={width + 16} height={height + 16} role="img" aria-label={described(graph)}>
        <defs>
          {["far", "taken"].map((kind) => (
            <marker key={kind} id={`arrow-${kind}`} class={`arrow ${kind}`} viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" markerUnits="userSpaceOnUse" orient="auto">
              <path d="M0 0.8 L7.5 4 L0 7.2 z" />
            </marker>
          ))}
        </defs>
        {edges.map((one) => (
          <Edge key={one.edge.id} {...one} taken={ran?.taken[one.edge.id] ?? (one.edge.stage === "depends_on" && isOver(ran?.states[one.edge.from]) ? 1 : 0)} />
        ))}
        {nodes.map(({ node, name, at }) =>
          node ? (
            <Node key={name} node={node} at={at} state={shownState(ran, name)} step={ran?.steps[name]} isChosen={name === chosen} choose={choose} />
          ) : (
            <End key={name} name={name} at={at} />
          ),
        )}
      </svg>
    </div>
  );
}

/** A step whose branches failed in part, as the join allows, is not what the run failed at. */
function shownState(ran: RunGraph | null, name: string): string {
  const state = ran?.states[name] ?? "";
  const counts = ran?.steps[name]?.branches;
  const goesOn = counts?.["completed"] && ran?.edges.some((edge) => edge.from === name && edge.to && isOver(ran.states[edge.to] === "passed" ? "completed" : ran.states[edge.to]));
  return state === "failed" && goesOn ? "completed" : state;
}

function isOver(state: string | undefined): boolean {
  return state === "completed" || state === "skipped" || state === "compensated";
}

function described(graph: Graph | RunGraph): string {
  if (!("states" in graph)) return `Graph of ${graph.nodes.length} nodes: ${graph.nodes.map((node) => node.name).join(", ")}`;
  return `Graph: ${graph.nodes.map((node) => `${node.name} ${plain(graph.states[node.name] ?? "not reached")}`).join(", ")}`;
}

function Node(given: { node: GraphNode; at: Box; state: string; step: Step | undefined; isChosen: boolean; choose: ((node: string) => void) | undefined }): JSX.Element {
  const { node, at, state, step, isChosen, choose } = given;
  const [x, y] = [at.x - NODE_WIDTH / 2, at.y - NODE_HEIGHT / 2];
  const many = step?.branches;
  const took = many ? "" : durationOf(step);
  const pick = choose && ((): void => choose(node.name));
  return (
    <g class={`node is-${state || "none"} ${node.kind}${isChosen ? " is-chosen" : ""}${choose ? " can-choose" : ""}`} transform={`translate(${x} ${y})`} onClick={pick}>
      <title>{[node.name, detail(node), state && plain(state)].filter(Boolean).join("\n")}</title>
      {many && <rect class="behind" x="4" y="-4" width={NODE_WIDTH} height={NODE_HEIGHT} rx="8" />}
      <rect class="box" width={NODE_WIDTH} height={NODE_HEIGHT} rx="8" />
      <circle class="dot" cx="16" cy={NODE_HEIGHT / 2} r="5" />
      <text class="name" x="30" y="20">
        {cut(node.name, step && step.attempts > 1 ? 18 : 24)}
      </text>
      <text class="kind" x="30" y="35">
        {cut(many ? counted(many) : detail(node), took ? 21 : 28)}
      </text>
      {took && (
        <text class="kind took" x={NODE_WIDTH - 10} y="35">
          {took}
        </text>
      )}
      {many ? <Share counts={many} /> : step && step.attempts > 1 && <Badge text={`${step.attempts}×`} />}
    </g>
  );
}

function Badge({ text }: { text: string }): JSX.Element {
  const width = text.length * 7 + 10;
  return (
    <g class="badge" transform={`translate(${NODE_WIDTH - width - 8} 7)`}>
      <rect width={width} height="16" rx="8" />
      <text x={width / 2} y="12">
        {text}
      </text>
    </g>
  );
}

/** How the branches of a step are, as a bar below its name. */
function Share({ counts }: { counts: Record<string, number> }): JSX.Element {
  const total = counts["total"] || 1;
  let x = 8;
  return (
    <g class="share">
      {Object.entries(counts).map(([status, count]) => {
        if (status === "total") return null;
        const width = ((NODE_WIDTH - 16) * count) / total;
        const bar = <rect key={status} class={`is-${status}`} x={x} y={NODE_HEIGHT - 5} width={width} height="3" />;
        x += width;
        return bar;
      })}
    </g>
  );
}

function End({ name, at }: { name: string; at: Box }): JSX.Element {
  return (
    <g class={name === END ? "end" : "end fails"} transform={`translate(${at.x} ${at.y})`}>
      <circle r="7" />
      <circle r="3.5" class="inner" />
      <title>{name === END ? "The end" : "The run fails"}</title>
    </g>
  );
}

function Edge({ edge, label, points, at, taken }: Placed["edges"][number] & { taken: number }): JSX.Element {
  const kind = taken ? "taken" : "far";
  return (
    <g class={`edge ${kind}`}>
      <title>{[edge.when, edge.foreach && `for each of ${edge.foreach}`, edge.fail && `fails with ${edge.fail}`, taken > 1 && `taken ${taken} times`].filter(Boolean).join("\n")}</title>
      <path d={curve(points)} marker-end={`url(#arrow-${kind})`} />
      {label && at && (
        <>
          <rect class="label" x={at.x - (label.length * CHARACTER_WIDTH) / 2 - 4} y={at.y - 8} width={label.length * CHARACTER_WIDTH + 8} height="16" rx="4" />
          <text x={at.x} y={at.y + 3.5}>
            {label}
          </text>
        </>
      )}
    </g>
  );
}

function durationOf(step: Step | undefined): string {
  if (!step?.started_at || !step.ended_at) return "";
  return span((Date.parse(step.ended_at) - Date.parse(step.started_at)) / 1000);
}

function detail(node: GraphNode): string {
  if (node.kind === "function") return "durable function";
  if (node.calls.length) return `runs ${node.calls.join(", ")}`;
  if (node.wait) return `waits: ${node.wait}`;
  if (node.joins) return `joins ${node.joins.replaceAll("_", " ")}`;
  return node.run?.replace(/^python:/, "") ?? node.kind;
}

function counted(counts: Record<string, number>): string {
  const parts = Object.entries(counts).filter(([status, count]) => status !== "total" && count);
  return parts.map(([status, count]) => `${count} ${status}`).join(", ");
}

function cut(text: string, most: number): string {
  return text.length > most ? text.slice(0, most - 1) + "…" : text;
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
    drawn.setEdge(edge.from, to, { width: label ? label.length * CHARACTER_WIDTH + 8 : 0, height: label ? 16 : 0, labelpos: "c" }, edge.id);
  }
  layout(drawn);
  const named = new Map(graph.nodes.map((node) => [node.name, node]));
  const size = drawn.graph() as { width?: number; height?: number };
  return {
    width: size.width ?? 0,
    height: size.height ?? 0,
    nodes: drawn.nodes().map((name) => ({ node: named.get(name) ?? null, name, at: drawn.node(name) as unknown as Box })),
    edges: edges.map((edge) => {
      const laid = drawn.edge(edge.from, edge.to ?? FAILED, edge.id) as unknown as { points: Box[]; x?: number; y?: number };
      return { edge, label: labelOf(edge), points: laid.points, at: laid.x === undefined || laid.y === undefined ? null : { x: laid.x, y: laid.y } };
    }),
  };
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
