// What came of an action: done, pending or refused; of one on many runs, how far it is.

import type { JSX } from "preact";
import { useEffect, useState } from "preact/hooks";
import type { Action } from "./actions";
import { useLive, type Refusal } from "./api";
import { Data } from "./data";
import { Foretold, foretoldOf } from "./foretold";
import type { Json, Run } from "./types";
import { counted, plain, shortId, TERMINAL } from "./words";

const BATCH = "stepwell:batch"; // the workflow that acts on many runs

export type Outcome = { status: number; body: Json } | { refused: Refusal } | { failed: string };

/** The error of an update that failed. The call itself succeeded. */
export function failureOf(outcome: Outcome | null): { type: string; message: string } | null {
  const body = outcome && "status" in outcome ? (outcome.body as { name?: string; error?: { type: string; message: string } | null } | null) : null;
  return (body?.name && body.error) || null;
}

export function Told({ outcome, run }: { outcome: Outcome; run?: Action["path"] }): JSX.Element {
  if ("status" in outcome) {
    const body = (outcome.body ?? {}) as { deleted_runs?: number; status?: string; run_id?: string; workflow?: string; name?: string; kept?: number; pending?: boolean };
    const foretold = foretoldOf(outcome.body);
    if (foretold) return <Foretold told={foretold} />;
    if (body.workflow === BATCH && body.run_id) return <Batch id={body.run_id} />;
    const failure = failureOf(outcome);
    if (failure) return <div class="told is-refused" role="alert"><strong>{failure.type}</strong> {failure.message}</div>;
    if (body.deleted_runs) return <div class="told is-done" role="status"><strong>Done.</strong> Deleted {counted(body.deleted_runs, "run")}. <a href="#/runs">All runs</a></div>;
    const isOther = body.run_id && typeof run === "string" && !run.startsWith(`/runs/${encodeURIComponent(body.run_id)}/`);
    return (
      <div class="told is-done" role="status">
        <strong>{body.pending ? "Pending." : "Done."}</strong> {body.pending && "The function takes it once it waits. "}
        {isOther ? (
          <>
            The new run is <a href={`#/runs/${encodeURIComponent(body.run_id ?? "")}`}>{shortId(body.run_id ?? "")}</a>, and it is {plain(body.status ?? "")}.
          </>
        ) : (
          body.status && `The run is ${plain(body.status)} now.`
        )}
        {outcome.body !== null && <Data value={outcome.body} open={body.name || body.kept !== undefined ? 2 : 0} />}
      </div>
    );
  }
  if ("failed" in outcome) return <div class="told is-refused" role="alert">{outcome.failed}</div>;
  const { problem } = outcome.refused;
  return (
    <div class="told is-refused" role="alert">
      <strong>{problem.title || "Refused"}</strong> {!problem.errors?.length && problem.detail !== problem.title && problem.detail}
      {problem.hint && <p>{problem.hint}</p>}
      {problem.errors?.length > 0 && (
        <ul>
          {problem.errors.map((one) => (
            <li key={one.path + one.message}>
              <code>{one.path || "/"}</code> {one.message}
            </li>
          ))}
        </ul>
      )}
    </div>
  );
}

interface Report {
  dry_run: boolean;
  matched: number;
  done: number;
  unchanged: number;
  refused: Record<string, number>;
}

/** The report of a run that acts on many, as it comes. */
function Batch({ id }: { id: string }): JSX.Element {
  const [isOver, setOver] = useState(false);
  const run = useLive<Run>(`/runs/${encodeURIComponent(id)}`, { isOver }).value;
  useEffect(() => setOver(run !== null && TERMINAL.has(run.status)), [run]);
  const report = (run?.state["report"] ?? null) as unknown as Report | null;
  return (
    <div class="told is-done" role="status">
      <strong>{isOver ? "Done." : "At work."}</strong> {report && reported(report)} {report?.dry_run && isOver && "Nothing was changed. "}
      <a href={`#/runs/${encodeURIComponent(id)}`}>Its own run</a>
    </div>
  );
}

function reported({ dry_run, matched, done, unchanged, refused }: Report): string {
  if (dry_run) return `${counted(matched, "run")} ${matched === 1 ? "fits" : "fit"}.`;
  const others = Object.entries(refused).map(([code, count]) => `${count} refused: ${plain(code)}`);
  return [`${done} of ${counted(matched, "run")} changed`, unchanged && `${unchanged} were so already`, ...others].filter(Boolean).join(", ") + ".";
}
