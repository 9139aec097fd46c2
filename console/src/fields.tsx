// The fields of a form that is made from a JSON Schema. Its value is the JSON itself.

import { createContext, type ComponentChildren, type JSX } from "preact";
import { useContext, useState } from "preact/hooks";
import { alternatives, below, blank, fieldsOf, first, isNames, nameOf, othersOf, plainSchema, type Names, type Schema, type Value } from "./schema";
import type { Json } from "./types";

const LONG = 200; // characters that a text may have, beyond which its field has several lines
const INPUTS: Record<string, string> = { date: "date", time: "time", "date-time": "datetime-local", email: "email", uri: "url", url: "url", password: "password" };

/** Whether the server takes an input that lacks what is required: then the form asks for it. */
export const Unchecked = createContext(false);

interface Given {
  schema: Schema; // that is meant: see plainSchema
  root: Schema;
  path: string; // a JSON Pointer into the input
  value: Value;
  set: (value: Value) => void;
  wrong: Map<string, string>; // by path
  isOptional?: boolean; // nothing in it is required, because all of it may be left out
  above?: Schema["properties"][]; // of the objects that it is in: one of them may be in itself
}

interface OfField extends Given {
  name: string;
  isRequired: boolean;
}

export function Fields({ schema, root, path, value, set, wrong, isOptional, above }: Given): JSX.Element {
  const names = isNames(value) ? value : {};
  const known = fieldsOf(schema).map(([name]) => name);
  const others = othersOf(schema);
  const change = (name: string, to: Value): void => {
    const all: Record<string, Value> = { ...names, [name]: to };
    const order = [...new Set([...known, ...Object.keys(all)])];
    set(Object.fromEntries(order.filter((field) => all[field] !== undefined).map((field) => [field, all[field]])) as Names);
  };
  return (
    <>
      {fieldsOf(schema).map(([name, field]) => (
        <Field key={name} name={name} path={below(path, name)} isRequired={schema.required?.includes(name) ?? false} schema={plainSchema(field, root)} root={root} value={names[name]} set={(to) => change(name, to)} wrong={wrong} isOptional={isOptional ?? false} above={[...(above ?? []), schema.properties]} />
      ))}
      {others && <Named schema={plainSchema(others, root)} root={root} path={path} known={known} value={names} set={set} wrong={wrong} />}
    </>
  );
}

function Field(given: OfField): JSX.Element {
  const { name, path, isRequired, schema, root, value, set, wrong, isOptional } = given;
  const told = (
    <span>
      {schema.title ?? name}
      {isRequired ? "" : " (optional)"} {schema.description && <small class="muted">{schema.description}</small>}
    </span>
  );
  const group = (children: ComponentChildren): JSX.Element => (
    <fieldset>
      <legend>{told}</legend>
      {children}
      <Wrong text={wrong.get(path)} />
    </fieldset>
  );
  const choices = alternatives(schema, root);
  if (choices.length) return group(<Choice {...given} choices={choices} />);
  if (value === undefined && schema.properties && given.above?.includes(schema.properties)) {
    return group(
      <button type="button" class="quiet" onClick={() => set(first(schema, root) ?? {})}>
        Fill it in
      </button>,
    );
  }
  if (fieldsOf(schema).length || othersOf(schema)) {
    return group(<Fields schema={schema} root={root} path={path} value={value} set={(to) => set(!isRequired && isNames(to) && !Object.keys(to).length ? undefined : to)} wrong={wrong} isOptional={value === undefined && (!isRequired || Boolean(isOptional))} {...(given.above ? { above: given.above } : {})} />);
  }
  if (schema.items && !schema.enum) {
    const inner = plainSchema(schema.items, root);
    return group(schema.uniqueItems && inner.enum ? <Checks {...given} choices={inner.enum} /> : <Items {...given} schema={inner} least={schema.minItems ?? 0} />);
  }
  return (
    <label>
      {told}
      <Scalar schema={schema} value={value} isRequired={isRequired && !isOptional} set={set} isWrong={wrong.has(path)} />
      <Wrong text={wrong.get(path)} />
    </label>
  );
}

export function Wrong({ text }: { text: string | undefined }): JSX.Element | null {
  return text ? <small class="wrong">{text}</small> : null;
}

