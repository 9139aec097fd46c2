// The list of runs: filters and page in the URL, counts beside them.

import type { JSX } from "preact";
import { useState } from "preact/hooks";
import { Act } from "./act";
import { together, type Action } from "./actions";
import { query, useLive } from "./api";
import { pauseOf, Pauses } from "./pauses";
import { Spark } from "./spark";
import { Start } from "./start";
import type { Page, RunSummary, Stats, WorkflowPause, WorkflowSummary } from "./types";
import { Empty, Status, Tally, Time, useInSight, useKeys, useNow } from "./ui";
import { ago, FOR_OTHERS, FOR_PEOPLE, kindWords, plain, shortId, span, STATUSES, tally } from "./words";

type Asked = Record<string, string>;

const SELDOM_MS = 60000; // between two looks at the names of workflows

export function RunsPage({ asked, stats, refused, recount }: { asked: Asked; stats: Stats | null; refused: string; recount: () => void }): JSX.Element {
  const { status = "", workflow = "", waiting_for = "", tag = "", since = "", overdue = "", failure = "", cursor = "", parent = "", origin = "", key = "" } = asked;
  const filters = { status, workflow, waiting_for, tag, since, overdue, failure, parent, origin, key };
  const live = useLive<Page<RunSummary>>("/runs" + query({ ...filters, cursor, limit: "50" }), { isFed: true });
  const [starting, setStarting] = useState(false);
  const [acting, setActing] = useState<Action | null>(null);
  const go = (more: Asked): void => void (location.hash = "/runs" + query({ ...filters, ...more }));
  const runs = live.value?.items ?? [];
  const [chosen, choose] = useState(""); // by its id: new runs move its row
  const at = runs.findIndex((run) => run.run_id === chosen);
  const chooseAt = (place: number): void => choose(runs[Math.min(Math.max(place, 0), runs.length - 1)]?.run_id ?? "");
  useKeys({
    j: () => chooseAt(at + 1),
    k: () => chooseAt(at - 1),
    Enter: () => runs[at] && (location.hash = `/runs/${encodeURIComponent(runs[at].run_id)}`),
    n: () => setStarting(true),
  });
  const isFiltered = Object.values(filters).some(Boolean);
  return (
    <>
      <div class="bar">
        <h1>Runs</h1>
        <Statuses stats={stats} refused={refused} filters={filters} choose={(one) => go({ status: one })} />
        {runs.length > 0 && together(filters) && (
          <button type="button" onClick={() => setActing(together(filters))}>
            Act on all …
          </button>
        )}
        <button type="button" class="primary" onClick={() => setStarting(true)}>
          Start a run
        </button>
      </div>
      <Pauses pauses={pausesOf(stats, workflow)} again={recount} />
      <Filters stats={stats} refused={refused} filters={filters} go={go} />
      <Spark filters={filters} />
      {live.error && <Empty title="These runs cannot be listed">{live.error.message} {live.error.problem.hint && `(${live.error.problem.hint})`} {isFiltered && <a href="#/runs">Show all runs</a>}</Empty>}
      {!live.value && !live.error && <p class="muted loading">Reading the runs …</p>}
      {live.value && !runs.length && (
        <Empty title={isFiltered ? "No run fits" : "No runs yet"}>
          {isFiltered ? <a href="#/runs">Show all runs</a> : <>Start one here, or with <code>stepwell run WORKFLOW</code>.</>}
        </Empty>
      )}
      {runs.length > 0 && <Table runs={runs} at={at} />}
      <div class="pages">
        <p class="keys muted">
          <kbd>j</kbd> <kbd>k</kbd> move · <kbd>Enter</kbd> open · <kbd>n</kbd> start a run
        </p>
        {cursor && <a href={"#/runs" + query(filters)}>Newest</a>}
        {live.value?.next_cursor && <a href={"#/runs" + query({ ...filters, cursor: live.value.next_cursor })}>Older runs</a>}
      </div>
      {acting && <Act action={acting} onClose={() => setActing(null)} onDone={live.again} />}
      {starting && <Start workflow={workflow} onClose={() => setStarting(false)} />}
    </>
  );
}

/** The pauses that stop runs of the list. */
function pausesOf(stats: Stats | null, workflow: string): WorkflowPause[] {
  if (!workflow) return stats?.paused ?? [];
  const pause = pauseOf(stats, workflow);
  return pause ? [pause] : [];
}

