// Pauses of workflows: which there are, and how to make one and end it.

import type { JSX } from "preact";
import { useState } from "preact/hooks";
import { Act } from "./act";
import { by, type Action } from "./actions";
import type { Stats, WorkflowPause } from "./types";
import { Time } from "./ui";
import { commandLine } from "./words";

export const EVERY = "*"; // in the place of a workflow's name: all of them

/** The pause of this workflow: its own, or that of all. */
export function pauseOf(stats: Stats | null, workflow: string): WorkflowPause | null {
  const find = (name: string): WorkflowPause | undefined => stats?.paused.find((one) => one.workflow === name);
  return find(workflow) ?? find(EVERY) ?? null;
}

/** One line for each pause, with the button that ends it. */
export function Pauses({ pauses, again }: { pauses: WorkflowPause[]; again: () => void }): JSX.Element | null {
  const [action, setAction] = useState<Action | null>(null);
  if (!pauses.length && !action) return null;
  return (
    <>
      {pauses.map((one) => (
        <div class="paused" role="status" key={one.workflow}>
          <span>
            {one.workflow === EVERY ? <strong>All workflows are paused</strong> : <><strong>{one.workflow}</strong> is paused</>}
            {one.by && ` by ${one.by}`}, <Time at={one.since} />
            {one.reason && `: ${one.reason}`}. <span class="muted">Runs stop before their next step. New ones are accepted.</span>
          </span>
          <button type="button" onClick={() => setAction(unpausingAll(one.workflow))}>
            Unpause {one.workflow === EVERY ? "all" : "it"}
          </button>
        </div>
      ))}
      {action && <Act action={action} onClose={() => setAction(null)} onDone={again} />}
    </>
  );
}

/** The button that pauses a workflow, or all. Its dialog stays when the pause takes the button away. */
export function PauseButton({ workflow, stats, again }: { workflow: string; stats: Stats | null; again: () => void }): JSX.Element {
  const [action, setAction] = useState<Action | null>(null);
  return (
    <>
      {!stats?.paused.some((one) => one.workflow === workflow) && (
        <button type="button" onClick={() => setAction(pausingAll(workflow))}>
          {workflow === EVERY ? "Pause all" : "Pause"}
        </button>
      )}
      {action && <Act action={action} onClose={() => setAction(null)} onDone={again} />}
    </>
  );
}

const place = (workflow: string): string => (workflow === EVERY ? "/workflows:" : `/workflows/${encodeURIComponent(workflow)}/`);
const named = (workflow: string): string => (workflow === EVERY ? "--all" : workflow);

function pausingAll(workflow: string): Action {
  return {
    title: workflow === EVERY ? "Pause all workflows" : `Pause ${workflow}`,
    verb: "Pause",
    about: `${workflow === EVERY ? "Every run" : "Each of its runs"} stops before its next step. A step that runs now ends, and its result counts. Deadlines go on.`,
    fields: [{ name: "reason", label: "Reason" }, by()],
    path: `${place(workflow)}pause`,
    body: ({ reason, by }) => ({ reason: reason ?? "", by: by ?? "" }),
    command: ({ reason = "", by = "" }) => commandLine("pause", named(workflow), ["--reason", reason], ["--by", by]),
    isDanger: workflow === EVERY,
  };
}

function unpausingAll(workflow: string): Action {
  return {
    title: workflow === EVERY ? "Unpause all workflows" : `Unpause ${workflow}`,
    verb: "Unpause",
    about: workflow === EVERY ? "Runs go on from where they are, but those of workflows that are paused themselves." : "Its runs go on from where they are. Answers and events that came meanwhile count.",
    fields: [by()],
    path: `${place(workflow)}unpause`,
    body: ({ by }) => ({ by: by ?? "" }),
    command: ({ by = "" }) => commandLine("unpause", named(workflow), ["--by", by]),
  };
}
