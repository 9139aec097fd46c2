// The run after any record of its log: a slider, what that record changed, and the graph as it was then.

import type { JSX } from "preact";
import { useEffect, useState } from "preact/hooks";
import { Act } from "./act";
import { forking, type Action } from "./actions";
import { get, offered } from "./api";
import { functionGraph, isOfFunction } from "./function";
import { GraphView } from "./graph";
import type { Change, Entry, Json, Moment, Run, RunGraph } from "./types";
import { Card, Data, Status } from "./ui";
import { plain, when } from "./words";

const CALM_MS = 120; // the slider rests so long before the server is asked

export function Moments({ run, last, entries, graph }: { run: Run; last: number; entries: Entry[]; graph: RunGraph | null }): JSX.Element {
  const id = run.run_id;
  const [slot, setSlot] = useState<number | null>(null); // null: closed
  const moment = useMoment(id, slot);
  const at = slot ?? last;
  const told = entries.filter((entry) => entry.token === "0" && entry.id.startsWith(`0@${at}.`));
  const move = (to: number): void => setSlot(Math.min(Math.max(to, 0), last));
  const open = (
    <button type="button" class="quiet" aria-expanded={slot !== null} onClick={() => setSlot(slot === null ? last : null)}>
      {slot === null ? "look back" : "close"}
    </button>
  );
  return (
    <Card title="State at any point" class="moments" aside={open}>
      {slot !== null && (
        <>
          <div class="slide">
            <button type="button" aria-label="One record back" disabled={at === 0} onClick={() => move(at - 1)}>
              ‹
            </button>
            <input type="range" min="0" max={last} value={at} aria-label="Record" aria-valuetext={`record ${at} of ${last}: ${told.map((one) => one.type).join(", ")}`} onInput={(event) => move(Number(event.currentTarget.value))} />
            <button type="button" aria-label="One record on" disabled={at === last} onClick={() => move(at + 1)}>
              ›
            </button>
            <output>
              {at} of {last}
            </output>
          </div>
          {moment && <Shown moment={moment} told={told} graph={graph} />}
          {moment && <Fork run={run} slot={at} isFunction={graph !== null && isOfFunction(graph)} />}
        </>
      )}
    </Card>
  );
}

/** Goes on from here in a new run, where the API has that. */
function Fork({ run, slot, isFunction }: { run: Run; slot: number; isFunction: boolean }): JSX.Element | null {
  const [isOffered, setOffered] = useState(false);
  const [action, setAction] = useState<Action | null>(null);
  useEffect(() => void offered("POST", "/runs/{run_id}/fork").then(setOffered), []);
  if (!isOffered || run.status === "compensated") return null;
  const open = async (): Promise<void> => {
    const before = slot > 0 ? (await get<Moment>(`/runs/${encodeURIComponent(run.run_id)}/state?at=${slot - 1}`)).state : {};
    setAction(forking(run, slot, before as Record<string, Json>, isFunction));
  };
  return (
    <p>
      <button type="button" onClick={() => void open().catch(() => undefined) /* the page tells that the server is gone */}>
        Fork from here with an edited value
      </button>
      {action && <Act action={action} onClose={() => setAction(null)} />}
    </p>
  );
}

function Shown({ moment, told, graph }: { moment: Moment; told: Entry[]; graph: RunGraph | null }): JSX.Element {
  const then = graph && { ...graph, states: moment.states, steps: moment.steps, taken: moment.taken };
  return (
    <div class="moment">
      <p>
        <Status value={moment.status} /> {moment.at && when(moment.at)} <span class="muted">{told.map((one) => [one.type, one.step].filter(Boolean).join(" ")).join(", ")}</span>
      </p>
      <div class="then">
        <div>
          <h3>What this record changed</h3>
          {moment.changes.length ? <ul class="changes">{moment.changes.map((change) => <Changed key={change.path} change={change} />)}</ul> : <p class="muted">Nothing that is shown: the run moved.</p>}
          <h3>State after it</h3>
          <Data value={moment.state} open={1} />
        </div>
        {then && <GraphView graph={isOfFunction(then) ? functionGraph(then) : then} />}
      </div>
    </div>
  );
}

function Changed({ change }: { change: Change }): JSX.Element {
  return (
    <li class={`is-${change.op}`}>
      <code>{change.path.slice(1).split("/").map((part) => part.replaceAll("~1", "/").replaceAll("~0", "~")).join(" › ")}</code>
      <span>
        {change.op !== "add" && <del>{short(change.before)}</del>} {change.op !== "remove" && <ins>{short(change.value)}</ins>}
      </span>
    </li>
  );
}

function short(value: Change["value"]): string {
  const text = typeof value === "string" ? plain(value) : JSON.stringify(value);
  return text.length > 300 ? text.slice(0, 300) + "…" : text;
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
