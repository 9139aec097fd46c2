// A dialog that asks before it acts, shows the command that does the same, and then what happened.

import { Fragment, type JSX } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import type { Action, Field } from "./actions";
import { get, post, Refusal, remove, useLive } from "./api";
import { failureOf, Told, type Outcome } from "./told";
import type { Json, Workflow } from "./types";
import { Command, Dialog, showOutcome } from "./ui";

export function Act({ action, onClose, onDone }: { action: Action; onClose: () => void; onDone?: () => void }): JSX.Element {
  const [texts, setTexts] = useState(() => Object.fromEntries(action.fields.map((field) => [field.name, field.value ?? ""])));
  const [outcome, setOutcome] = useState<Outcome | null>(null);
  const [isBusy, setBusy] = useState(false);
  const isDry = Boolean(texts["dry"]);
  const done = outcome !== null && "status" in outcome && action.method !== "GET" && !isDry && !failureOf(outcome);
  const close = useRef<HTMLButtonElement>(null);
  const send = useRef<HTMLButtonElement>(null);
  useEffect(() => void (done && close.current?.focus()), [done]); // the field that had the focus takes none now
  useEffect(() => void (outcome && showOutcome(send.current)), [outcome]);
  const fill = (name: string, text: string): void => {
    setTexts({ ...texts, [name]: text });
    setOutcome(null); // it is not of what stands there now
  };
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
          <Fragment key={field.name}>
            <label class={field.kind === "check" ? "check" : ""}>
              {field.kind !== "check" && field.label}
              <Input field={field} autofocus={index === 0} disabled={done} value={texts[field.name] ?? ""} set={(text) => fill(field.name, text)} />
              {field.kind === "check" && field.label}
            </label>
            {field.known && !done && <Known {...field.known} value={texts[field.name] ?? ""} set={(text) => fill(field.name, text)} />}
          </Fragment>
        ))}
        <Command line={action.command(texts)} />
        {outcome && <Told outcome={outcome} run={action.path} />}
        <footer>
          <button type="button" ref={close} onClick={onClose}>
            {done ? "Close" : "Leave it"}
          </button>
          {!done && (
            <button type="submit" ref={send} class={action.isDanger && !isDry ? "danger" : "primary"} disabled={isBusy}>
              {isDry ? (action.dryVerb ?? "Only tell") : action.verb}
            </button>
          )}
        </footer>
      </form>
    </Dialog>
  );
}

/** The names that the function's code has, to choose from. One that a helper of it has must be typed. */
function Known({ workflow, of, value, set }: { workflow: string; of: "queries" | "updates"; value: string; set: (text: string) => void }): JSX.Element | null {
  const names = useLive<Workflow>(`/workflows/${encodeURIComponent(workflow)}`, { isOver: true }).value?.[of] ?? [];
  return names.length ? (
    <div class="chips" role="group" aria-label={`The function's ${of}`}>
      {names.map((name) => (
        <button type="button" key={name} aria-pressed={name === value} onClick={() => set(name)}>
          {name}
        </button>
      ))}
    </div>
  ) : null;
}

function Input(given: { field: Field; value: string; autofocus: boolean; disabled: boolean; set: (text: string) => void }): JSX.Element {
  const { field, value, autofocus, disabled, set } = given;
  if (field.kind === "choice") {
    return (
      <select value={value} required={field.required ?? false} disabled={disabled} onChange={(event) => set(event.currentTarget.value)}>
        {["", ...(field.choices ?? [])].map((one) => (
          <option key={one}>{one}</option>
        ))}
      </select>
    );
  }
  if (field.kind === "check") return <input type="checkbox" checked={Boolean(value)} disabled={disabled} onChange={(event) => set(event.currentTarget.checked ? "yes" : "")} />;
  if (field.kind === "json") {
    return <textarea rows={Math.min(Math.max(value.split("\n").length, 4), 10)} spellcheck={false} value={value} disabled={disabled} autofocus={autofocus} onFocus={(event) => autofocus && fromItsStart(event.currentTarget)} onInput={(event) => set(event.currentTarget.value)} />;
  }
  return <input value={value} required={field.required ?? false} disabled={disabled} autofocus={autofocus} autocomplete="off" onInput={(event) => set(event.currentTarget.value)} />;
}

/** Shows a long text from its start when it first gets the focus. */
function fromItsStart(area: HTMLTextAreaElement): void {
  if (area.dataset["shown"]) return;
  area.dataset["shown"] = "yes";
  area.setSelectionRange(0, 0);
  area.scrollTop = 0;
}

async function perform(action: Action, texts: Record<string, string>): Promise<Outcome> {
  const values: Record<string, Json> = {};
  for (const field of action.fields) {
    const text = texts[field.name] ?? "";
    try {
      values[field.name] = field.kind === "json" ? (text.trim() ? (JSON.parse(text) as Json) : null) : text;
    } catch (error) {
      return { failed: `${field.label.replace(/[,;].*/, "")}: this is not JSON: ${(error as Error).message}` };
    }
  }
  try {
    const path = typeof action.path === "string" ? action.path : action.path(texts);
    if (action.method === "GET") return { status: 200, body: await get<Json>(path) };
    const answer = await (action.method === "DELETE" ? remove<Json>(path) : post<Json>(path, action.body(values)));
    return { status: answer.status, body: answer.body };
  } catch (error) {
    if (error instanceof Refusal) return { refused: error };
    return { failed: "The server does not answer. Nothing is known of what it did; look before you try again." };
  }
}
