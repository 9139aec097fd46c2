// Starting a run: a form made of the workflow's input schema, or the JSON itself.

import type { JSX } from "preact";
import { useEffect, useState } from "preact/hooks";
import { get, post, Refusal, useLive } from "./api";
import { Told } from "./act";
import type { Json, Page, Run, Workflow, WorkflowSummary } from "./types";
import { Command, Dialog } from "./ui";
import { commandLine } from "./words";

interface Schema {
  type?: string | string[];
  enum?: Json[];
  const?: Json;
  default?: Json;
  description?: string;
  properties?: Record<string, Schema>;
  required?: string[];
}

export function Start({ workflow, onClose }: { workflow: string; onClose: () => void }): JSX.Element {
  const names = useLive<Page<WorkflowSummary>>("/workflows").value?.items.map((one) => one.name) ?? [];
  const [chosen, choose] = useState(workflow);
  const name = chosen || names[0] || "";
  return (
    <Dialog title="Start a run" onClose={onClose}>
      <label>
        Workflow
        <select value={name} onChange={(event) => choose(event.currentTarget.value)}>
          {names.map((one) => (
            <option key={one}>{one}</option>
          ))}
        </select>
      </label>
      {name && <Form key={name} name={name} onClose={onClose} />}
    </Dialog>
  );
}

function Form({ name, onClose }: { name: string; onClose: () => void }): JSX.Element | null {
  const [schema, setSchema] = useState<Schema | null>(null);
  useEffect(() => {
    void get<Workflow>(`/workflows/${encodeURIComponent(name)}`).then((found) => setSchema((found.document["input_schema"] ?? {}) as Schema));
  }, [name]);
  return schema && <Inputs name={name} schema={schema} onClose={onClose} />;
}

function Inputs({ name, schema, onClose }: { name: string; schema: Schema; onClose: () => void }): JSX.Element {
  const fields = fieldsOf(schema);
  const [asJson, setAsJson] = useState(!fields.length);
  const [texts, setTexts] = useState<Record<string, string>>(() => Object.fromEntries(fields.map(([field, one]) => [field, first(one)])));
  const [text, setText] = useState("{}");
  const [refused, setRefused] = useState<{ refused: Refusal } | { failed: string } | null>(null);
  const given = asJson ? parse(text) : gathered(fields, texts);
  const toggle = (): void => {
    if (!asJson && "value" in given) setText(JSON.stringify(given.value, null, 2));
    setAsJson(!asJson);
  };
  const submit = async (event: Event): Promise<void> => {
    event.preventDefault();
    if ("mistake" in given) return setRefused({ failed: given.mistake });
    try {
      const answer = await post<Run>(`/workflows/${encodeURIComponent(name)}/runs`, { input: given.value });
      onClose();
      location.hash = `/runs/${encodeURIComponent(answer.body.run_id)}`;
    } catch (error) {
      setRefused(error instanceof Refusal ? { refused: error } : { failed: "The server does not answer. Look at the list of runs before you try again." });
    }
  };
  return (
    <form onSubmit={(event) => void submit(event)}>
      {asJson ? (
        <label>
          Input, as JSON
          <textarea rows={10} spellcheck={false} value={text} onInput={(event) => setText(event.currentTarget.value)} />
        </label>
      ) : (
        fields.map(([field, one]) => (
          <label key={field}>
            <span>
              {field}
              {schema.required?.includes(field) ? "" : " (optional)"} {one.description && <small class="muted">{one.description}</small>}
            </span>
            <Entry schema={one} value={texts[field] ?? ""} set={(value) => setTexts({ ...texts, [field]: value })} />
          </label>
        ))
      )}
      {fields.length > 0 && (
        <button type="button" class="quiet" onClick={toggle}>
          {asJson ? "Fill in a form" : "Write JSON"}
        </button>
      )}
      <Command line={commandLine("run", name, ["-i", "value" in given ? JSON.stringify(given.value) : "…"])} />
      {refused && <Told outcome={refused} />}
      <footer>
        <button type="button" onClick={onClose}>
          Leave it
        </button>
        <button type="submit" class="primary">
          Start
        </button>
      </footer>
    </form>
  );
}

function Entry({ schema, value, set }: { schema: Schema; value: string; set: (value: string) => void }): JSX.Element {
  if (schema.enum || schema.type === "boolean") {
    const words = schema.enum ? schema.enum.map((one) => (typeof one === "string" ? one : JSON.stringify(one))) : ["true", "false"];
    return (
      <select value={value} onChange={(event) => set(event.currentTarget.value)}>
        {["", ...words].map((word) => (
          <option key={word}>{word}</option>
        ))}
      </select>
    );
  }
  if (isNumber(schema)) return <input type="number" step={schema.type === "integer" ? 1 : "any"} value={value} onInput={(event) => set(event.currentTarget.value)} />;
  if (schema.type === "string") return <input value={value} onInput={(event) => set(event.currentTarget.value)} />;
  return <textarea rows={3} spellcheck={false} placeholder="JSON" value={value} onInput={(event) => set(event.currentTarget.value)} />;
}

function isNumber(schema: Schema): boolean {
  return schema.type === "number" || schema.type === "integer";
}

/** The schema's properties, and what it requires without describing it. */
function fieldsOf(schema: Schema): [string, Schema][] {
  const properties = schema.properties ?? {};
  const bare = (schema.required ?? []).filter((name) => !(name in properties));
  return [...Object.entries(properties), ...bare.map((name): [string, Schema] => [name, {}])];
}

function first(schema: Schema): string {
  const value = schema.default ?? schema.const;
  if (value === undefined) return "";
  return typeof value === "string" ? value : JSON.stringify(value);
}

type Given = { value: Json } | { mistake: string };

function parse(text: string): Given {
  try {
    return { value: JSON.parse(text || "{}") as Json };
  } catch (error) {
    return { mistake: `This is not JSON: ${(error as Error).message}` };
  }
}

function gathered(fields: [string, Schema][], texts: Record<string, string>): Given {
  const value: Record<string, Json> = {};
  for (const [name, schema] of fields) {
    const text = texts[name] ?? "";
    if (!text) continue;
    const isText = schema.type === "string" || (schema.enum ?? []).includes(text);
    // A property without a type takes anything: JSON where it is JSON, else text.
    const found: Given = isText ? { value: text } : parse(text);
    if ("value" in found) value[name] = found.value;
    else if (schema.type === undefined) value[name] = text;
    else return { mistake: `${name}: ${found.mistake}` };
  }
  return { value };
}
