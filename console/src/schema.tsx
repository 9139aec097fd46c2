// A form of a JSON Schema: fields for objects, lists, choices, numbers and text, whose value is the JSON itself.

import type { JSX } from "preact";
import { useState } from "preact/hooks";
import type { Json } from "./types";

export interface Schema {
  type?: string | string[];
  enum?: Json[];
  const?: Json;
  default?: Json;
  title?: string;
  description?: string;
  properties?: Record<string, Schema>;
  required?: string[];
  items?: Schema;
  anyOf?: Schema[];
  oneOf?: Schema[];
  allOf?: Schema[];
  $ref?: string;
  $defs?: Record<string, Schema>;
  minimum?: number;
  maximum?: number;
  minLength?: number;
  maxLength?: number;
  pattern?: string;
  format?: string;
}

export type Value = Json | undefined; // undefined: it is left out
type Names = { [name: string]: Json };

/** The schema that is meant: where it refers to a definition, that; where it may also be null, the rest of it. */
export function plainSchema(schema: Schema, root: Schema): Schema {
  let found = schema;
  for (let hops = 0; found.$ref && hops < 10; hops++) {
    const { $ref, ...beside } = found;
    found = { ...(root.$defs?.[$ref?.replace("#/$defs/", "") ?? ""] ?? {}), ...beside };
  }
  const choices = (found.anyOf ?? found.oneOf ?? []).filter((one) => one.type !== "null");
  const only = choices.length === 1 ? choices[0] : undefined;
  if (only) {
    const { anyOf: _any, oneOf: _one, ...beside } = found;
    return plainSchema({ ...only, ...beside }, root);
  }
  return found;
}

/** The schema's properties, and what it requires without describing it. */
export function fieldsOf(schema: Schema): [string, Schema][] {
  const properties = schema.properties ?? {};
  const bare = (schema.required ?? []).filter((name) => !(name in properties));
  return [...Object.entries(properties), ...bare.map((name): [string, Schema] => [name, {}])];
}

/** What the form begins with: defaults, constants, and objects that are required. */
export function first(schema: Schema, root: Schema): Value {
  const one = plainSchema(schema, root);
  if (one.default !== undefined) return one.default;
  if (one.const !== undefined) return one.const;
  if (!fieldsOf(one).length) return undefined;
  const given = fieldsOf(one).map(([name, field]): [string, Value] => [name, one.required?.includes(name) || !fieldsOf(plainSchema(field, root)).length ? first(field, root) : undefined]);
  return Object.fromEntries(given.filter(([, value]) => value !== undefined)) as Names;
}

interface Given {
  schema: Schema;
  root: Schema;
  value: Value;
  set: (value: Value) => void;
}

export function Fields({ schema, root, value, set }: Given): JSX.Element {
  const names = isNames(value) ? value : {};
  const change = (name: string, to: Value): void => {
    const all: Record<string, Value> = { ...names, [name]: to };
    const order = [...new Set([...fieldsOf(schema).map(([field]) => field), ...Object.keys(all)])];
    set(Object.fromEntries(order.filter((field) => all[field] !== undefined).map((field) => [field, all[field]])) as Names);
  };
  return (
    <>
      {fieldsOf(schema).map(([name, field]) => (
        <Field key={name} name={name} isRequired={schema.required?.includes(name) ?? false} schema={plainSchema(field, root)} root={root} value={names[name]} set={(to) => change(name, to)} />
      ))}
    </>
  );
}

function isNames(value: Value): value is Names {
  return value !== null && typeof value === "object" && !Array.isArray(value);
}

function Field({ name, isRequired, schema, root, value, set }: Given & { name: string; isRequired: boolean }): JSX.Element {
  const told = (
    <span>
      {name}
      {isRequired ? "" : " (optional)"} {schema.description && <small class="muted">{schema.description}</small>}
    </span>
  );
  if (fieldsOf(schema).length) {
    return (
      <fieldset>
        <legend>{told}</legend>
        <Fields schema={schema} root={root} value={value} set={(to) => set(!isRequired && isNames(to) && !Object.keys(to).length ? undefined : to)} />
      </fieldset>
    );
  }
  const inner = schema.items && plainSchema(schema.items, root);
  if (inner && isScalar(inner)) {
    const items = Array.isArray(value) ? value : [];
    return (
      <fieldset>
        <legend>{told}</legend>
        {items.map((item, at) => (
          <div class="item" key={at}>
            <Scalar label={`${name} ${at + 1}`} schema={inner} value={item} isRequired set={(to) => set(items.map((one, place) => (place === at ? (to ?? "") : one)))} />
            <button type="button" class="quiet" aria-label={`Remove ${name} ${at + 1}`} onClick={() => set(items.filter((_, place) => place !== at))}>
              ✕
            </button>
          </div>
        ))}
        <button type="button" class="quiet" onClick={() => set([...items, first(inner, root) ?? (inner.enum?.[0] ?? (inner.type === "string" ? "" : 0))])}>
          Add one
        </button>
      </fieldset>
    );
  }
  return (
    <label>
      {told}
      <Scalar schema={schema} value={value} isRequired={isRequired} set={set} />
    </label>
  );
}

function isScalar(schema: Schema): boolean {
  return schema.enum !== undefined || ["string", "number", "integer", "boolean"].includes(String(schema.type));
}

function Scalar({ label, schema, value, isRequired, set }: { label?: string; schema: Schema; value: Value; isRequired: boolean; set: (value: Value) => void }): JSX.Element {
  const named = label ? { "aria-label": label } : {};
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
  if (schema.type === "number" || schema.type === "integer") {
    const read = (input: HTMLInputElement): void => set(input.value === "" ? undefined : input.valueAsNumber);
    return <input {...named} type="number" required={isRequired} {...(schema.minimum === undefined ? {} : { min: schema.minimum })} {...(schema.maximum === undefined ? {} : { max: schema.maximum })} step={schema.type === "integer" ? 1 : "any"} value={typeof value === "number" ? value : ""} onInput={(event) => read(event.currentTarget)} />;
  }
  if (schema.type === "string") {
    return <input {...named} required={isRequired && (schema.minLength ?? 0) > 0} placeholder={schema.format ?? ""} value={typeof value === "string" ? value : ""} onInput={(event) => set(event.currentTarget.value || (isRequired ? "" : undefined))} />;
  }
  return <Free schema={schema} value={value} set={set} {...named} />;
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
