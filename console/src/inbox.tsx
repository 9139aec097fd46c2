// What waits for people, across runs, the next one due on top; one key for each answer.

import type { JSX } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import { Act } from "./act";
import type { Action } from "./actions";
import { answersOf, isForCost } from "./answers";
import { query, useLive } from "./api";
import { Data } from "./data";
import type { Page, Run, RunSummary } from "./types";
import { Card, Empty, Time, useInSight, useKeys } from "./ui";
import { counted, FOR_PEOPLE, shortId, withoutLinks } from "./words";

const LISTED = "200";
const WORDS: Record<string, string> = { response: "question" };

export function Inbox(): JSX.Element {
  const asked = { waiting_for: FOR_PEOPLE.join(","), limit: LISTED };
  // The runs that are due soonest, however old; then the newest, which may have no deadline.
  const dated = useLive<Page<RunSummary>>("/runs" + query({ ...asked, sort: "waiting_until" }), { isFed: true });
  const live = useLive<Page<RunSummary>>("/runs" + query({ ...asked, status: "waiting" }), { isFed: true });
  const found = new Map([...(dated.value?.items ?? []), ...(live.value?.items ?? [])].map((run) => [run.run_id, run]));
  const runs = [...found.values()].sort((one, other) => due(one) - due(other));
  const [chosen, choose] = useState("");
  const [answered, answer] = useState<RunSummary | null>(null); // it stays until its dialog is closed, although its answer takes it off the list
  const at = Math.max(runs.findIndex((run) => run.run_id === chosen), 0);
  const current = answered ?? runs[at];
  const shown = live.value && dated.value ? (current?.run_id ?? "") : "";
  useEffect(() => choose(shown), [shown]); // one that is due sooner does not take the place of what is being read
  const list = useInSight(chosen);
  const more = live.value?.next_cursor || dated.value?.next_cursor ? "at least " : "";
  useKeys({
    j: () => choose(runs[Math.min(at + 1, runs.length - 1)]?.run_id ?? ""),
    k: () => choose(runs[Math.max(at - 1, 0)]?.run_id ?? ""),
    Enter: () => current && (location.hash = `/runs/${encodeURIComponent(current.run_id)}`),
  });
  return (
    <>
      <div class="bar">
        <h1>Inbox</h1>
        {runs.length > 0 && <span class="muted">{more}{counted(runs.length, "run")} waiting for an answer</span>}
        <p class="keys muted">
          <kbd>j</kbd> <kbd>k</kbd> move · <kbd>a</kbd> answer or approve · <kbd>r</kbd> reject · <kbd>Enter</kbd> open the run
        </p>
      </div>
      {(live.error ?? dated.error) && <Empty title="What waits cannot be listed">{(live.error ?? dated.error)?.message}</Empty>}
      {!current && !(live.value && dated.value) && !(live.error ?? dated.error) && <p class="muted loading">Reading what waits …</p>}
      {live.value && dated.value && !runs.length && <Empty title="Nothing waits for you">Approvals, questions, and documents that are missing appear here, of all runs, the next one due on top.</Empty>}
      {current && (
        <div class="inbox">
          <ol ref={list as { current: HTMLOListElement | null }}>
            {runs.map((run) => (
              <li key={run.run_id} class={run.run_id === current.run_id ? "is-chosen" : ""}>
                <button type="button" aria-pressed={run.run_id === current.run_id} onClick={() => choose(run.run_id)}>
                  <strong>{run.current_steps.join(", ") || run.waiting_for}</strong>
                  <span>
                    {run.workflow} <span class="tag">{WORDS[run.waiting_for ?? ""] ?? run.waiting_for}</span>
                  </span>
                  <span class="muted">
                    {shortId(run.run_id)} ·{" "}
                    {run.waiting_until ? (
                      <>
                        due <Time at={run.waiting_until} />
                      </>
                    ) : (
                      run.waiting_since && (
                        <>
                          asked <Time at={run.waiting_since} />
                        </>
                      )
                    )}
                  </span>
                  <span class="tags">
                    {Object.entries(run.tags).map(([name, value]) => (
                      <span class="tag" key={name}>
                        {name}={value}
                      </span>
                    ))}
                  </span>
                </button>
              </li>
            ))}
          </ol>
          <Asked key={current.run_id} run={current} onAct={answer} again={() => (live.again(), dated.again())} />
        </div>
      )}
      <Callbacks />
    </>
  );
}

