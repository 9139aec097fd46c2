// What stands beside a workflow: why its runs failed, its schedules; limits and webhook deliveries.

import type { JSX } from "preact";
import { useRef, useState } from "preact/hooks";
import { Act } from "./act";
import { by, type Action } from "./actions";
import { query, useLive } from "./api";
import type { Delivery, FailureGroup, InLine, Limit, Line, Page, Run, Schedule } from "./types";
import { Brief, Card, Empty, Time } from "./ui";
import { commandLine, counted, shortId, span } from "./words";

const SELDOM_MS = 15000;
const GROUPS = 10; // groups of failed runs that are shown
const LISTED = "20"; // of deliveries and of runs in line, on a page

/** Runs that failed alike, those that failed most often first. */
export function Failures({ name }: { name: string }): JSX.Element {
  const { value: page, error } = useLive<Page<FailureGroup>>("/failures" + query({ workflow: name }), { soonestMs: SELDOM_MS, isFed: true });
  const groups = page?.items ?? [];
  return (
    <Card title="Failures" aside={page?.next_cursor ? `the newest ${counted(groups.reduce((sum, one) => sum + one.count, 0), "run")}` : ""}>
      {error && <Empty title="What failed cannot be listed">{error.message}</Empty>}
      {page && !groups.length && <Empty title="None of its runs failed" />}
      <ul class="groups">
        {groups.slice(0, GROUPS).map((one) => (
          <li key={one.fingerprint}>
            <a href={"#/runs" + query({ workflow: name, failure: one.fingerprint })}>{counted(one.count, "run")}</a> {one.type} {one.step && `at ${one.step}`}
            <Message run={one.run_id} />
            <span class="muted">
              last <a href={`#/runs/${encodeURIComponent(one.run_id)}`}><Time at={one.last_at} /></a>
              {one.count > 1 && <>, first <Time at={one.first_at} /></>}
            </span>
          </li>
        ))}
      </ul>
      {groups.length > GROUPS && <p class="foot">and {groups.length - GROUPS} rarer ones: <code>{commandLine("failures", ["--workflow", name])}</code></p>}
    </Card>
  );
}

/** What the last run of a group said; a run that has ended is read once. */
function Message({ run }: { run: string }): JSX.Element {
  const { value } = useLive<Run>(`/runs/${encodeURIComponent(run)}`, { isOver: true });
  return <p class="muted"><Brief text={value?.error?.message ?? ""} /></p>;
}

const actOf = (name: string, act: string): string => `/schedules/${encodeURIComponent(name)}/${act}`;

function pausing(name: string): Action {
  return {
    title: `Pause ${name}`,
    verb: "Pause",
    about: "It starts no runs until its pause is ended. Times that pass meanwhile are not made up for. Its runs go on.",
    fields: [{ name: "reason", label: "Reason" }, by()],
    path: actOf(name, "pause"),
    body: ({ reason, by }) => ({ reason: reason ?? "", by: by ?? "" }),
    command: ({ reason = "", by = "" }) => commandLine("schedule", "pause", name, ["--reason", reason], ["--by", by]),
  };
}

function unpausing(name: string): Action {
  return {
    title: `Unpause ${name}`,
    verb: "Unpause",
    about: "It fires again at its next time.",
    fields: [by()],
    path: actOf(name, "unpause"),
    body: ({ by }) => ({ by: by ?? "" }),
    command: ({ by = "" }) => commandLine("schedule", "unpause", name, ["--by", by]),
  };
}

function firing(name: string): Action {
  return {
    title: `Fire ${name} now`,
    verb: "Fire",
    about: "It starts a run now, also while it is paused or its last run goes on. Its next times stay as they are.",
    fields: [],
    path: actOf(name, "fire"),
    body: () => ({}),
    command: () => commandLine("schedule", "fire", name),
  };
}

export function Schedules({ name }: { name: string }): JSX.Element | null {
  const [action, setAction] = useState<Action | null>(null);
  const { value, again } = useLive<Page<Schedule>>("/schedules", { soonestMs: SELDOM_MS, isFed: true });
  const found = value?.items.filter((one) => one.workflow === name) ?? [];
  if (!found.length) return null;
  return (
    <Card title="Schedules">
      <ul class="groups">
        {found.map((one) => (
          <li key={one.name}>
            <b>{one.name}</b> <code>{one.schedule}</code> {one.timezone}
            <p class="muted">
              {one.paused ? "no next time while it is paused" : one.next[0] ? <>next <Time at={one.next[0]} /></> : "never again"}
              {one.last_run_id && one.last_at && <>, last <a href={`#/runs/${encodeURIComponent(one.last_run_id)}`}><Time at={one.last_at} /></a></>}
            </p>
            {one.paused && (
              <p>
                paused{one.paused.by && ` by ${one.paused.by}`}, <Time at={one.paused.since} />
                {one.paused.reason && `: ${one.paused.reason}`}
              </p>
            )}
            {one.error && <p class="wrong">starts no run: {one.error}</p>}
            <button type="button" class="quiet" onClick={() => setAction(one.paused ? unpausing(one.name) : pausing(one.name))}>
              {one.paused ? "unpause" : "pause"}
            </button>
            <button type="button" class="quiet" onClick={() => setAction(firing(one.name))}>
              fire now
            </button>
          </li>
        ))}
      </ul>
      {action && <Act action={action} onClose={() => setAction(null)} onDone={again} />}
    </Card>
  );
}

