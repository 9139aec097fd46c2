// A run's history: read once from the start, then from where the reader stands.

import type { JSX } from "preact";
import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import { get, query } from "./api";
import { Data } from "./data";
import { repeated, type Reader } from "./fresh";
import type { Entry, Page } from "./types";
import { Card, Empty } from "./ui";
import { UNTIL } from "./until";
import { brief, full, span, when } from "./words";

const PAGE = 500;
const AT_ONCE = 12_000; // entries read before the reader asks for more
const PAINTED = 8; // pages between two paints of a long history
const SHOWN = 200;
// What writes an entry when nobody gave a name: a message, a timer, a call.
const NOBODY = /^(wake|timer|scheduled|go_on|go_on_all|shut|dead|deployed|limit|lock|parent|child|offer|erase|start|approved|rejected|delegated|cancel|terminate|pause|unpause|redrive|fork|update):/;

export interface History {
  entries: Entry[];
  hasMore: boolean;
  error: string;
  more: () => void;
}

/** Follows a token's history; `moved` changes when the run does, and then the entries after the last one are read; 0: not known yet. */
export function useHistory(id: string, token: string, moved: number): History {
  const [found, set] = useState<Read>(NOTHING);
  const [most, setMost] = useState(AT_ONCE);
  const [error, setError] = useState("");
  const reader = useRef<Reader | null>(null);
  const latest = useRef(most);
  latest.current = most;
  useEffect(() => {
    set(NOTHING);
    const read = reading(id, token, latest, (known) => (set(known), setError("")));
    reader.current = repeated(read, (refusal) => setError(refusal.message));
    return reader.current.stop;
  }, [id, token]);
  useEffect(() => {
    if (moved) reader.current?.again();
  }, [id, token, moved, most]);
  return { entries: useMemo(() => inOrder(found.entries), [found]), hasMore: found.hasMore, error, more: () => setMost(found.entries.length + AT_ONCE) };
}

interface Read {
  entries: Entry[];
  hasMore: boolean;
}

const NOTHING: Read = { entries: [], hasMore: false };

/** Reads what follows the entries that it has read, up to `most`, and tells of all of them. */
function reading(id: string, token: string, most: { current: number }, told: (known: Read) => void): (isGone: () => boolean) => Promise<void> {
  const known: Entry[] = [];
  const seen = new Set<string>();
  let isToldOfMore = false;
  return async (isGone) => {
    // Branches write side by side, so the first cursor is the last entry of the token itself; known ids are skipped.
    let after = known.findLast((entry) => entry.token === (token || "0"))?.id ?? "";
    for (let pages = 1; ; pages++) {
      const page = await get<Page<Entry>>(`/runs/${encodeURIComponent(id)}/history` + query({ after, token, limit: String(PAGE) }));
      if (isGone()) return;
      const fresh = page.items.filter((entry) => !seen.has(entry.id));
      for (const entry of fresh) seen.add(entry.id);
      known.push(...fresh);
      const hasMore = page.next_cursor !== null;
      const isLast = !hasMore || known.length >= most.current;
      if ((fresh.length || hasMore !== isToldOfMore) && (pages === 1 || pages % PAINTED === 0 || isLast)) {
        isToldOfMore = hasMore;
        told({ entries: [...known], hasMore });
      }
      if (isLast) return;
      after = page.next_cursor ?? "";
    }
  };
}

/** By time: a function's own records go on beside those of its tasks. What a fork or a redrive copied stays in front. */
function inOrder(entries: Entry[]): Entry[] {
  const isMade = entries.some((entry) => entry.type === "run.forked" || entry.type === "run.redriven");
  const times = entries.map((entry) => Date.parse(entry.at));
  if (isMade || times.every((at, place) => !place || at >= (times[place - 1] ?? 0))) return entries;
  return [...entries].sort((one, other) => Date.parse(one.at) - Date.parse(other.at));
}

export function HistoryList(given: { history: History; step: string; token: string; isCompleted: boolean; clear: () => void; follow: (token: string) => void }): JSX.Element {
  const { history, step, token, isCompleted, clear, follow } = given;
  const [text, setText] = useState("");
  const [shown, setShown] = useState(SHOWN);
  const fits = (entry: Entry): boolean => (!step || entry.step === step) && (!text || `${entry.type} ${entry.step ?? ""} ${entry.by ?? ""} ${entry.token}`.includes(text));
  const found = history.entries.filter(fits);
  const start = Date.parse(history.entries[0]?.at ?? "");
  return (
    <Card
      class="history"
      title={<>History {token && <span class="muted">of branch {token}</span>}</>}
      aside={
        <>
          {(step || token) && (
            <button type="button" class="chip" onClick={clear}>
              {step || token} ✕
            </button>
          )}
          <input type="search" aria-label="Filter the history" placeholder="filter" value={text} onInput={(event) => setText(event.currentTarget.value)} />
          <span class="muted">
            {found.length}
            {history.hasMore && "+"}
          </span>
        </>
      }
    >
      {history.error && <Empty title="The history cannot be read">{history.error}</Empty>}
      {found.length > shown && (
        <button type="button" class="quiet earlier" onClick={() => setShown(shown + 5 * SHOWN)}>
          {found.length - shown} earlier entries
        </button>
      )}
      <ol>
        {found.slice(-shown).map((entry) => (
          <Line key={entry.id} entry={entry} start={start} isTolerated={isCompleted && failedInBranch(entry)} follow={token ? null : follow} />
        ))}
      </ol>
      {history.hasMore && (
        <button type="button" class="quiet earlier" onClick={history.more}>
          Read on
        </button>
      )}
    </Card>
  );
}