/** One of several shapes; its fields are those of the shape that is chosen. */
function Choice({ name, schema: _any, choices, isRequired, root, path, value, set, wrong }: OfField & { choices: Schema[] }): JSX.Element {
  const fitting = choices.findIndex((one) => isNames(value) === fieldsOf(one).length > 0 && (one.required ?? []).every((field) => isNames(value) && field in value));
  const [at, choose] = useState(value === undefined ? -1 : Math.max(fitting, 0));
  const chosen = choices[at];
  const pick = (to: number): void => {
    choose(to);
    set(choices[to] && (first(choices[to], root) ?? blank(choices[to], root)));
  };
  return (
    <>
      <select aria-label={`Kind of ${name}`} value={String(at)} onChange={(event) => pick(Number(event.currentTarget.value))}>
        {(!isRequired || at < 0) && <option value="-1" />}
        {choices.map((one, place) => (
          <option key={place} value={String(place)}>
            {nameOf(one, place)}
          </option>
        ))}
      </select>
      {chosen && (fieldsOf(chosen).length ? <Fields schema={chosen} root={root} path={path} value={value} set={set} wrong={wrong} /> : <Scalar label={name} schema={chosen} value={value} isRequired set={set} isWrong={wrong.has(path)} />)}
    </>
  );
}

/** A list: a field, or a group of fields, for each item. */
function Items({ name, schema, isRequired, root, path, value, set, wrong, least }: OfField & { least: number }): JSX.Element {
  const items = Array.isArray(value) ? value : [];
  const change = (at: number, to: Value): void => set(items.map((one, place) => (place === at ? (to ?? blank(schema, root)) : one)));
  const without = (at: number): void => {
    const left = items.filter((_, place) => place !== at);
    set(left.length || isRequired ? left : undefined);
  };
  const isPlain = !fieldsOf(schema).length && !schema.items && !othersOf(schema) && !alternatives(schema, root).length;
  return (
    <>
      {items.map((item, at) => (
        <div class={isPlain ? "item" : "item is-group"} key={at}>
          {isPlain ? (
            <Scalar label={`${name} ${at + 1}`} schema={schema} value={item} isRequired set={(to) => change(at, to)} isWrong={wrong.has(below(path, at))} />
          ) : (
            <Field name={`${name} ${at + 1}`} path={below(path, at)} isRequired schema={schema} root={root} value={item} set={(to) => change(at, to)} wrong={wrong} />
          )}
          <button type="button" class="quiet" aria-label={`Remove ${name} ${at + 1}`} disabled={items.length <= least} onClick={() => without(at)}>
            ✕
          </button>
          {isPlain && <Wrong text={wrong.get(below(path, at))} />}
        </div>
      ))}
      <button type="button" class="quiet" onClick={() => set([...items, first(schema, root) ?? blank(schema, root)])}>
        Add one
      </button>
    </>
  );
}

/** Several of a few choices, each once. */
function Checks({ value, set, choices }: OfField & { choices: Json[] }): JSX.Element {
  const chosen = new Set((Array.isArray(value) ? value : []).map((one) => JSON.stringify(one)));
  const toggle = (one: Json, isOn: boolean): void => {
    const found = choices.filter((other) => (other === one ? isOn : chosen.has(JSON.stringify(other))));
    set(found.length ? found : undefined);
  };
  return (
    <div class="checks">
      {choices.map((one) => (
        <label key={String(one)} class="check">
          <input type="checkbox" checked={chosen.has(JSON.stringify(one))} onChange={(event) => toggle(one, event.currentTarget.checked)} /> {String(one)}
        </label>
      ))}
    </div>
  );
}

/** Values under names that the reader chooses. */
function Named({ schema, root, path, known, value, set, wrong }: Given & { known: string[] }): JSX.Element {
  const names = isNames(value) ? value : {};
  const own = Object.keys(names).filter((name) => !known.includes(name));
  const rename = (from: string, to: string): void => {
    if (!(to in names)) set(Object.fromEntries(Object.entries(names).map(([name, one]) => [name === from ? to : name, one])));
  };
  return (
    <>
      {own.map((name, at) => (
        <div class="item named" key={at}>
          <input aria-label={`Name ${at + 1}`} value={name} onInput={(event) => rename(name, event.currentTarget.value)} />
          <Scalar label={`Value of ${name}`} schema={schema} value={names[name]} isRequired set={(to) => set({ ...names, [name]: to ?? blank(schema, root) })} isWrong={wrong.has(below(path, name))} />
          <button type="button" class="quiet" aria-label={`Remove ${name}`} onClick={() => set(Object.fromEntries(Object.entries(names).filter(([other]) => other !== name)))}>
            ✕
          </button>
          <Wrong text={wrong.get(below(path, name))} />
        </div>
      ))}
      <button type="button" class="quiet" onClick={() => set({ ...names, [fresh(names)]: first(schema, root) ?? blank(schema, root) })}>
        Add a name
      </button>
    </>
  );
}

