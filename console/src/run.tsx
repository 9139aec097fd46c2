// One run: a sentence on top, its graph, when what happened, its data, and what can be done.

import type { JSX } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import { Act } from "./act";
import { actionsOf, type Action } from "./actions";
import { query, useLive } from "./api";
import { answersOf } from "./answers";
import { Branches } from "./branches";
import { Data } from "./data";
import { useFresh } from "./fresh";
import { GraphView, isWide } from "./graph";
import { isOfFunction, operationsOf } from "./function";
import { Gathered } from "./gathering";
import { HistoryList, takenBy, useHistory } from "./history";
import { Moments } from "./moments";
import { pauseOf, Pauses } from "./pauses";
import { LastError, Logs } from "./said";
import { Timeline } from "./timeline";
import type { Entry, Explanation, Json, Page, Run, RunGraph, RunSummary, Stats, WorkflowPause } from "./types";
import { Brief, Card, Copy, Empty, Explained, Failure, Status, Time, useKeys } from "./ui";
import { counted, forPeople, numberedVersion, priced, shortId, span, TERMINAL, when, withoutLinks, zoned } from "./words";

const KIN = "10"; // runs made of this one that are listed
const KEYS: Record<string, string> = { Reject: "r", "Send event": "e" };
const PRIMARY = new Set(["Redrive", "Unpause"]);

export function RunPage({ id, asked, stats, recount }: { id: string; asked: Record<string, string>; stats: Stats | null; recount: () => void }): JSX.Element {
  const path = `/runs/${encodeURIComponent(id)}`;
  const [isOver, setOver] = useState(false);
  const live = useLive<Run>(path, { isOver, isFed: true });
  const shown = useRef<Run | null>(null);
  const [isHeld, hold] = useState(false); // what is shown outlives the run while the dialog that deletes it is open
  if (live.value) shown.current = live.value;
  const run = isHeld ? shown.current : live.value;
  const { step = "", token = "", fork = "" } = asked;
  useEffect(() => setOver(run !== null && TERMINAL.has(run.status)), [run]);
  const whole = useHistory(id, "", live.at);
  const graph = useFresh<RunGraph>(`${path}/graph?format=json`, live.at);
  const isFunction = graph !== null && isOfFunction(graph);
  const pause = run && !isOver ? pauseOf(stats, run.workflow) : null;
  const why = useFresh<Explanation>(`${path}/explain`, live.at, { also: pause?.since ?? "" });
  const go = (more: Record<string, string>): void => void (location.hash = path + query({ step, token, fork, ...more }));
  if (live.error && !isHeld) return <Empty isPage title={live.error.problem.status === 404 ? "There is no such run" : "This run cannot be shown"}>{live.error.message} <a href="#/runs">All runs</a></Empty>;
  if (!run) return <p class="muted loading">Reading the run …</p>;
  const choose = (node: string): void => go({ step: node === step ? "" : node });
  const isCompleted = run.status === "completed";
  const onTop = graph !== null && isWide(graph);
  const drawn = (
    <Card title="Graph" aside={isFunction ? operationsOf(graph) : run.progress} class="o-graph">
      {graph && <GraphView graph={graph} chosen={step} choose={choose} isCompleted={isCompleted} />}
    </Card>
  );
  return (
    <article class="run">
      <Head run={run} why={why} pause={pause} isFunction={isFunction} hold={hold} again={() => (live.again(), recount())} />
      <div class="columns">
        <div class="wide">
          {run.error && <LastError run={run} error={run.error} entries={whole.entries} />}
          {onTop && drawn}
          <Timeline run={run} history={whole} chosen={step} choose={choose} />
          {run.cost?.records ? <Moments run={run} last={run.cost.records - 1} entries={whole.entries} hasMore={whole.hasMore} graph={graph} /> : null}
          <Branches run={run} entries={whole.entries} moved={live.at} chosen={token} fork={fork} go={go} again={live.again} />
          <Logs run={run} moved={live.at} />
          {token ? <OfToken id={id} token={token} moved={live.at} step={step} go={go} isCompleted={isCompleted} /> : <HistoryList history={whole} step={step} token="" isCompleted={isCompleted} clear={() => go({ step: "" })} follow={(one) => go({ token: one })} />}
        </div>
        <div class="narrow">
          {!onTop && drawn}
          {step && run.steps[step] && (
            <Card class="o-step" title={step} aside={<><Status value={run.steps[step].status} isTolerated={isCompleted && run.steps[step].status === "failed" && run.steps[step].branches !== null} /><CopyJson value={run.steps[step].output} of={`the output of ${step}`} /></>}>
              {run.steps[step].error && <Failure error={run.steps[step].error} taken={takenBy(whole.entries, step)} />}
              <Data value={run.steps[step].output} />
            </Card>
          )}
          <Facts run={run} />
          <Kin run={run} moved={live.at} />
          <Values run={run} entries={whole.entries} />
        </div>
      </div>
    </article>
  );
}

