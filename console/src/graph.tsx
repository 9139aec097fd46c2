// A graph, coloured by what happened, with the tokens that move on it.

import type { JSX } from "preact";
import { useEffect, useLayoutEffect, useRef, useState } from "preact/hooks";
import { isOfFunction } from "./function";
import { END, fitted, NODE_HEIGHT, NODE_WIDTH, placed, widthIn, widthOf, type Box, type Placed, type PlacedEdge } from "./layout";
import type { Graph, GraphNode, RunGraph, Step } from "./types";
import { kindWords, plain, span } from "./words";

const AFTER = "after"; // the stage of an edge from what ended before another end made a function's tasks go on
const NARROW = 420;
const TALL = 600; // beyond it the graph scrolls
const LEGIBLE = 0.62; // of its size: it scrolls rather than shrink below
const MOVE_MS = 900;
const MOVES = 24; // tokens that are drawn moving at once
const TEXT_X = 30; // where a node's texts begin
const PADDING = 10; // behind them
const GAP = 6; // between two texts on a line
const [NAME_FONT, KIND_FONT] = ["550 12.5px", "400 11px"]; // as main.css has them

/** Whether the graph is too wide for a narrow column. */
export function isWide(graph: Graph): boolean {
  return placed(graph).width > NARROW;
}

/** `isCompleted`: the run has, so that what failed in its branches was tolerated. */
export function GraphView({ graph, chosen, choose, isCompleted }: { graph: Graph | RunGraph; chosen?: string; choose?: (node: string) => void; isCompleted?: boolean }): JSX.Element {
  const drawn = placed(graph);
  const ran = "states" in graph ? graph : null;
  const moves = useMoves(drawn, ran);
  const [zoom, setZoom] = useState(0); // 0: as wide as its column, if it can be read so
  const box = useScrolled(drawn, ran, zoom);
  const [width, height] = [drawn.width + 16, drawn.height + 16];
  const zoomed = (by: number): void => setZoom(Math.min(Math.max((box.current?.querySelector("svg")?.clientWidth ?? width) / width * by, 0.1), 2));
  return (
    <div class="drawn">
      {(height > TALL || width > TALL) && (
        <div class="zoom" role="group" aria-label="Size of the graph">
          <button type="button" class="quiet" aria-label="Smaller" onClick={() => zoomed(0.75)}>
            −
          </button>
          <button type="button" class="quiet" aria-label="Larger" onClick={() => zoomed(1 / 0.75)}>
            +
          </button>
          <button type="button" class="quiet" onClick={() => setZoom(zoom ? 0 : fitting(box.current, width, height))}>
            {zoom ? "as it was" : "all of it"}
          </button>
        </div>
      )}
      <div class="graph" ref={box} tabIndex={0} role="group" aria-label="Graph">
        <svg viewBox={`-8 -8 ${width} ${height}`} style={zoom ? { width: width * zoom } : { width, minWidth: Math.min(width * LEGIBLE, width), maxWidth: "100%" }} role="img" aria-label={described(graph)}>
          <defs>
            {["far", "taken"].map((kind) => (
              <marker key={kind} id={`arrow-${kind}`} class={`arrow ${kind}`} viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" markerUnits="userSpaceOnUse" orient="auto">
                <path d="M0 0.8 L7.5 4 L0 7.2 z" />
              </marker>
            ))}
          </defs>
          {drawn.edges.map((one) => (
            <Edge key={one.edge.id} {...one} taken={takenOf(one, ran)} />
          ))}
          {drawn.nodes.map(({ node, name, at }) =>
            node ? (
              <Node key={name} node={node} at={at} state={shownState(ran, name, isCompleted)} step={ran?.steps[name]} visits={visitsOf(drawn, ran, name)} isChosen={(node.operation ?? name) === chosen} choose={choose} />
            ) : (
              <End key={name} at={at} fails={name !== END || (ran !== null && isOfFunction(ran) && ran.states[ran.start] === "failed")} />
            ),
          )}
          {moves.map((move) => (
            <circle key={move.key} class="mover" r="6" style={{ offsetPath: `path("${move.path}")` }} />
          ))}
        </svg>
      </div>
      {graph.edges.some((edge) => edge.stage === AFTER) && <p class="foot muted">Where several operations had ended before one began, the log does not tell which it awaited: from all but the last, the arrow is dotted.</p>}
    </div>
  );
}

/** How large the graph is when all of it is seen. */
function fitting(box: HTMLElement | null, width: number, height: number): number {
  return Math.min((box?.clientWidth ?? width) / width, TALL / height, 1);
}