/** The statuses with their counts, which are known of a workflow's runs, not of those with a tag. `refused`: why there are none; then each status can be chosen, as nobody knows which there are. */
function Statuses(given: { stats: Stats | null; refused: string; filters: Asked; choose: (status: string) => void }): JSX.Element {
  const { stats, refused, filters, choose } = given;
  const { workflow = "", status: chosen = "", ...others } = filters;
  const isCounted = stats !== null && !Object.values(others).some(Boolean);
  const count = (status: string): number => (workflow ? stats?.workflows[workflow]?.[status] : stats?.statuses[status]?.count) ?? 0;
  const shown = STATUSES.filter((status) => count(status) || status === chosen || refused);
  const total = shown.reduce((sum, status) => sum + count(status), 0);
  const isBounded = (status: string): boolean => Boolean(stats?.at_least.includes(status));
  return (
    <div class="chips" role="group" aria-label="Status">
      <button type="button" aria-pressed={!chosen} onClick={() => choose("")}>
        all {isCounted && <Tally count={total} isBounded={shown.some(isBounded)} />}
      </button>
      {shown.map((status) => (
        <button type="button" key={status} class={`is-${status}`} aria-pressed={chosen === status} onClick={() => choose(chosen === status ? "" : status)}>
          <i aria-hidden="true" />
          {plain(status)} {isCounted && <Tally count={count(status)} isBounded={isBounded(status)} />}
        </button>
      ))}
      {refused && <span class="muted">Counts cannot be shown: {refused}</span>}
    </div>
  );
}

function Filters({ stats, refused, filters, go }: { stats: Stats | null; refused: string; filters: Asked; go: (more: Asked) => void }): JSX.Element {
  const names = useLive<Page<WorkflowSummary>>("/workflows", { soonestMs: SELDOM_MS, isLate: true }).value?.items.map((one) => one.name) ?? [];
  const known = refused ? [...FOR_PEOPLE, ...FOR_OTHERS] : Object.keys(stats?.waits ?? {});
  const waits = [...new Set([...known, filters["waiting_for"] ?? ""])].filter(Boolean).sort();
  const sinces = { "": "any time", "1": "last hour", "24": "last day", "168": "last week" };
  const since = (hours: string): string => (hours ? new Date(Date.now() - Number(hours) * 3_600_000).toISOString() : "");
  return (
    <form class="filters" onSubmit={(event) => event.preventDefault()}>
      <ById />
      <label>
        Workflow
        <select value={filters["workflow"]} onChange={(event) => go({ workflow: event.currentTarget.value, key: "" })}>
          <option value="">all</option>
          {[...new Set([...names, filters["workflow"] ?? ""])].filter(Boolean).map((name) => (
            <option key={name}>{name}</option>
          ))}
        </select>
      </label>
      <label>
        Waits for
        <select value={filters["waiting_for"]} onChange={(event) => go({ waiting_for: event.currentTarget.value })}>
          <option value="">anything</option>
          {waits.map((kind) => (
            <option key={kind} value={kind}>
              {kindWords(kind)} {stats && `(${tally(stats.waits[kind] ?? 0, stats.at_least.includes("waiting"))})`}
            </option>
          ))}
        </select>
      </label>
      <Typed key={`tag ${filters["tag"] ?? ""}`} label="Tag" hint="name=value" value={filters["tag"] ?? ""} take={(tag) => go({ tag })} />
      <label>
        Created
        <select value="" onChange={(event) => go({ since: since(event.currentTarget.value) })}>
          {filters["since"] && <option value="">since {new Date(filters["since"]).toLocaleString()}</option>}
          {Object.entries(sinces).map(([hours, text]) => (
            <option key={hours} value={hours}>
              {text}
            </option>
          ))}
        </select>
      </label>
      <label class="check">
        <input type="checkbox" checked={Boolean(filters["overdue"])} onChange={(event) => go({ overdue: event.currentTarget.checked ? "true" : "" })} />
        overdue{stats?.overdue ? ` (${stats.overdue})` : ""}
      </label>
      {filters["failure"] && (
        <button type="button" class="quiet" onClick={() => go({ failure: "" })}>
          failed alike: {filters["failure"]} ✕
        </button>
      )}
      {filters["workflow"] && <Typed key={`key ${filters["key"] ?? ""}`} label="Key" hint="Idempotency-Key" value={filters["key"] ?? ""} take={(key) => go({ key })} />}
      {filters["origin"] && (
        <button type="button" class="quiet" onClick={() => go({ origin: "" })}>
          made of {shortId(filters["origin"])} ✕
        </button>
      )}
      {filters["parent"] && (
        <button type="button" class="quiet" onClick={() => go({ parent: "" })}>
          started by {shortId(filters["parent"])} ✕
        </button>
      )}
    </form>
  );
}

