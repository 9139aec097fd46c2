// Starting a run: a form made of the workflow's input schema, or the JSON itself.

import type { JSX } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import { post, Refusal, useLive } from "./api";
import { Fields, Unchecked, Wrong } from "./fields";
import { alternatives, fieldsOf, first, isEmpty, isNames, othersOf, placed, plainSchema, type Schema, type Value } from "./schema";
import { Told } from "./told";
import type { Json, Page, Run, Workflow, WorkflowSummary } from "./types";
import { Command, Dialog, showOutcome } from "./ui";
import { commandLine } from "./words";

const TAGS: Schema = { type: "object", additionalProperties: { type: "string" } };
const CARRIED = /^[ -~]*$/; // what an HTTP header can carry

/** What a start may have beside its input. */
interface Others {
  tags: { [name: string]: Json };
  id: string;
  key: string;
}

export function Start({ workflow, onClose }: { workflow: string; onClose: () => void }): JSX.Element {
  const { value, error } = useLive<Page<WorkflowSummary>>("/workflows", { isOver: true });
  const names = value?.items.map((one) => one.name) ?? [];
  const [chosen, choose] = useState(workflow);
  const name = chosen || names[0] || "";
  return (
    <Dialog title="Start a run" onClose={onClose}>
      <label>
        Workflow
        <select autofocus value={name} onChange={(event) => choose(event.currentTarget.value)}>
          {names.map((one) => (
            <option key={one}>{one}</option>
          ))}
        </select>
      </label>
      {error && <Told outcome={{ refused: error }} />}
      {value && !names.length && <p class="muted">No workflow is deployed.</p>}
      {name && <Form key={name} name={name} onClose={onClose} />}
    </Dialog>
  );
}

function Form({ name, onClose }: { name: string; onClose: () => void }): JSX.Element | null {
  const { value, error } = useLive<Workflow>(`/workflows/${encodeURIComponent(name)}`, { isOver: true });
  if (error) return <Told outcome={{ refused: error }} />;
  return (
    value && (
      <Unchecked.Provider value={!("input_schema" in value.document)}>
        <Inputs name={name} schema={(value.input_schema ?? {}) as Schema} onClose={onClose} />
      </Unchecked.Provider>
    )
  );
}

function Inputs({ name, schema, onClose }: { name: string; schema: Schema; onClose: () => void }): JSX.Element {
  const root = plainSchema(schema, schema);
  const [choice] = alternatives(root, schema); // of an input with several shapes, the first has the form
  const shape = choice ?? root;
  const isNothing = isEmpty(shape);
  const hasFields = isNothing || fieldsOf(shape).length > 0 || othersOf(shape) !== null;
  const [asJson, setAsJson] = useState(!hasFields);
  const [value, setValue] = useState<Value>(() => first(root, schema) ?? {});
  const [text, setText] = useState("{}");
  const [refused, setRefused] = useState<{ refused: Refusal } | { failed: string } | null>(null);
  const [others, setOthers] = useState<Others>({ tags: {}, id: "", key: "" });
  const [isBusy, setBusy] = useState(false); // a second start would be a second run
  const place = useRef<HTMLFormElement>(null);
  const wrong = placed(refused && "refused" in refused ? (refused.refused.problem.errors ?? []) : []);
  useEffect(() => {
    const mistaken = place.current?.querySelector<HTMLElement>("[aria-invalid]");
    if (mistaken) mistaken.focus();
    else if (refused) showOutcome(place.current?.querySelector("[type=submit]"));
  }, [refused]);
  const given = asJson ? parse(text) : { value: value ?? {} };
  const toggle = (): void => {
    if (!asJson) setText(JSON.stringify(value ?? {}, null, 2));
    else if ("value" in given) setValue(given.value);
    setAsJson(!asJson);
  };
  const submit = async (event: Event): Promise<void> => {
    event.preventDefault();
    if ("mistake" in given) return setRefused({ failed: given.mistake });
    if (!CARRIED.test(others.key)) return setRefused({ failed: "The idempotency key has characters that an HTTP header cannot carry. Take letters and digits." });
    setBusy(true);
    try {
      const answer = await post<Run>(`/workflows/${encodeURIComponent(name)}/runs`, bodyOf(given.value, others), others.key.trim());
      onClose();
      location.hash = `/runs/${encodeURIComponent(answer.body.run_id)}`;
    } catch (error) {
      setRefused(error instanceof Refusal ? { refused: error } : { failed: "The server does not answer. Look at the list of runs before you try again." });
      setBusy(false);
    }
  };
  return (
    <form ref={place} onSubmit={(event) => void submit(event)}>
      {asJson ? (
        <label>
          Input, as JSON
          <textarea rows={10} spellcheck={false} value={text} onInput={(event) => setText(event.currentTarget.value)} />
        </label>
      ) : (
        <>
          <Wrong text={wrong.get("")} />
          {isNothing && <p class="muted">It takes no input.</p>}
          <Fields schema={shape} root={schema} path="" value={value} set={setValue} wrong={wrong} />
        </>
      )}
      {hasFields && (
        <button type="button" class="quiet" onClick={toggle}>
          {asJson ? "Fill in a form" : "Write JSON"}
        </button>
      )}
      <More others={others} set={setOthers} />
      <Command line={commandLine("run", name, ["-i", "value" in given ? JSON.stringify(given.value) : "…"], ...optionsOf(others))} />
      {refused && <Told outcome={refused} />}
      <footer>
        <button type="button" onClick={onClose}>
          Leave it
        </button>
        <button type="submit" class="primary" disabled={isBusy}>
          Start
        </button>
      </footer>
    </form>
  );
}

/** What few starts need, folded away. A start has either an id or a key: each makes it repeatable. */
function More({ others, set }: { others: Others; set: (others: Others) => void }): JSX.Element {
  return (
    <details class="others">
      <summary>More</summary>
      <fieldset>
        <legend>Tags</legend>
        <Fields schema={TAGS} root={TAGS} path="" value={others.tags} set={(tags) => set({ ...others, tags: isNames(tags) ? (tags as Others["tags"]) : {} })} wrong={new Map()} />
      </fieldset>
      <label>
        <span>
          Run id <small class="muted">a second start with it gets the first run</small>
        </span>
        <input autocomplete="off" placeholder="made for you" disabled={others.key !== ""} value={others.id} onInput={(event) => set({ ...others, id: event.currentTarget.value })} />
      </label>
      <label>
        <span>
          Idempotency key <small class="muted">in place of an id: starts with the same key make one run</small>
        </span>
        <input autocomplete="off" disabled={others.id !== ""} value={others.key} onInput={(event) => set({ ...others, key: event.currentTarget.value })} />
      </label>
    </details>
  );
}

function bodyOf(input: Json, { tags, id }: Others): Json {
  return { input, ...(Object.keys(tags).length ? { tags } : {}), ...(id.trim() ? { run_id: id.trim() } : {}) };
}

function optionsOf({ tags, id, key }: Others): [string, string][] {
  return [...Object.entries(tags).map(([name, value]): [string, string] => ["--tag", `${name}=${String(value)}`]), ["--id", id.trim()], ["--key", key.trim()]];
}

function parse(text: string): { value: Json } | { mistake: string } {
  try {
    return { value: JSON.parse(text || "{}") as Json };
  } catch (error) {
    return { mistake: `This is not JSON: ${(error as Error).message}` };
  }
}
