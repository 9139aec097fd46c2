// What a run said: the error of its end or the last one, and what its steps emitted.

import type { JSX } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import { get, query, useLive } from "./api";
import { takenBy } from "./history";
import type { Entry, ErrorView, LogLine, Page, Run, Said } from "./types";
import { Card, Command, Failure } from "./ui";
import { brief, clock, commandLine, counted, full, TERMINAL } from "./words";

const SAID_MS = 2000; // between two looks at what a step says while it runs
const LINES_MS = 4000; // between two looks at what it logs: on AWS, few such looks a second are allowed
const LATE_MS = 60000; // CloudWatch takes a line in so much later at the most
const LATE_LOOKS = 4; // after the run has moved on, to wait or to end
const PAGES = 4; // of lines at a time
const EMITTED = 2000; // characters of what a step emitted
const SHOWN_LINES = 1000; // the newest ones

/** What the run failed with, or what a step failed with and the run went on from. */
export function LastError({ run, error, entries }: { run: Run; error: ErrorView; entries: Entry[] }): JSX.Element {
  const isEnd = TERMINAL.has(run.status) && run.status !== "completed";
  const taken = takenBy(entries, error.step);
  return (
    <Card title={isEnd ? "Error" : taken ? "The last error, which a rule took" : "The last error"} class={isEnd ? "is-error" : ""}>
      <Failure error={error} taken={taken} />
    </Card>
  );
}

/** What the steps logged, printed and emitted, followed while the run is open. `moved`: when the run last changed. */
export function Logs({ run, moved }: { run: Run; moved: number }): JSX.Element {
  const said = useLive<Page<Said>>(`/runs/${encodeURIComponent(run.run_id)}/output?limit=200`, { isOver: run.status !== "running", soonestMs: SAID_MS, isLate: true }).value?.items ?? [];
  const { lines, isMore, isRead, more } = useLines(run, moved);
  return (
    <Card title="Logs" class="o-logs" aside={lines.length > 0 && counted(lines.length, "line")}>
      {said.length > 0 && (
        <>
          <h3>Emitted</h3>
          <ol class="said" tabIndex={0} aria-label="What its steps emitted">
            {said.map((one) => (
              <li key={one.cursor}>
                <At at={one.at} />
                <b>{one.step}{one.token !== "0" && ` ${one.token}`}</b> <code>{typeof one.data === "string" ? one.data : brief(one.data, EMITTED)}</code>
              </li>
            ))}
          </ol>
          {lines.length > 0 && <h3>Logged</h3>}
        </>
      )}
      {lines.length > 0 && (
        <ol class="said lines" tabIndex={0} aria-label="What its steps logged and printed">
          {lines.slice(-SHOWN_LINES).map((one) => (
            <li key={one.id} class={`is-${one.level}`}>
              <At at={one.at} />
              <b>{one.step}{one.branch && ` ${one.branch}`}{one.attempt > 1 && ` try ${one.attempt}`}</b> <code>{one.level !== "info" && <span class="level">{one.level} </span>}{one.message}</code>
            </li>
          ))}
        </ol>
      )}
      {isRead && !lines.length && !said.length && <p class="muted">Its steps have logged nothing.</p>}
      {isMore && <button type="button" class="quiet" onClick={more}>Read on</button>}
      <Command line={commandLine("logs", run.run_id, ...(TERMINAL.has(run.status) ? [] : ["--follow"]))} />
    </Card>
  );
}

function At({ at }: { at: string }): JSX.Element {
  return (
    <time dateTime={at} title={full(at)}>
      {clock(at)}
    </time>
  );
}

/** The run's lines, by time. Those that come late are looked for again, so each is told by its id. */
function useLines(run: Run, moved: number): { lines: LogLine[]; isMore: boolean; isRead: boolean; more: () => void } {
  const kept = useRef(new Map<string, LogLine>());
  const place = useRef({ since: "", cursor: "" }); // of what was not read yet
  const [page, setPage] = useState<{ lines: LogLine[]; isMore: boolean; isRead: boolean }>({ lines: [], isMore: false, isRead: false });
  const read = async (): Promise<void> => {
    const last = [...kept.current.values()].at(-1);
    if (!place.current.cursor && last) place.current.since = new Date(Date.parse(last.at) - LATE_MS).toISOString();
    for (let pages = 0; pages < PAGES && (pages === 0 || place.current.cursor); pages++) {
      const found = await get<Page<LogLine>>(`/runs/${encodeURIComponent(run.run_id)}/logs` + query({ ...place.current, limit: "500" }), true);
      found.items.forEach((one) => kept.current.set(one.id, one));
      place.current.cursor = found.next_cursor ?? "";
    }
    const lines = [...kept.current.values()].sort((one, other) => Date.parse(one.at) - Date.parse(other.at));
    kept.current = new Map(lines.map((one) => [one.id, one]));
    setPage({ lines, isMore: place.current.cursor !== "", isRead: true });
  };
  useEffect(() => {
    let timer = 0;
    const isOld = run.ended_at !== null && Date.now() - Date.parse(run.ended_at) > LATE_MS * 2;
    let left = run.status === "running" ? Infinity : isOld ? 1 : LATE_LOOKS;
    let isStopped = false;
    const look = async (): Promise<void> => {
      if (!document.hidden) await read().catch(() => undefined); // the run itself tells of errors
      left -= 1;
      if (left > 0 && !isStopped) timer = window.setTimeout(() => void look(), LINES_MS);
    };
    void look();
    return () => {
      isStopped = true;
      window.clearTimeout(timer);
    };
  }, [run.run_id, run.status, moved]);
  return { ...page, more: () => void read().catch(() => undefined) };
}