function takenOf({ edge }: PlacedEdge, ran: RunGraph | null): number {
  return ran?.taken[edge.id] ?? 0;
}

/** How often a node was come to, where it was more than once: that is a loop, unless branches came. */
function visitsOf(drawn: Placed, ran: RunGraph | null, name: string): number {
  if (!ran || ran.steps[name]?.branches) return 0;
  const ways = drawn.edges.filter(({ edge }) => edge.to === name && !["depends_on", "", AFTER].includes(edge.stage));
  const branched = ways.some(({ edge }) => edge.foreach || ran.steps[edge.from]?.branches);
  return branched ? 0 : ways.reduce((sum, one) => sum + takenOf(one, ran), ran.start === name ? 1 : 0);
}

interface Move {
  key: string;
  path: string;
}

/** The edges along which tokens have just gone, for as long as their way is drawn. */
function useMoves(drawn: Placed, ran: RunGraph | null): Move[] {
  const [moves, setMoves] = useState<Move[]>([]);
  const before = useRef<Map<string, number> | null>(null);
  useEffect(() => {
    if (!ran) return;
    const now = new Map(drawn.edges.map((one) => [one.edge.id, takenOf(one, ran)]));
    const seen = before.current;
    before.current = now;
    const gone = seen ? drawn.edges.filter(({ edge }) => (now.get(edge.id) ?? 0) > (seen.get(edge.id) ?? 0)) : [];
    if (!gone.length) return;
    const fresh = gone.slice(0, MOVES).map(({ edge, path }) => ({ key: `${edge.id} ${now.get(edge.id) ?? 0}`, path }));
    setMoves((others) => [...others, ...fresh]);
    window.setTimeout(() => setMoves((others) => others.filter((one) => !fresh.includes(one))), MOVE_MS);
  }, [drawn, ran]);
  return moves;
}

/** Keeps the place where the run is in sight, where the graph is larger than its box. */
function useScrolled(drawn: Placed, ran: RunGraph | null, zoom: number): { current: HTMLDivElement | null } {
  const box = useRef<HTMLDivElement>(null);
  const active = ran && drawn.nodes.find(({ name }) => ["running", "waiting", "failed"].includes(ran.states[name] ?? ""));
  useLayoutEffect(() => {
    const [place, svg] = [box.current, box.current?.querySelector("svg")];
    if (!place || !svg) return;
    if (!active) return place.scrollTo((place.scrollWidth - place.clientWidth) / 2, 0);
    const scale = svg.clientWidth / (drawn.width + 16);
    place.scrollTo(active.at.x * scale - place.clientWidth / 2, active.at.y * scale - place.clientHeight / 2);
  }, [active?.name, zoom]);
  return box;
}

/** A step whose branches failed in part, as the join allows, is not what the run failed at; unless the join failed by them. */
function shownState(ran: RunGraph | null, name: string, isCompleted = false): string {
  const isLeft = ran?.edges.some((edge) => edge.from === name && ran.taken[edge.id]); // a join in branches has no step of its own
  const state = ran?.states[name] ?? (isLeft ? "passed" : "");
  const counts = ran?.steps[name]?.branches;
  const hasFailed = ran?.nodes.some((node) => node.joins && ran.states[node.name] === "failed");
  const goesOn = !hasFailed && counts?.["completed"] && ran?.edges.some((edge) => edge.from === name && edge.to && edge.to !== name && ["passed", "completed", "compensated"].includes(shownState(ran, edge.to)));
  return state === "failed" && (goesOn || (isCompleted && counts)) ? "completed" : state;
}

function described(graph: Graph | RunGraph): string {
  if (!("states" in graph)) return `Graph of ${graph.nodes.length} nodes: ${graph.nodes.map((node) => node.name).join(", ")}`;
  return `Graph: ${graph.nodes.map((node) => `${node.name} ${plain(graph.states[node.name] ?? "not reached")}`).join(", ")}`;
}

