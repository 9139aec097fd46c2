// The run after any record of its log: a slider, what that record changed, and the graph as it was then.

import type { JSX } from "preact";
import { useEffect, useMemo, useState } from "preact/hooks";
import { Act } from "./act";
import { forking, type Action } from "./actions";
import { get, offered } from "./api";
import { Data } from "./data";
import { isOfFunction } from "./function";
import { GraphView } from "./graph";
import { graphThen, pointsOf, stateAfter, type Point } from "./replay";
import type { Change, Entry, Json, Moment, Run, RunGraph } from "./types";
import { Card, Status } from "./ui";
import { brief, largeOf, plain, unquoted, when } from "./words";

const SHOWN = 300; // characters of a value that a record changed
const CALM_MS = 120; // the slider rests so long before the server is asked

interface Given {
  run: Run;
  last: number; // slot of the run's own token
  entries: Entry[];
  hasMore: boolean; // entries that were not read
  graph: RunGraph | null;
}

export function Moments({ run, last, entries, hasMore, graph }: Given): JSX.Element {
  const [chosen, choose] = useState<number | null>(null); // null: closed
  const [action, setAction] = useState<Action | null>(null); // it stays while the run goes on to another record
  const points = useMemo(() => (chosen === null ? [] : pointsOf(entries, last, hasMore)), [chosen === null, entries, last, hasMore]);
  const end = points.length - 1;
  const at = Math.min(chosen ?? 0, Math.max(end, 0));
  const point = points[at] ?? null;
  const own = points.slice(0, at + 1).findLast((one) => one.token === "0")?.slot ?? 0;
  const moment = useMoment(run.run_id, point && own);
  const move = (to: number): void => choose(Math.min(Math.max(to, 0), end));
  const open = (
    <button type="button" class="quiet" aria-expanded={chosen !== null} onClick={() => choose(chosen === null ? Number.MAX_SAFE_INTEGER : null)}>
      {chosen === null ? "look back" : "close"}
    </button>
  );
  return (
    <Card title="State at any point" class="moments" aside={open}>
      {point && (
        <>
          <div class="slide">
            <button type="button" aria-label="One record back" disabled={at === 0} onClick={() => move(at - 1)}>
              ‹
            </button>
            <input type="range" min="0" max={end} value={at} aria-label="Record" aria-valuetext={`record ${at} of ${end}: ${point.entries.map((one) => one.type).join(", ")}`} onInput={(event) => move(Number(event.currentTarget.value))} />
            <button type="button" aria-label="One record on" disabled={at === end} onClick={() => move(at + 1)}>
              ›
            </button>
            <output>
              {at} of {end}
            </output>
          </div>
          {moment && <Shown moment={moment} isBusy={moment.slot !== own} point={point} then={graph && graphThen(graph, moment, points, at)} />}
          {moment && point.token === "0" && <Fork run={run} slot={point.slot} isFunction={graph !== null && isOfFunction(graph)} ask={setAction} />}
        </>
      )}
      {action && <Act action={action} onClose={() => setAction(null)} />}
    </Card>
  );
}

/** Goes on from here in a new run, where the API has that. */
function Fork({ run, slot, isFunction, ask }: { run: Run; slot: number; isFunction: boolean; ask: (action: Action) => void }): JSX.Element | null {
  const [isOffered, setOffered] = useState(false);
  useEffect(() => void offered("POST", "/runs/{run_id}/fork").then(setOffered), []);
  if (!isOffered || run.status === "compensated") return null;
  const open = async (): Promise<void> => {
    const before = slot > 0 ? (await get<Moment>(`/runs/${encodeURIComponent(run.run_id)}/state?at=${slot - 1}`)).state : {};
    ask(forking(run, slot, before as Record<string, Json>, isFunction));
  };
  return (
    <p>
      <button type="button" onClick={() => void open().catch(() => undefined) /* the page tells that the server is gone */}>
        Fork from here with an edited value
      </button>
    </p>
  );
}

function Shown({ moment, isBusy, point, then }: { moment: Moment; isBusy: boolean; point: Point; then: RunGraph | null }): JSX.Element {
  const isOwn = point.token === "0";
  const changes = isOwn ? moment.changes : changesOf(point);
  const at = point.entries.at(-1)?.at ?? moment.at;
  return (
    <div class="moment" aria-busy={isBusy}>
      <p>
        {isOwn ? <Status value={moment.status} /> : <b>branch {point.token}</b>} {at && when(at)} <span class="muted">{point.entries.map((one) => [one.type, one.step].filter(Boolean).join(" ")).join(", ")}</span>
      </p>
      <div class="then">
        <div>
          <h3>What this record changed</h3>
          {changes.length ? <ul class="changes" tabIndex={0} aria-label="What this record changed">{changes.map((change) => <Changed key={change.path} change={change} />)}</ul> : <p class="muted">Nothing that is shown: the run moved.</p>}
          <h3>{isOwn ? "State after it" : "State of the run, which waits for its branches"}</h3>
          <Data value={moment.state} open={1} />
        </div>
        {then && <GraphView graph={then} />}
      </div>
    </div>
  );
}

/** What a record of a branch changed, as its history tells: the state of a step, its result or its error. */
function changesOf(point: Point): Change[] {
  const all = point.entries.flatMap((entry): Change[] => {
    const [state, data] = [stateAfter(entry.type), (entry.data ?? {}) as Record<string, Json>];
    if (!state || !entry.step) return [];
    const value = "output" in data ? data["output"] : "error" in data ? data["error"] : undefined;
    const path = `/${entry.step.replaceAll("~", "~0").replaceAll("/", "~1")}`;
    const told: Change = { op: "add", path: `${path}/status`, before: null, value: plain(state) };
    return value === undefined ? [told] : [told, { op: "add", path: `${path}/${"output" in data ? "output" : "error"}`, before: null, value }];
  });
  return [...new Map(all.map((change) => [change.path, change])).values()]; // a step that began and ended in it has ended
}

function Changed({ change }: { change: Change }): JSX.Element {
  return (
    <li class={`is-${change.op}`}>
      <code>{change.path.slice(1).split("/").map((part) => part.replaceAll("~1", "/").replaceAll("~0", "~")).join(" › ")}</code>
      <span>
        {change.op !== "add" && <del>{short(change, change.before)}</del>} {change.op !== "remove" && <ins>{short(change, change.value)}</ins>}
      </span>
    </li>
  );
}

const STATUS = /^\/(steps\/[^/]+\/)?(status|phase)$/; // paths of words of Stepwell; other texts are the user's

function short({ path }: Change, value: Json): JSX.Element | string {
  if (largeOf(value)) return <Data value={value} />;
  if (typeof value !== "string") return brief(value, SHOWN);
  const text = STATUS.test(path) ? plain(value) : unquoted(value);
  return text.length > SHOWN ? text.slice(0, SHOWN) + "…" : text;
}

/** The state after a record; the last one that was read stays until the next is there. */
function useMoment(id: string, slot: number | null): Moment | null {
  const [moment, set] = useState<Moment | null>(null);
  useEffect(() => {
    if (slot === null) return undefined;
    let stopped = false;
    const read = (): void => void get<Moment>(`/runs/${encodeURIComponent(id)}/state?at=${slot}`).then((found) => !stopped && set(found), () => undefined); // the run itself tells of errors
    const timer = window.setTimeout(read, CALM_MS);
    return () => {
      stopped = true;
      window.clearTimeout(timer);
    };
  }, [id, slot]);
  return moment;
}