function OfToken(given: { id: string; token: string; moved: number; step: string; go: (more: Record<string, string>) => void; isCompleted: boolean }): JSX.Element {
  const history = useHistory(given.id, given.token, given.moved);
  return <HistoryList history={history} step={given.step} token={given.token} isCompleted={given.isCompleted} clear={() => given.go({ step: "", token: "" })} follow={() => undefined} />;
}

function Head(given: { run: Run; why: Explanation | null; pause: WorkflowPause | null; isFunction: boolean; hold: (isHeld: boolean) => void; again: () => void }): JSX.Element {
  const { run, why, pause, isFunction, hold, again } = given;
  const [action, setAction] = useState<Action | null>(null);
  const isDeleted = useRef(false);
  const answers = answersOf(run);
  const [first] = Object.keys(answers);
  const actions = actionsOf(run, answers, eventOf(why), isFunction);
  if (pause) delete actions["Unpause"]; // its workflow goes on first
  const keyOf = (name: string): string | undefined => (name === first ? "a" : KEYS[name]);
  const more = Object.entries(actions).filter(([, one]) => one.isMore);
  const act = (begun: Action | null): void => {
    setAction(begun);
    hold(begun?.method === "DELETE");
    if (isDeleted.current) location.hash = "/runs";
  };
  const done = (): void => {
    if (action?.method === "DELETE") isDeleted.current = true;
    else again();
  };
  useKeys({
    a: () => first && act(answers[first] ?? null),
    r: () => actions["Reject"] && act(actions["Reject"]),
    e: () => actions["Send event"] && act(actions["Send event"]),
  });
  return (
    <header class="head">
      <p class="crumbs">
        <a href="#/runs">Runs</a> / <a href={"#/runs" + query({ workflow: run.workflow })}>{run.workflow}</a>
        {run.origin && (
          <>
            {" "}
            / {run.origin.kind} of <a href={`#/runs/${encodeURIComponent(run.origin.run_id)}`}>{shortId(run.origin.run_id)}</a>
          </>
        )}
        {run.parent && (
          <>
            {" "}
            / started by <a href={`#/runs/${encodeURIComponent(run.parent)}`}>{shortId(run.parent)}</a>
          </>
        )}
      </p>
      <div class="title">
        <h1>{run.run_id}</h1>
        <Copy text={run.run_id} label="Copy the run's id" />
        <Status value={run.status} />
        <span class="actions">
          {Object.entries(actions).map(([name, one]) => !one.isMore && (
            <button type="button" key={name} class={PRIMARY.has(name) || name === first ? "primary" : one.isDanger ? "danger" : ""} title={keyOf(name) && `Key ${keyOf(name)}`} aria-keyshortcuts={keyOf(name)} onClick={() => act(one)}>
              {name}
            </button>
          ))}
          {more.length > 0 && <More actions={more} choose={act} />}
        </span>
      </div>
      {why && <Why why={why} isOver={TERMINAL.has(run.status)} />}
      <Pauses pauses={pause ? [pause] : []} again={again} />
      {action && <Act action={action} onClose={() => act(null)} onDone={done} />}
    </header>
  );
}

function More({ actions, choose }: { actions: [string, Action][]; choose: (action: Action) => void }): JSX.Element {
  const place = useRef<HTMLDetailsElement>(null);
  const close = (): void => void (place.current && (place.current.open = false));
  const leave = (): void => (close(), place.current?.querySelector("summary")?.focus()); // the button that had the focus is hidden now
  return (
    <details class="menu" ref={place} onKeyDown={(event) => event.key === "Escape" && leave()} onFocusOut={(event) => !place.current?.contains(event.relatedTarget as Node | null) && close()}>
      <summary>More</summary>
      <div>
        {actions.map(([name, one]) => (
          <button type="button" key={name} class={one.isDanger ? "danger" : ""} onClick={() => (leave(), choose(one))}>
            {name}
          </button>
        ))}
      </div>
    </details>
  );
}

function Why({ why, isOver }: { why: Explanation; isOver: boolean }): JSX.Element {
  return (
    <div class="why">
      <p class={isOver ? "brief" : ""}><Explained text={why.why} /></p>
      {!isOver && why.wakers.length > 0 && (
        <ul>
          {why.wakers.map((waker) => (
            <li key={waker.what + waker.detail}>
              <b>{waker.what === "call" ? "you" : waker.what}</b>
              <span><Explained text={waker.detail} /> {waker.at && <>· <Time at={waker.at} /></>}</span>
            </li>
          ))}
        </ul>
      )}
    </div>
  );
}

/** The name of the event that the run waits for, if it waits for one. */
function eventOf(why: Explanation | null): string {
  const waker = why?.wakers.find((one) => one.what === "event");
  return waker?.detail.match(/stepwell event (\S+)/)?.[1] ?? waker?.detail.match(/event (\S+)/)?.[1] ?? "";
}