/** Opens the run whose id is pasted. */
function ById(): JSX.Element {
  const [id, setId] = useState("");
  const open = (key: string): void => void (key === "Enter" && id.trim() && (location.hash = `/runs/${encodeURIComponent(id.trim())}`));
  return (
    <label>
      Run
      <input type="search" placeholder="id, to open it" value={id} onInput={(event) => setId(event.currentTarget.value)} onKeyDown={(event) => open(event.key)} />
    </label>
  );
}

/** A filter that is typed. The list changes while it is: what was typed stays. */
function Typed({ label, hint, value, take }: { label: string; hint: string; value: string; take: (value: string) => void }): JSX.Element {
  const [text, setText] = useState(value);
  return (
    <label>
      {label}
      <input type="search" placeholder={hint} value={text} onInput={(event) => setText(event.currentTarget.value)} onChange={() => take(text.trim())} />
    </label>
  );
}

function Table({ runs, at }: { runs: RunSummary[]; at: number }): JSX.Element {
  const list = useInSight(at);
  return (
    <table class="runs" ref={list as { current: HTMLTableElement | null }}>
      <thead>
        <tr>
          <th scope="col">Status</th>
          <th scope="col">Workflow</th>
          <th scope="col">Run</th>
          <th scope="col">Where it is</th>
          <th scope="col" class="c-tags">Tags</th>
          <th scope="col" class="c-took number">Took</th>
          <th scope="col" class="number">Created</th>
        </tr>
      </thead>
      <tbody>
        {runs.map((run, index) => (
          <Row key={run.run_id} run={run} isChosen={index === at} />
        ))}
      </tbody>
    </table>
  );
}

function Row({ run, isChosen }: { run: RunSummary; isChosen: boolean }): JSX.Element {
  const link = `#/runs/${encodeURIComponent(run.run_id)}`;
  const open = (event: MouseEvent): void => {
    if ((event.target as Element).closest("a") || getSelection()?.toString()) return; // the link opens it by itself, in a tab of its own too
    if (event.ctrlKey || event.metaKey) window.open(link);
    else location.hash = link;
  };
  return (
    <tr class={isChosen ? "is-chosen" : ""} onClick={open}>
      <td class="c-status">
        <Status value={run.status} />
      </td>
      <td class="c-workflow">{run.workflow}</td>
      <td class="c-run">
        <a href={link} title={run.run_id}>
          {shortId(run.run_id)}
        </a>
        {run.parent && <small class="muted" title={`Started by ${run.parent}`}>child</small>}
        {run.origin && <small class="muted" title={`Made of ${run.origin.run_id}`}>{run.origin.kind}</small>}
      </td>
      <td class="c-where">
        <Where run={run} />
      </td>
      <td class="c-tags">
        {Object.entries(run.tags).map(([name, value]) => (
          <span class="tag" key={name} title={`${name}=${value}`}>
            {name}={value}
          </span>
        ))}
      </td>
      <td class="c-took number">
        <Took run={run} />
      </td>
      <td class="c-created number">
        <Time at={run.created_at} />
      </td>
    </tr>
  );
}

function Where({ run }: { run: RunSummary }): JSX.Element {
  const now = useNow();
  const isLate = run.waiting_until !== null && Date.parse(run.waiting_until) < now;
  const steps = run.current_steps.join(", ");
  if (run.failure) return <>{run.failure.step} <span class="muted">{run.failure.step && "· "}{run.failure.type}</span></>;
  return (
    <>
      {steps}
      {run.waiting_for && (
        <span class="muted">
          {steps !== run.waiting_for && `${steps && " · "}${kindWords(run.waiting_for)}`}
          {run.waiting_until && <span class={isLate ? "due late" : "due"}> · {isLate ? `due ${ago(run.waiting_until, now)}` : ago(run.waiting_until, now)}</span>}
        </span>
      )}
    </>
  );
}

export function Took({ run }: { run: RunSummary }): JSX.Element {
  const now = useNow();
  if (!run.started_at) return <span class="muted">–</span>;
  const end = run.ended_at ? Date.parse(run.ended_at) : now;
  return <>{span(Math.max(end - Date.parse(run.started_at), 0) / 1000)}</>;
}