/** What else an `all` waits for, when all that people end has come. */
function nextOf(run: Run): string {
  return [...new Set(run.tokens.flatMap((token) => token.awaits))].join(", ") || "its next step";
}

/** What waits for other systems: nothing that a person answers, and something to look at when it is late. */
function Callbacks(): JSX.Element | null {
  const live = useLive<Page<RunSummary>>("/runs" + query({ waiting_for: "callback", status: "waiting", limit: LISTED }), { isFed: true, isLate: true });
  const runs = [...(live.value?.items ?? [])].sort((one, other) => due(one) - due(other));
  if (!runs.length) return null;
  const more = live.value?.next_cursor ? "at least " : "";
  return (
    <Card title="Waiting for another system" aside={<span class="muted">{more}{counted(runs.length, "run")}</span>} class="callbacks">
      <p class="muted">Each waits for a callback. There is nothing to answer here.</p>
      <ul>
        {runs.map((run) => (
          <li key={run.run_id}>
            <a href={`#/runs/${encodeURIComponent(run.run_id)}`} title={run.run_id}>{shortId(run.run_id)}</a>
            <span>{run.current_steps.join(", ")}</span>
            <span class="muted">{run.workflow}</span>
            <span class="muted">{run.waiting_until ? <>due <Time at={run.waiting_until} /></> : run.waiting_since && <>since <Time at={run.waiting_since} /></>}</span>
          </li>
        ))}
      </ul>
    </Card>
  );
}

function due(run: RunSummary): number {
  return run.waiting_until ? Date.parse(run.waiting_until) : Number.MAX_SAFE_INTEGER;
}

function Asked({ run, onAct, again }: { run: RunSummary; onAct: (run: RunSummary | null) => void; again: () => void }): JSX.Element {
  const whole = useLive<Run>(`/runs/${encodeURIComponent(run.run_id)}`, { isFed: true }).value; // the list tells of errors
  const [action, setAction] = useState<Action | null>(null);
  const data = whole && withoutLinks(whole.waiting_data);
  const answers = whole ? answersOf(whole) : {};
  const names = Object.keys(answers);
  const act = (begun: Action | null): void => {
    setAction(begun);
    onAct(begun && run);
  };
  const early = useRef(""); // a key that was pressed before the run was read
  const press = (name: string | undefined): void => void (name && answers[name] && act(answers[name]));
  const keyed = (key: string): void => {
    if (whole) press(key === "r" ? "Reject" : names[0]);
    else early.current = key;
  };
  useEffect(() => {
    if (whole && early.current) keyed(early.current);
    if (whole) early.current = "";
  }, [whole]);
  useKeys({ a: () => keyed("a"), r: () => keyed("r") });
  return (
    <Card title={run.current_steps.join(", ") || run.waiting_for} aside={<a href={`#/runs/${encodeURIComponent(run.run_id)}`}>{shortId(run.run_id)}</a>} class="asked">
      <p class="muted">
        {run.workflow}
        {run.waiting_since && <> · asked <Time at={run.waiting_since} /></>}
        {run.waiting_until && <> · due <Time at={run.waiting_until} /></>}
      </p>
      {whole && isForCost(whole) && <p class="cost">{Object.values(answers)[0]?.about}</p>}
      {data !== null ? <Data value={data} /> : <p class="muted">{whole ? "It asks without data." : "Reading …"}</p>}
      {whole && (
        <details class="input">
          <summary>Input of the run</summary>
          <Data value={whole.input} />
        </details>
      )}
      {whole && !names.length && <p class="muted">People have answered. It still waits for {nextOf(whole)}.</p>}
      <footer>
        {names.map((name, index) => (
          <button type="button" key={name} class={index ? "danger" : "primary"} aria-keyshortcuts={index ? "r" : "a"} onClick={() => press(name)}>
            {name}
          </button>
        ))}
      </footer>
      {action && <Act action={action} onClose={() => act(null)} onDone={again} />}
    </Card>
  );
}