function Node(given: { node: GraphNode; at: Box; state: string; step: Step | undefined; visits: number; isChosen: boolean; choose: ((node: string) => void) | undefined }): JSX.Element {
  const { node, at, state, step, visits, isChosen, choose } = given;
  const [x, y] = [at.x - NODE_WIDTH / 2, at.y - NODE_HEIGHT / 2];
  const many = step?.branches;
  const isTolerated = Boolean(many?.["failed"]) && state === "completed";
  const took = many ? "" : durationOf(step);
  const kind = many ? counted(many) : state === "skipped" || (node.kind === "operation" && !node.wait) ? plain(state) : detail(node);
  const badge = many ? "" : visits > 1 ? `↻ ${visits}` : step && step.attempts > 1 ? `${step.attempts}×` : "";
  const told = [node.name, detail(node), state && plain(state), visits > 1 && `${visits} visits`, step && step.attempts > 1 && `${step.attempts} attempts`, many && counted(many), isTolerated && "tolerated"];
  const pick = choose && ((): void => choose(node.operation ?? node.name));
  return (
    <g class={`node is-${state || "none"} ${node.kind}${isChosen ? " is-chosen" : ""}${choose ? " can-choose" : ""}`} transform={`translate(${x} ${y})`} onClick={pick}>
      <title>{told.filter(Boolean).join("\n")}</title>
      {many && <rect class="behind" x="4" y="-4" width={NODE_WIDTH} height={NODE_HEIGHT} rx="8" />}
      <rect class="box" width={NODE_WIDTH} height={NODE_HEIGHT} rx="8" />
      {(state === "running" || state === "waiting") && <circle class="halo" cx="16" cy={NODE_HEIGHT / 2} r="5" />}
      <circle class="dot" cx="16" cy={NODE_HEIGHT / 2} r="5" />
      <text class="name" x="30" y="20">
        {fitted(node.name, NODE_WIDTH - TEXT_X - PADDING - (badge ? badgeWidth(badge) + GAP : 0), NAME_FONT)}
      </text>
      <text class="kind" x="30" y="35">
        {fitted(kind, NODE_WIDTH - TEXT_X - PADDING - (took ? widthIn(took, KIND_FONT) + GAP : 0), KIND_FONT, kind === functionOf(node))}
      </text>
      {took && (
        <text class="kind took" x={NODE_WIDTH - PADDING} y="35">
          {took}
        </text>
      )}
      {many && <Share counts={many} isTolerated={isTolerated} />}
      {badge && <Badge text={badge} />}
    </g>
  );
}

function badgeWidth(text: string): number {
  return text.length * 7 + 10;
}

function Badge({ text }: { text: string }): JSX.Element {
  const width = badgeWidth(text);
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
function Share({ counts, isTolerated }: { counts: Record<string, number>; isTolerated: boolean }): JSX.Element {
  const total = counts["total"] || 1;
  let x = 8;
  return (
    <g class="share">
      {Object.entries(counts).map(([status, count]) => {
        if (status === "total") return null;
        const width = ((NODE_WIDTH - 16) * count) / total;
        const bar = <rect key={status} class={`is-${isTolerated && status === "failed" ? "tolerated" : status}`} x={x} y={NODE_HEIGHT - 5} width={width} height="3" />;
        x += width;
        return bar;
      })}
    </g>
  );
}

function End({ at, fails }: { at: Box; fails: boolean }): JSX.Element {
  return (
    <g class={fails ? "end fails" : "end"} transform={`translate(${at.x} ${at.y})`}>
      <circle r="7" />
      <circle r="3.5" class="inner" />
      <title>{fails ? "The run fails" : "The end"}</title>
    </g>
  );
}

function Edge({ edge, label, path, at, taken }: PlacedEdge & { taken: number }): JSX.Element {
  const kind = taken ? "taken" : "far";
  const text = edge.from === edge.to && taken > 1 ? `${label} · ${taken}×` : label;
  const middle = (at?.x ?? 0) + (widthOf(text) - widthOf(label)) / 2; // a count grows to the right
  return (
    <g class={`edge ${kind} ${edge.stage}`}>
      <title>{[edge.when, edge.foreach && `for each of ${edge.foreach}`, edge.fail && `fails with ${edge.fail}`, taken > 1 && `taken ${taken} times`, edge.stage === AFTER && "ended before another did"].filter(Boolean).join("\n")}</title>
      <path d={path} marker-end={`url(#arrow-${kind})`} />
      {label && at && (
        <>
          <rect class="label" x={middle - widthOf(text) / 2} y={at.y - 8} width={widthOf(text)} height="16" rx="4" />
          <text x={middle} y={at.y + 3.5}>
            {text}
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
  if (node.wait) return `waits: ${kindWords(node.wait)}`;
  if (node.joins) return `joins ${node.joins.replaceAll("_", " ")}`;
  return functionOf(node) ?? node.kind;
}

/** What the node runs, whose last part says most. */
function functionOf(node: GraphNode): string | undefined {
  return node.run?.replace(/^python:/, "");
}

/** The branches by status, those that failed first: the rest may be cut. */
function counted(counts: Record<string, number>): string {
  const parts = Object.entries(counts).filter(([status, count]) => status !== "total" && count);
  parts.sort(([one], [other]) => Number(other === "failed") - Number(one === "failed"));
  return parts.map(([status, count]) => `${count} ${status}`).join(", ");
}