/** The limits of workflows and of steps, with who holds a permit and who waits for one. */
export function Limits({ workflow = "" }: { workflow?: string }): JSX.Element | null {
  const all = useLive<Page<Limit>>("/limits", { soonestMs: SELDOM_MS, isFed: true, isAging: true, isLate: true }).value?.items ?? [];
  const found = workflow ? all.filter((one) => one.of === "runs" && one.name === workflow) : all;
  if (!found.length) return null;
  return (
    <Card title="Limits">
      <ul class="groups">
        {found.map((one) => (
          <Bounded key={one.of + one.name} limit={one} />
        ))}
      </ul>
    </Card>
  );
}

function Bounded({ limit }: { limit: Limit }): JSX.Element {
  const [isOpen, setOpen] = useState(false);
  const rate = limit.rate_limit;
  return (
    <li>
      <b>{limit.name}</b> for {limit.of}: {[limit.concurrency && `${limit.concurrency} at once`, rate && `${rate.limit} in ${span(rate.per)}`].filter(Boolean).join(", ")}
      {limit.under_way === null ? (
        <Keyed limit={limit} />
      ) : (
        <details open={isOpen} onToggle={(event) => setOpen(event.currentTarget.open)}>
          <summary>
            {limit.under_way} under way, {limit.waiting} waiting
          </summary>
          {isOpen && <InTurn limit={limit} />}
        </details>
      )}
    </li>
  );
}

/** A limit of which each key has a line of its own: the reader names the key. */
function Keyed({ limit }: { limit: Limit }): JSX.Element {
  const [key, setKey] = useState("");
  const choose = (event: Event & { currentTarget: HTMLFormElement }): void => {
    event.preventDefault();
    setKey(String(new FormData(event.currentTarget).get("key")).trim());
  };
  return (
    <>
      <form class="keyed" onSubmit={choose}>
        <span class="muted">for each key apart</span>
        <input name="key" aria-label={`Key of ${limit.name}`} placeholder="key" autocomplete="off" />
        <button type="submit">Show</button>
      </form>
      {key && <InTurn limit={limit} of={key} />}
    </>
  );
}

function InTurn({ limit, of = "" }: { limit: Limit; of?: string }): JSX.Element | null {
  const { value: line, error } = useLive<Line>(`/limits/${encodeURIComponent(limit.name)}` + query({ of: limit.of, key: of, limit: LISTED }), { soonestMs: SELDOM_MS, isFed: true, isAging: true });
  if (error) return <p class="muted">It cannot be shown: {error.message}</p>;
  return line && (
    <>
      <InLines title="Under way" runs={line.under_way} />
      <InLines title="Waiting" runs={line.items} />
      {line.next_cursor && <p class="foot">and more: <code>{commandLine("limits", limit.name, ...(of ? ["--key", of] : []))}</code></p>}
    </>
  );
}

function InLines({ title, runs }: { title: string; runs: InLine[] }): JSX.Element {
  return (
    <p class="muted">
      {title}: {runs.length ? runs.map((one) => <><a href={`#/runs/${encodeURIComponent(one.run_id)}`} title={one.run_id}>{shortId(one.run_id)}</a> </>) : "none"}
    </p>
  );
}

function replaying(delivery: Delivery): Action {
  return {
    title: "Replay this delivery",
    verb: "Replay",
    about: "It is taken as if it came now, by the source's current mapping, even though it was taken before.",
    fields: [],
    path: "/deliveries:replay",
    body: () => ({ source: delivery.source, delivery: delivery.id, again: true }),
    command: () => commandLine("webhook", "replay", delivery.source, delivery.id, "--again"),
  };
}

/** Stored deliveries, newest first, a page at a time; of one source, if the reader chose it. */
export function Deliveries(): JSX.Element | null {
  const [{ source, cursor }, turn] = useState({ source: "", cursor: "" });
  const live = useLive<Page<Delivery>>("/deliveries" + query({ source, cursor, limit: LISTED }), { soonestMs: SELDOM_MS, isLate: true });
  const last = useRef(live.value); // while the next page is read
  last.current = live.value ?? last.current;
  const [action, setAction] = useState<Action | null>(null);
  const page = last.current;
  if (!page || (!page.items.length && !source && !cursor)) return null; // no webhook source keeps what it brings, or nothing came
  const chip = source && (
    <button type="button" class="chip" onClick={() => turn({ source: "", cursor: "" })}>
      {source} ✕
    </button>
  );
  return (
    <Card title="Webhook deliveries" class="deliveries" aside={chip}>
      {live.error && <Empty title="The deliveries cannot be listed">{live.error.message}</Empty>}
      {!live.error && !page.items.length && <Empty title="There is no older delivery" />}
      <ol>
        {page.items.map((one) => (
          <li key={one.source + one.id}>
            <Time at={one.at} />
            <span>
              <button type="button" class="quiet" title="Only this source" onClick={() => turn({ source: one.source, cursor: "" })}>
                <b>{one.source}</b>
              </button>{" "}
              <code>{one.id}</code>
            </span>
            <span>
              {one.outcome} {one.made?.startsWith("run_") ? <a href={`#/runs/${encodeURIComponent(one.made)}`}>{shortId(one.made)}</a> : <span class="muted">{one.detail || one.made}</span>}
              {one.replays.length > 0 && " "}
              {one.replays.length > 0 && <span class="tag">{counted(one.replays.length, "replay")}</span>}
            </span>
            <button type="button" class="quiet" onClick={() => setAction(replaying(one))}>
              replay
            </button>
          </li>
        ))}
      </ol>
      <div class="pages">
        {cursor && <button type="button" class="quiet" onClick={() => turn({ source, cursor: "" })}>Newest deliveries</button>}
        {page.next_cursor && <button type="button" class="quiet" onClick={() => turn({ source, cursor: page.next_cursor ?? "" })}>Older deliveries</button>}
      </div>
      {action && <Act action={action} onClose={() => setAction(null)} onDone={live.again} />}
    </Card>
  );
}