function Line({ entry, start, isTolerated, follow }: { entry: Entry; start: number; isTolerated: boolean; follow: ((token: string) => void) | null }): JSX.Element {
  const [isOpen, setOpen] = useState(false);
  const hasData = entry.data !== null && entry.data !== undefined;
  const since = (Date.parse(entry.at) - start) / 1000;
  return (
    <li class={`entry ${isTolerated ? "is-tolerated" : toneOf(entry.type)}`}>
      <time dateTime={entry.at} title={full(entry.at)}>
        {when(entry.at)} <span class="muted">{since >= 0 && `+${span(since)}`}</span>
      </time>
      <span class="type">
        <i aria-hidden="true" />
        {entry.type}
        {isTolerated && <span class="muted">tolerated</span>}
      </span>
      <span class="step">
        {entry.step && <span>{entry.step}</span>}
        {entry.attempt !== null && entry.attempt > 1 && <span class="muted"> attempt {entry.attempt}</span>}
        {entry.token !== "0" && follow && (
          <button type="button" class="quiet" title="Only this branch" onClick={() => follow(entry.token)}>
            {entry.token}
          </button>
        )}
        {hasData && !isOpen && <code class="peek">{peek(entry)}</code>}
      </span>
      <span class="more">
        {entry.by && !NOBODY.test(entry.by) && <span class="muted" title={entry.by}>by {whom(entry.by)}</span>}
        {hasData && (
          <button type="button" class="quiet" aria-expanded={isOpen} aria-label={`Data of ${entry.type}`} onClick={() => setOpen(!isOpen)}>
            {isOpen ? "▾" : "▸"} data
          </button>
        )}
      </span>
      {isOpen && <Data value={entry.data} />}
    </li>
  );
}

/** Who wrote an entry, without the key and the id of an event: those are in its title. */
function whom(by: string): string {
  return by.replace(/^event:([^#]+)#.*$/, "event $1");
}

const PEEKED = 120;

/** The beginning of an entry's data, on its line: of an error what it says, of a result the result. */
function peek({ data, step }: Entry): string {
  const named = data !== null && typeof data === "object" && !Array.isArray(data) ? data : {};
  const error = named["error"] as { type?: string; message?: string } | null | undefined;
  const next = typeof named["next"] === "string" ? `→ ${named["next"]}` : "";
  if (error?.message) return [`${error.type}: ${error.message}`.slice(0, PEEKED), next].filter(Boolean).join(" ");
  if (next && !("output" in named)) return next;
  if (typeof named["until"] === "string") return `${step === UNTIL ? "" : "until "}${when(named["until"])}`;
  if (typeof named["at"] === "string") return `at ${when(named["at"])}`;
  const text = brief("output" in named ? (named["output"] ?? null) : data, PEEKED);
  return text === "{}" || text === "null" ? "" : text;
}

/** Which rule took the error that a step failed with last, and where it led. */
export function takenBy(entries: Entry[], step: string): string {
  const failed = entries.findLast((entry) => entry.type === "step.failed" && entry.step === step);
  const { rules, next } = (failed?.data ?? {}) as { rules?: string[]; next?: string | null };
  if (!rules?.length) return "";
  return `The rule ${rules.at(-1)} took it${next ? `, and the run went on to ${next}` : ""}.`;
}

/** Whether an entry tells of a failure in a branch: if the run completed, its fork tolerated it. */
export function failedInBranch(entry: Entry): boolean {
  return entry.token !== "0" && entry.type.endsWith("failed");
}

export function toneOf(type: string): string {
  if (/failed|refused|stuck|timed_out|rejected/.test(type)) return "is-failed";
  if (/cancel|skipped/.test(type)) return "is-cancelled";
  if (/compensat/.test(type)) return "is-compensated";
  if (/completed|received|joined|fired|granted|compensated/.test(type)) return "is-completed";
  if (/requested|awaited|sleep|scheduled|pending|escalated/.test(type)) return "is-waiting";
  return "is-running";
}
