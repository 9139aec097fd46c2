// What a person can answer to a wait, by its kind. Each answer is one route, with its line of the command line.

import { approval, approversOf, by, rejection, type Action, type Field } from "./actions";
import type { Json, Run, Token } from "./types";
import { commandLine, FOR_PEOPLE } from "./words";

type Values = { [name: string]: Json };

/** The answers to what the run asks of people, by the words on their buttons, the first one for the key `a`. */
export function answersOf(run: Run): Record<string, Action> {
  const asking = (...kinds: string[]): Token | undefined => run.tokens.find((one) => one.awaits.some((kind) => kinds.includes(kind)));
  const token = asking("approval") ?? asking(...FOR_PEOPLE);
  const kinds = FOR_PEOPLE.filter((kind) => token?.awaits.includes(kind)); // several, of an `any` or `all`
  return Object.assign({}, ...kinds.map((kind) => token && answersTo(kind, run, token))) as Record<string, Action>;
}

function answersTo(kind: string, run: Run, { id, step }: Token): Record<string, Action> {
  const data = valuesOf(run.waiting_data);
  const approvals = Object.keys(valuesOf(data["approvals"] ?? null)).filter((name) => /^approval(_\d+)?$/.test(name)); // else data of the workflow's own
  const approvers = approversOf(run.waiting_data);
  const wait = id !== "0" ? id : approvals.length ? step : "";
  switch (kind) {
    case "approval":
      return { Approve: isForCost(run) ? raising(run, step) : approval(run, step, wait, approvals, approvers), Reject: rejection(run, step, wait, approvals, approvers) };
    case "response":
      return { Answer: sending(run, step, "MESSAGE_RECEIVED", [{ name: "message", label: "Message", required: true }, { name: "from", label: "From", value: textOf(data["expectedFrom"]) }]) };
    case "document":
      return { "Hand in": sending(run, step, "DOCUMENT_UPLOADED", [documentField(data), { name: "url", label: "Where it is: its URL", required: true }]) };
    case "signature":
      return { "Is signed": sending(run, step, "SIGNATURE_COMPLETED", [{ name: "signedDocumentUrl", label: "URL of the signed document" }]) };
    case "test":
      return { "Enter the result": sending(run, step, "TEST_COMPLETED", [{ name: "testScore", label: "Score, as a number", kind: "json" }, { name: "testResult", label: "Result, such as passed" }]) };
  }
  return {};
}

/** Whether the run asks to go on although it has cost more than its `max_cost`. */
export function isForCost(run: Run): boolean {
  const data = valuesOf(run.waiting_data);
  return data["type"] === "max_cost" && "spent_usd" in data && "max_cost_usd" in data;
}

function raising(run: Run, step: string): Action {
  const data = valuesOf(run.waiting_data);
  const given = (text: string): string => (text.trim() ? JSON.stringify({ max_cost: Number(text) }) : "");
  return {
    title: "Let the run cost more",
    verb: "Approve",
    about: `It has cost ${money(data["spent_usd"])} USD, more than its max_cost of ${money(data["max_cost_usd"])}, and asks before ${step}.`,
    fields: [{ name: "limit", label: "New limit in USD; empty for none", kind: "json" }, by()],
    path: `/runs/${encodeURIComponent(run.run_id)}/approve`,
    body: ({ by, limit }) => ({ by: by ?? "", data: limit === null || limit === undefined ? null : { max_cost: limit } }),
    command: ({ by = "", limit = "" }) => commandLine("approve", run.run_id, ["--by", by], ["--data", given(limit)]),
  };
}

/** An event for this run alone, whose payload has a field for each name. */
function sending(run: Run, step: string, name: string, fields: Field[]): Action {
  const payload = (values: Values): Values => Object.fromEntries(Object.entries(values).filter(([, value]) => value !== "" && value !== null));
  const typed = (texts: Record<string, string>): Values => payload(Object.fromEntries(fields.map((one) => [one.name, one.kind === "json" ? numberOf(texts[one.name] ?? "") : (texts[one.name] ?? "")])));
  return {
    title: `Answer ${step}`,
    verb: "Send",
    about: `The run waits at ${step}. This is sent to it as the event ${name}.`,
    fields,
    path: `/runs/${encodeURIComponent(run.run_id)}/events`,
    body: (values) => ({ name, payload: payload(values) }),
    command: (texts) => commandLine("event", name, ["--payload", JSON.stringify(typed(texts))], ["--run", run.run_id]),
  };
}

function documentField(data: Values): Field {
  const missing = Array.isArray(data["missing"]) ? data["missing"].map(textOf).filter(Boolean) : [];
  if (!missing.length) return { name: "document", label: "Document", required: true };
  return { name: "document", label: "Document that is missing", kind: "choice", choices: missing, value: missing[0] ?? "", required: true };
}

export function money(value: Json | undefined): string {
  const usd = Number(value);
  return usd.toFixed(9).replace(/0+$/, "").replace(/\.$/, "");
}

function valuesOf(data: Json): Values {
  return data !== null && typeof data === "object" && !Array.isArray(data) ? data : {};
}

function textOf(value: Json | undefined): string {
  return typeof value === "string" ? value : "";
}

function numberOf(text: string): Json {
  const number = Number(text);
  return text.trim() && !Number.isNaN(number) ? number : text;
}
