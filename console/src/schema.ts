// What a form needs to know of a JSON Schema: what is meant by it, its fields, and what it begins with.

import type { Json } from "./types";

export interface Schema {
  type?: string | string[];
  enum?: Json[];
  const?: Json;
  default?: Json;
  examples?: Json[];
  title?: string;
  description?: string;
  properties?: Record<string, Schema>;
  required?: string[];
  additionalProperties?: boolean | Schema;
  items?: Schema;
  minItems?: number;
  uniqueItems?: boolean;
  anyOf?: Schema[];
  oneOf?: Schema[];
  allOf?: Schema[];
  $ref?: string;
  minimum?: number;
  maximum?: number;
  exclusiveMinimum?: number;
  exclusiveMaximum?: number;
  minLength?: number;
  maxLength?: number;
  pattern?: string;
  format?: string;
  [other: string]: unknown; // $defs, definitions: what references lead to
}

export type Value = Json | undefined; // undefined: it is left out
export type Names = { [name: string]: Json };

const HOPS = 10; // references that are followed
const DEEP = 6; // levels that a form begins with: a schema may refer to itself

/** The schema that is meant: references followed, `allOf` joined, and `null` left out where there is something else. */
export function plainSchema(schema: Schema, root: Schema): Schema {
  let found = schema;
  for (let hops = 0; found.$ref && hops < HOPS; hops++) {
    const { $ref, ...beside } = found;
    found = { ...target($ref, root), ...beside };
  }
  if (found.allOf) {
    const { allOf, ...beside } = found;
    found = [...allOf.map((one) => plainSchema(one, root)), beside].reduce(joined, {});
  }
  if (Array.isArray(found.type)) {
    const types = found.type.filter((one) => one !== "null");
    const { type: _types, ...beside } = found;
    found = types.length === 1 ? { ...beside, type: types[0] as string } : beside;
  }
  const choices = (found.anyOf ?? found.oneOf ?? []).filter((one) => one.type !== "null");
  const { anyOf: _any, oneOf: _one, ...beside } = found;
  const only = choices.length === 1 ? choices[0] : undefined;
  if (only) return plainSchema(joined(only, beside), root);
  if (choices.length && choices.every((one) => one.const !== undefined)) return { ...beside, enum: choices.map((one) => one.const as Json) };
  return found;
}

function target(ref: string, root: Schema): Schema {
  const parts = ref.replace(/^#\/?/, "").split("/").filter(Boolean);
  const found = parts.reduce<unknown>((at, part) => (at as Record<string, unknown> | undefined)?.[part.replaceAll("~1", "/").replaceAll("~0", "~")], root);
  return (found ?? {}) as Schema;
}

function joined(one: Schema, other: Schema): Schema {
  const found = { ...one, ...other };
  if (one.properties && other.properties) found.properties = { ...one.properties, ...other.properties };
  if (one.required && other.required) found.required = [...new Set([...one.required, ...other.required])];
  return found;
}

/** The shapes that a value may have, one of which is chosen; empty where there is one alone. */
export function alternatives(schema: Schema, root: Schema): Schema[] {
  const { anyOf, oneOf, ...base } = schema;
  const found = (oneOf ?? anyOf ?? []).filter((one) => one.type !== "null").map((one) => plainSchema(one, root));
  const isShaped = found.some((one) => one.properties || one.type || one.enum);
  return found.length > 1 && isShaped ? found.map((one) => ({ ...joined(base, one), title: one.title ?? "", description: one.description ?? "" })) : [];
}

/** How an alternative is called: by its title, by its constant, or by what it is. */
export function nameOf(schema: Schema, at: number): string {
  const constant = Object.values(schema.properties ?? {}).find((one) => one.const !== undefined)?.const;
  return schema.title || (constant !== undefined ? String(constant) : "") || (schema.required ?? []).join(", ") || String(schema.type ?? `choice ${at + 1}`);
}

/** The schema's properties, and what it requires without describing it. */
export function fieldsOf(schema: Schema): [string, Schema][] {
  const properties = schema.properties ?? {};
  const bare = (schema.required ?? []).filter((name) => !(name in properties));
  return [...Object.entries(properties), ...bare.map((name): [string, Schema] => [name, {}])];
}

/** Whether it describes an object that has nothing: the input of a function without parameters. */
export function isEmpty(schema: Schema): boolean {
  return schema.type === "object" && schema.properties !== undefined && !fieldsOf(schema).length && !schema.additionalProperties;
}

/** The schema of values under names that the caller chooses, if it says what they are. */
export function othersOf(schema: Schema): Schema | null {
  return schema.additionalProperties !== null && typeof schema.additionalProperties === "object" ? schema.additionalProperties : null;
}

export function isNames(value: Value): value is Names {
  return value !== null && typeof value === "object" && !Array.isArray(value);
}

/** What the form begins with: defaults, constants, objects that are required, and as many items as there must be. */
export function first(schema: Schema, root: Schema, depth = DEEP): Value {
  const one = plainSchema(schema, root);
  if (one.default !== undefined) return one.default;
  if (one.const !== undefined) return one.const;
  if (!depth) return undefined;
  const [choice] = alternatives(one, root);
  if (choice) return first(choice, root, depth - 1);
  if (one.items && one.minItems) return Array.from({ length: one.minItems }, () => first(one.items as Schema, root, depth - 1) ?? blank(one.items as Schema, root));
  if (!fieldsOf(one).length) return undefined;
  const given = fieldsOf(one).map(([name, field]): [string, Value] => {
    const meant = plainSchema(field, root);
    const isRequired = one.required?.includes(name);
    const begun = isRequired || !isNested(meant) ? first(field, root, depth - 1) : undefined;
    return [name, begun ?? (isRequired && (meant.type === "array" || othersOf(meant)) ? blank(meant, root) : undefined)];
  });
  return Object.fromEntries(given.filter(([, value]) => value !== undefined)) as Names;
}

function isNested(schema: Schema): boolean {
  return fieldsOf(schema).length > 0 || schema.items !== undefined || schema.oneOf !== undefined || schema.anyOf !== undefined;
}

/** An item of a list that has no default. */
export function blank(schema: Schema, root: Schema): Json {
  const one = plainSchema(schema, root);
  if (one.enum) return one.enum[0] ?? null;
  const blanks: Record<string, Json> = { string: "", number: 0, integer: 0, boolean: false, array: [], object: {} };
  return blanks[String(one.type ?? (fieldsOf(one).length ? "object" : "string"))] ?? null;
}

/** What the server found wrong, by the JSON Pointer of the field it belongs to; `lacks` belongs to what is lacking. */
export function placed(errors: { path: string; message: string }[]): Map<string, string> {
  const found = new Map<string, string>();
  for (const { path, message } of errors) {
    const place = path.replace(/^\/input/, "");
    const lacking = /^lacks (.+)$/.exec(message)?.[1]?.split(/, (?:and )?| and /) ?? [];
    if (!lacking.length) found.set(place, [found.get(place), message].filter(Boolean).join("; "));
    for (const name of lacking) found.set(below(place, name), "is required");
  }
  return found;
}

export function below(path: string, name: string | number): string {
  return `${path}/${String(name).replaceAll("~", "~0").replaceAll("/", "~1")}`;
}
