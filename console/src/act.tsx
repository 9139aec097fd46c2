// A dialog that asks before it acts, shows the command that does the same, and then what happened.

import type { JSX } from "preact";
import { useState } from "preact/hooks";
import { post, Refusal } from "./api";
import type { Json, Run } from "./types";
import { Command, Data, Dialog } from "./ui";
import { commandLine, plain } from "./words";

export interface Field {
  name: string;
  label: string;
  kind?: "text" | "json";
  value?: string;
  required?: boolean;
}

export interface Action {
  title: string;
  verb: string;
  about: string;
  fields: Field[];
  path: string;
  body: (values: Record<string, Json>) => Json;
  command: (texts: Record<string, string>) => string;
  isDanger?: boolean;
}

type Outcome = { status: number; body: Json } | { refused: Refusal } | { failed: string };

export function Act({ action, onClose, onDone }: { action: Action; onClose: () => void; onDone?: () => void }): JSX.Element {
  const [texts, setTexts] = useState(() => Object.fromEntries(action.fields.map((field) => [field.name, field.value ?? ""])));
  const [outcome, setOutcome] = useState<Outcome | null>(null);
  const [isBusy, setBusy] = useState(false);
  const done = outcome !== null && "status" in outcome;
  const submit = async (event: Event): Promise<void> => {
    event.preventDefault();
    setBusy(true);
    const found = await perform(action, texts);
    setBusy(false);
    setOutcome(found);
    if (texts["by"]) localStorage.setItem("by", texts["by"]);
    if ("status" in found) onDone?.();
  };
  return (
    <Dialog title={action.title} onClose={onClose}>
      <form onSubmit={(event) => void submit(event)}>
        <p class="muted">{action.about}</p>
        {action.fields.map((field, index) => (
          <label key={field.name}>
            {field.label}
            <Input field={field} autofocus={index === 0} disabled={done} value={texts[field.name] ?? ""} set={(text) => setTexts({ ...texts, [field.name]: text })} />
          </label>
        ))}
        <Command line={action.command(texts)} />
        {outcome && <Told outcome={outcome} />}
        <footer>
          <button type="button" onClick={onClose}>
            {done ? "Close" : "Leave it"}
          </button>
          {!done && (
            <button type="submit" class={action.isDanger ? "danger" : "primary"} disabled={isBusy}>
              {action.verb}
            </button>
          )}
        </footer>
      </form>
    </Dialog>
  );
}

function Input(given: { field: Field; value: string; autofocus: boolean; disabled: boolean; set: (text: string) => void }): JSX.Element {
  const { field, value, autofocus, disabled, set } = given;
  if (field.kind === "json") {
    return <textarea rows={4} spellcheck={false} value={value} disabled={disabled} autofocus={autofocus} onInput={(event) => set(event.currentTarget.value)} />;
  }
  return <input value={value} required={field.required ?? false} disabled={disabled} autofocus={autofocus} autocomplete="off" onInput={(event) => set(event.currentTarget.value)} />;
}

async function perform(action: Action, texts: Record<string, string>): Promise<Outcome> {
  const values: Record<string, Json> = {};
  for (const field of action.fields) {
    const text = texts[field.name] ?? "";
    try {
      values[field.name] = field.kind === "json" ? (text.trim() ? (JSON.parse(text) as Json) : null) : text;
    } catch (error) {
      return { failed: `${field.label}: this is not JSON: ${(error as Error).message}` };
    }
  }
  try {
    const answer = await post<Json>(action.path, action.body(values));
    return { status: answer.status, body: answer.body };
  } catch (error) {
    if (error instanceof Refusal) return { refused: error };
    return { failed: "The server does not answer. Nothing is known of what it did; look before you try again." };
  }
}

export function Told({ outcome }: { outcome: Outcome }): JSX.Element {
  if ("status" in outcome) {
    const body = outcome.body as { status?: string; run_id?: string };
    return (
      <div class="told is-done" role="status">
        <strong>Done.</strong> {body.status ? `The run is ${plain(body.status)} now.` : ""}
        <Data value={outcome.body} open={0} />
      </div>
    );
  }
  if ("failed" in outcome) return <div class="told is-refused" role="alert">{outcome.failed}</div>;
  const { problem } = outcome.refused;
  return (
    <div class="told is-refused" role="alert">
      <strong>{problem.title || "Refused"}</strong> {problem.detail}
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

function by(): Field {
  return { name: "by", label: "Your name, for the history", value: localStorage.getItem("by") ?? "" };
}

const base = (run: { run_id: string }): string => `/runs/${encodeURIComponent(run.run_id)}`;

export function approval(run: { run_id: string }, step: string, wait = ""): Action {
  return {
    title: "Approve",
    verb: "Approve",
    about: `The run waits at ${step}. An approval cannot be taken back.`,
    fields: [by(), { name: "data", label: "Data for the workflow, as JSON; may be empty", kind: "json" }],
    path: `${base(run)}/approve`,
    body: ({ by, data }) => ({ by: by ?? "", data: data ?? null, wait }),
    command: ({ by = "", data = "" }) => commandLine("approve", run.run_id, ["--by", by], ["--data", data], ["--step", wait]),
  };
}

export function rejection(run: { run_id: string }, step: string, wait = ""): Action {
  return {
    title: "Reject",
    verb: "Reject",
    about: `The run waits at ${step}. The workflow's own rules decide what follows a rejection.`,
    fields: [{ name: "reason", label: "Reason" }, by()],
    path: `${base(run)}/reject`,
    body: ({ by, reason }) => ({ by: by ?? "", reason: reason ?? "", wait }),
    command: ({ by = "", reason = "" }) => commandLine("reject", run.run_id, ["--reason", reason], ["--by", by], ["--step", wait]),
    isDanger: true,
  };
}

export function cancellation(run: Run): Action {
  return {
    title: "Cancel this run",
    verb: "Cancel the run",
    about: "It ends now, with the child runs that it waits for. What its workflow compensates is undone first.",
    fields: [{ name: "reason", label: "Reason" }, by()],
    path: `${base(run)}/cancel`,
    body: ({ by, reason }) => ({ by: by ?? "", reason: reason ?? "" }),
    command: ({ by = "", reason = "" }) => commandLine("cancel", run.run_id, ["--reason", reason], ["--by", by]),
    isDanger: true,
  };
}

export function sending(run: Run, name: string): Action {
  return {
    title: "Send an event to this run",
    verb: "Send",
    about: "It ends the wait that its name fits, now or when the run comes to it.",
    fields: [
      { name: "name", label: "Name", value: name, required: true },
      { name: "payload", label: "Payload, as JSON; may be empty", kind: "json" },
    ],
    path: `${base(run)}/events`,
    body: ({ name, payload }) => ({ name: name ?? "", payload: payload ?? null }),
    command: ({ name = "", payload = "" }) => commandLine("event", name, ["--payload", payload], ["--run", run.run_id]),
  };
}

export function beginning(run: Run): Action {
  return {
    title: "Start this run",
    verb: "Start",
    about: "It was created and has waited since.",
    fields: [by()],
    path: `${base(run)}/start`,
    body: ({ by }) => ({ by: by ?? "" }),
    command: () => `curl -X POST ${location.origin}${base(run)}/start`,
  };
}
