// What a redrive would do, before it does it: what it keeps, where it goes on, and what comes to it again.

import type { ComponentChildren, JSX } from "preact";
import type { Json } from "./types";
import { counted, full, shortId, when } from "./words";

const SHOWN = 8; // of each list; the command tells all

interface Part {
  token: string;
  step: string;
}

interface SentAgain {
  token?: string; // an older server does not say
  event: string;
  document: string;
  event_id: string;
  at: string;
}

export interface Redrive {
  run_id: string;
  redriven_as: string | null;
  refused: string | null;
  kept_records: number;
  kept: Part[];
  again: Part[];
  dropped: Part[];
  sent_again?: SentAgain[];
}

/** The answer of a dry run of a redrive; null for any other. */
export function foretoldOf(body: Json): Redrive | null {
  return body !== null && typeof body === "object" && "kept_records" in body ? (body as unknown as Redrive) : null;
}

export function Foretold({ told }: { told: Redrive }): JSX.Element {
  const { redriven_as: made, kept, again, dropped, sent_again: sent = [] } = told;
  return (
    <div class="told is-done foretold" role="status">
      <strong>Nothing was changed.</strong>{" "}
      {made && (
        <>
          It is redriven already, as <a href={`#/runs/${encodeURIComponent(made)}`}>{shortId(made)}</a>: a redrive {told.refused ? "is refused, as that was from another step or version" : "answers with that run"}.{" "}
        </>
      )}
      The new run {made ? "would have kept" : "would keep"} {counted(told.kept_records, "record")}.
      <dl>
        <List name="Kept" of={kept.map((one) => place(one.token, one.step))} />
        <List name="Goes on at" of={again.map((one) => place(one.token, one.step || "what the code does next"))} />
        <List name="Not kept" of={dropped.filter((one) => one.token === "0").map((one) => <>{one.step} <span class="muted">which completed after the failure</span></>)} />
        <List name="Runs again" of={dropped.filter((one) => one.token !== "0").map((one) => <>{place(one.token, one.step)} <span class="muted">which completed after the failure</span></>)} />
        <List name="Sent again" of={sent.map(came)} />
      </dl>
      {again.length > 0 && !again.some((one) => one.step) && "No operation runs again. If the function's own code raised, mend it, or go on from a step."}
    </div>
  );
}

/** A step, with its branch. */
function place(token: string, step: string): JSX.Element {
  return (
    <>
      {step} {token !== "0" && <code title="The branch">{token}</code>}
    </>
  );
}

/** A document, or an event, with when it had come. */
function came({ token = "0", event, document, event_id, at }: SentAgain): JSX.Element {
  return (
    <>
      <span title={`${event}, ${event_id}`}>{document || event}</span> <time class="muted" dateTime={at} title={full(at)}>{when(at)}</time>{" "}
      {token !== "0" && <code title="For this branch alone">{token}</code>}
    </>
  );
}

function List({ name, of }: { name: string; of: ComponentChildren[] }): JSX.Element | null {
  if (of.length === 0) return null;
  return (
    <div>
      <dt>{name}</dt>
      <dd>
        <ul>
          {of.slice(0, SHOWN).map((one, index) => (
            <li key={index}>{one}</li>
          ))}
          {of.length > SHOWN && <li class="muted">and {of.length - SHOWN} more</li>}
        </ul>
      </dd>
    </div>
  );
}