function fresh(names: Names): string {
  let number = Object.keys(names).length + 1;
  while (`name-${number}` in names) number++;
  return `name-${number}`;
}

interface OfScalar {
  label?: string;
  schema: Schema;
  value: Value;
  isRequired: boolean;
  isWrong: boolean;
  set: (value: Value) => void;
}

function Scalar({ label, schema, value, isRequired, isWrong, set }: OfScalar): JSX.Element {
  const isUnchecked = useContext(Unchecked);
  const named = { ...(label ? { "aria-label": label } : {}), ...(isWrong ? { "aria-invalid": true as const } : {}) };
  if (schema.const !== undefined) return <input {...named} readOnly value={typeof schema.const === "string" ? schema.const : JSON.stringify(schema.const)} />;
  if (schema.enum || schema.type === "boolean") {
    const choices: Json[] = schema.enum ?? [true, false];
    const at = choices.findIndex((one) => JSON.stringify(one) === JSON.stringify(value));
    return (
      <select {...named} required={isRequired} value={String(at)} onChange={(event) => set(event.currentTarget.value === "-1" ? undefined : choices[Number(event.currentTarget.value)])}>
        {(!isRequired || at < 0) && <option value="-1" />}
        {choices.map((one, place) => (
          <option key={place} value={String(place)}>
            {typeof one === "string" ? one : JSON.stringify(one)}
          </option>
        ))}
      </select>
    );
  }
  const hint = schema.examples?.[0];
  const placeholder = hint === undefined ? (schema.format && !INPUTS[schema.format] ? schema.format : "") : typeof hint === "string" ? hint : JSON.stringify(hint);
  if (schema.type === "number" || schema.type === "integer") {
    const read = (input: HTMLInputElement): void => set(input.value === "" ? undefined : input.valueAsNumber);
    const bounds = { ...(schema.minimum === undefined ? {} : { min: schema.minimum }), ...(schema.maximum === undefined ? {} : { max: schema.maximum }) };
    return <input {...named} {...bounds} type="number" required={isRequired} placeholder={placeholder} step={schema.type === "integer" ? 1 : "any"} value={typeof value === "number" ? value : ""} onInput={(event) => read(event.currentTarget)} />;
  }
  if (schema.type === "string") {
    const text = typeof value === "string" ? value : "";
    const read = (to: string): void => set(to || (isRequired ? "" : undefined));
    const shared = { ...named, required: isRequired && ((isUnchecked && value === undefined) || (schema.minLength ?? 0) > 0), placeholder };
    if (schema.maxLength !== undefined && schema.maxLength > LONG) return <textarea {...shared} rows={3} value={text} onInput={(event) => read(event.currentTarget.value)} />;
    if (schema.format === "date-time") return <input {...shared} type="datetime-local" step={1} value={local(text)} onInput={(event) => read(instant(event.currentTarget.value))} />;
    return <input {...shared} type={(INPUTS[schema.format ?? ""] ?? "text") as "text"} autocomplete="off" value={text} onInput={(event) => read(event.currentTarget.value)} />;
  }
  return <Free schema={schema} value={value} set={set} {...named} />;
}

/** A time of the reader's own clock as RFC 3339, and back. */
function instant(text: string): string {
  return text ? new Date(text).toISOString() : "";
}

function local(text: string): string {
  if (!text) return "";
  const moment = new Date(text);
  return new Date(moment.getTime() - moment.getTimezoneOffset() * 60_000).toISOString().slice(0, 19);
}

/** Anything: JSON where it is JSON; where the schema names no type, else text. */
function Free({ schema, value, set, ...named }: { schema: Schema; value: Value; set: (value: Value) => void }): JSX.Element {
  const [text, setText] = useState(value === undefined ? "" : JSON.stringify(value));
  const read = (area: HTMLTextAreaElement): void => {
    setText(area.value);
    area.setCustomValidity("");
    if (!area.value.trim()) return set(undefined);
    try {
      set(JSON.parse(area.value) as Json);
    } catch (error) {
      if (schema.type === undefined) set(area.value);
      else area.setCustomValidity(`This is not JSON: ${(error as Error).message}`);
    }
  };
  return <textarea {...named} rows={3} spellcheck={false} placeholder="JSON" value={text} onInput={(event) => read(event.currentTarget)} />;
}