function Facts({ run }: { run: Run }): JSX.Element {
  const fact = (name: string, value: JSX.Element | string | null): JSX.Element | false => value !== null && value !== "" && (
    <>
      <dt>{name}</dt>
      <dd>{value}</dd>
    </>
  );
  return (
    <Card title="Run" class="o-facts">
      <dl>
        {fact("Workflow", <a href={`#/workflows/${encodeURIComponent(run.workflow)}`}>{run.workflow}</a>)}
        {fact("Version", <><code title={run.version}>{numberedVersion(run)}</code>{run.pinned && <> <span class="tag" title="What is made of this run keeps this version: a redrive, a run again, a fork, and child runs of the same workflow">pinned</span></>}</>)}
        {fact("Created", <>{zoned(when(run.created_at), run.created_at)} <span class="muted">· <Time at={run.created_at} /></span></>)}
        {fact("Ended", run.ended_at && <>{zoned(when(run.ended_at), run.ended_at)} <span class="muted">· <Time at={run.ended_at} /></span></>)}
        {fact("Gathers", run.gathering && <Gathered of={run.gathering} />)}
        {fact("Queued for", run.started_at && span((Date.parse(run.started_at) - Date.parse(run.created_at)) / 1000))}
        {fact("Outcome", run.result_summary && <Brief text={forPeople(run.result_summary)} />)}
        {fact("Cancelled by", run.cancelled_by && <Brief text={run.cancelled_by} />)}
        {fact("Reason", run.cancel_reason && <Brief text={run.cancel_reason} />)}
        {fact("Tags", Object.keys(run.tags).length ? <>{Object.entries(run.tags).map(([name, value]) => <a class="tag" key={name} href={"#/runs" + query({ tag: `${name}=${value}` })}>{name}={value}</a>)}</> : null)}
        {fact("Cost", run.cost && <span title={`On AWS, at the prices of ${run.cost.prices_as_of}: ${counted(run.cost.write_units, "write unit")}, ${counted(run.cost.invocations, "message")}, ${counted(run.cost.schedules, "schedule")}`}>{run.cost.usd.toFixed(7)} USD{!TERMINAL.has(run.status) && " so far"}, {counted(run.cost.steps, "step call")}<br /><span class="muted">{priced(run.cost.usd)}</span></span>)}
        {fact("Child runs", run.children.length ? <>{run.children.map((child) => <div key={child.run_id}><a href={`#/runs/${encodeURIComponent(child.run_id)}`}>{child.name || shortId(child.run_id)}</a> {child.status && <Status value={child.status} />}</div>)}</> : null)}
      </dl>
      {run.children.length > 0 && <p class="foot"><a href={"#/runs" + query({ parent: run.run_id })}>All runs that it started</a></p>}
    </Card>
  );
}

/** The runs that were made of this one: redriven, run again, forked. */
function Kin({ run, moved }: { run: Run; moved: number }): JSX.Element | null {
  const page = useFresh<Page<RunSummary>>("/runs" + query({ origin: run.run_id, limit: KIN }), moved, { isLate: true });
  if (!page?.items.length) return null;
  return (
    <Card title="Made of this run" class="o-facts">
      <ul class="groups">
        {page.items.map((one) => (
          <li key={one.run_id}>
            <a href={`#/runs/${encodeURIComponent(one.run_id)}`} title={one.run_id}>{shortId(one.run_id)}</a> {one.origin?.kind} <Status value={one.status} /> <span class="muted"><Time at={one.created_at} /></span>
          </li>
        ))}
      </ul>
      {page.next_cursor && <p class="foot"><a href={"#/runs" + query({ origin: run.run_id })}>All of them</a></p>}
    </Card>
  );
}

function CopyJson({ value, of }: { value: Json; of: string }): JSX.Element {
  return <Copy text={() => JSON.stringify(value, null, 2)} label={`Copy ${of} as JSON`} />;
}

function Values({ run, entries }: { run: Run; entries: Entry[] }): JSX.Element {
  const waiting = withoutLinks(run.waiting_data);
  const input = run.input ?? entries[0]?.data ?? null;
  const outputs = Object.fromEntries(Object.entries(run.steps).filter(([, step]) => step.output !== null).map(([name, step]) => [name, step.output]));
  return (
    <>
      {waiting !== null && (
        <Card title="It waits with" class="o-values" aside={<CopyJson value={waiting} of="what it waits with" />}>
          <Data value={waiting} />
        </Card>
      )}
      {run.result !== null && (
        <Card title="Output" class="o-values" aside={<CopyJson value={run.result} of="the output" />}>
          <Data value={run.result} />
        </Card>
      )}
      <Card title="Input" class="o-values" aside={<CopyJson value={input} of="the input" />}>
        <Data value={input} />
      </Card>
      {Object.keys(run.state).length > 0 && (
        <Card title="State" class="o-values" aside={<CopyJson value={run.state} of="the state" />}>
          <Data value={run.state} open={1} />
        </Card>
      )}
      {Object.keys(run.state).length === 0 && Object.keys(outputs).length > 0 && (
        <Card title="Outputs of steps" class="o-values" aside={<CopyJson value={outputs} of="the outputs of steps" />}>
          <Data value={outputs} open={1} />
        </Card>
      )}
    </>
  );
}
