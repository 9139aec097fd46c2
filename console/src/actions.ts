// What can be done to a run: each action asks for its fields, calls one route, and has a line of the command line.

import type { Json, Run } from "./types";
import { commandLine, TERMINAL } from "./words";

export interface Field {
  name: string;
  label: string;
  kind?: "text" | "json" | "choice" | "check"; // a check box that is set has the value "yes"
  choices?: string[];
  value?: string;
  required?: boolean;
  known?: { workflow: string; of: "queries" | "updates" }; // names that the function's code has
}

export interface Action {
  title: string;
  verb: string;
  dryVerb?: string; // of the button while the field `dry` is set, and nothing is changed
  about: string;
  fields: Field[];
  method?: "GET" | "DELETE";
  path: string | ((texts: Record<string, string>) => string);
  body: (values: Record<string, Json>) => Json;
  command: (texts: Record<string, string>) => string;
  isDanger?: boolean;
  isMore?: boolean; // it stands behind "More"
}

export function by(): Field {
  return { name: "by", label: "Your name, for the history", value: localStorage.getItem("by") ?? "" };
}

/** Those who may answer an approval that names them; nobody if everybody may. */
export function approversOf(data: Json): string[] {
  if (data === null || typeof data !== "object" || Array.isArray(data)) return [];
  const { approvers, approvals, votes } = data;
  const anybody = approvals !== null && typeof approvals === "object" && Object.values(approvals).some((named) => Array.isArray(named) && !named.length);
  const isAsked = Array.isArray(approvers) && Array.isArray(votes) && !anybody; // else it may be data of the workflow's own
  return isAsked ? approvers.filter((one) => typeof one === "string") : [];
}

function answeredBy(approvers: string[]): Field {
  const field = by();
  const value = approvers.includes(field.value ?? "") ? (field.value ?? "") : "";
  return approvers.length ? { name: "by", label: "Who answers", kind: "choice", choices: approvers, value } : field;
}

const base = (run: { run_id: string }): string => `/runs/${encodeURIComponent(run.run_id)}`;

/** All actions that fit the run as it is, by the words on their buttons. `answers`: to what it asks of people. */
export function actionsOf(run: Run, answers: Record<string, Action>, event: string, isFunction: boolean): Record<string, Action> {
  const actions: Record<string, Action> = {};
  if (TERMINAL.has(run.status)) {
    const isUndone = run.status === "compensated" || run.outcome === "partial_rollback"; // nobody knows what of it still counts
    if (run.status !== "completed" && !isUndone) actions["Redrive"] = redriving(run);
    actions["Run again"] = rerunning(run);
    if (isFunction) actions["Query"] = asking(run);
    actions["Delete"] = deletion(run);
    return actions;
  }
  Object.assign(actions, answers);
  if (run.status === "idle") actions["Start"] = beginning(run);
  else actions["Send event"] = sending(run, event);
  if (isFunction && run.status !== "idle") {
    actions["Query"] = asking(run);
    actions["Update"] = updating(run);
  }
  if (run.status === "paused") actions["Unpause"] = unpausing(run);
  else if (run.status !== "idle" && run.status !== "compensating") actions["Pause"] = pausing(run);
  actions["Cancel"] = cancellation(run);
  actions["Terminate"] = termination(run);
  actions["Run again"] = { ...rerunning(run), isMore: true };
  return actions;
}

/** `approvals`: the names of those that are open, if the wait is for several. `approvers`: who may answer, if it names them. */
export function approval(run: { run_id: string }, step: string, wait = "", approvals: string[] = [], approvers: string[] = []): Action {
  return {
    title: "Approve",
    verb: "Approve",
    about: `The run waits at ${step}. An approval cannot be taken back.`,
    fields: [...which(approvals), answeredBy(approvers), { name: "data", label: "Data for the workflow, as JSON; may be empty", kind: "json" }],
    path: `${base(run)}/approve`,
    body: ({ approval, by, data }) => ({ by: by ?? "", data: data ?? null, wait: named(wait, approval) }),
    command: ({ approval, by = "", data = "" }) => commandLine("approve", run.run_id, ["--by", by], ["--data", data], ["--step", named(wait, approval)]),
  };
}

const which = (approvals: string[]): Field[] => (approvals.length ? [{ name: "approval", label: "Which approval", kind: "choice", choices: approvals, value: approvals[0] ?? "", required: true }] : []);
const named = (wait: string, approval: Json | undefined): string => (approval ? `${wait}/${String(approval)}` : wait);

export function rejection(run: { run_id: string }, step: string, wait = "", approvals: string[] = [], approvers: string[] = []): Action {
  return {
    title: "Reject",
    verb: "Reject",
    about: `The run waits at ${step}. The workflow's own rules decide what follows a rejection.`,
    fields: [...which(approvals), { name: "reason", label: "Reason" }, answeredBy(approvers)],
    path: `${base(run)}/reject`,
    body: ({ approval, by, reason }) => ({ by: by ?? "", reason: reason ?? "", wait: named(wait, approval) }),
    command: ({ approval, by = "", reason = "" }) => commandLine("reject", run.run_id, ["--reason", reason], ["--by", by], ["--step", named(wait, approval)]),
    isDanger: true,
  };
}

function ending(run: Run, name: "cancel" | "terminate", words: Pick<Action, "title" | "verb" | "about">): Action {
  return {
    ...words,
    fields: [{ name: "reason", label: "Reason" }, by()],
    path: `${base(run)}/${name}`,
    body: ({ by, reason }) => ({ by: by ?? "", reason: reason ?? "" }),
    command: ({ by = "", reason = "" }) => commandLine(name, run.run_id, ["--reason", reason], ["--by", by]),
    isDanger: true,
  };
}

function pausing(run: Run): Action {
  return {
    title: "Pause this run",
    verb: "Pause",
    about: "It stops before its next step. A step that runs now ends, and its result counts. Deadlines go on.",
    fields: [{ name: "reason", label: "Reason" }, by()],
    path: `${base(run)}/pause`,
    body: ({ by, reason }) => ({ by: by ?? "", reason: reason ?? "" }),
    command: ({ by = "", reason = "" }) => commandLine("pause", run.run_id, ["--reason", reason], ["--by", by]),
  };
}

function unpausing(run: Run): Action {
  return {
    title: "Unpause this run",
    verb: "Unpause",
    about: "It goes on from where it is. Answers and events that came meanwhile count.",
    fields: [by()],
    path: `${base(run)}/unpause`,
    body: ({ by }) => ({ by: by ?? "" }),
    command: ({ by = "" }) => commandLine("unpause", run.run_id, ["--by", by]),
  };
}

function cancellation(run: Run): Action {
  const about = "It ends now, with the child runs that it waits for. What its workflow compensates is undone first.";
  return ending(run, "cancel", { title: "Cancel this run", verb: "Cancel the run", about });
}

function termination(run: Run): Action {
  const about = "It ends at once, as failed. Nothing is compensated and no code of the workflow runs again: cancel, unless that hangs.";
  return { ...ending(run, "terminate", { title: "Terminate this run", verb: "Terminate the run", about }), isMore: true };
}

function deletion(run: Run): Action {
  return {
    title: "Delete this run",
    verb: "Delete the run",
    about: "Its history, its data and its child runs are deleted now, and not only when their retention ends. Nothing brings them back.",
    fields: [],
    method: "DELETE",
    path: base(run),
    body: () => null,
    command: () => commandLine("delete", run.run_id),
    isDanger: true,
    isMore: true,
  };
}

function redriving(run: Run): Action {
  const steps = Object.keys(run.steps).filter((name) => run.steps[name]?.started_at);
  const failed = run.error?.step ?? "";
  const stopped = "where this one stopped";
  return {
    title: "Redrive this run",
    verb: "Redrive",
    about: `A new run goes on from ${failed || stopped}. What was completed is kept and does not run again.`,
    fields: [
      { name: "from", label: `From this step; empty for ${failed || stopped}`, kind: "choice", choices: steps },
      { name: "version", label: `Version of the definition; empty for ${run.pinned ? "this run's, to which it is pinned" : "the one deployed now"}` },
      { name: "dry", label: "Only tell what it would keep, and what it would be sent again", kind: "check" },
      by(),
    ],
    path: `${base(run)}/redrive`,
    body: ({ from, version, dry, by }) => ({ from: from ?? "", version: version ?? "", by: by ?? "", ...(dry && { dry_run: true }) }),
    command: ({ from = "", version = "", dry = "", by = "" }) => commandLine("redrive", run.run_id, ["--from", from], ["--version", version], ...(dry ? ["--dry-run"] : []), ["--by", by]),
  };
}

function rerunning(run: Run): Action {
  return {
    title: "Run again",
    verb: "Start the new run",
    about: `A new run starts from the beginning, with the same input and tags${run.pinned ? ", and in the same version: this run is pinned" : ""}. This one stays as it is.`,
    fields: [],
    path: `${base(run)}/rerun`,
    body: () => ({}),
    command: () => commandLine("rerun", run.run_id),
  };
}

/** A new run that keeps what came before a record, and does the rest again with something edited. `state`: before it. */
export function forking(run: Run, slot: number, state: Record<string, Json>, isFunction: boolean): Action {
  const edited = (given: Json): Record<string, Json> => Object.fromEntries(Object.entries((given ?? {}) as Record<string, Json>).filter(([name, value]) => JSON.stringify(value) !== JSON.stringify(state[name])));
  const changes = (values: Record<string, Json>): Record<string, Json> => ({
    ...(Object.keys(edited(values["state"] ?? null)).length > 0 && { state: edited(values["state"] ?? null) }),
    ...(JSON.stringify(values["input"]) !== JSON.stringify(run.input) && { input: values["input"] ?? null }),
    ...(values["result"] != null && { result: values["result"] }),
  });
  const told = (texts: Record<string, string>): [string, string][] => {
    const values = { state: parsed(texts["state"], null), input: parsed(texts["input"], run.input), result: parsed(texts["result"], null) };
    return Object.entries(changes(values)).map(([name, value]) => [`--${name}`, JSON.stringify(value)]);
  };
  const ofState: Field = { name: "state", label: "State before this record, as JSON; names that you change or add are set", kind: "json", value: JSON.stringify(state, null, 2) };
  return {
    title: `Fork from record ${slot}`,
    verb: "Fork the run",
    about: "A new run keeps what came before this record, and does it and the rest anew. This run stays as it is.",
    fields: [
      ...(isFunction ? [] : [ofState]),
      { name: "input", label: "Input, as JSON", kind: "json", value: JSON.stringify(run.input, null, 2) },
      { name: "result", label: "Result of the step here, as JSON, instead of running it; may be empty", kind: "json" },
      { name: "dry", label: "Only tell which way it would take", kind: "check" },
      by(),
    ],
    path: `${base(run)}/fork`,
    body: ({ by, dry, ...values }) => ({ at: slot, by: by ?? "", ...(dry && { dry_run: true }), ...changes(values) }),
    command: (texts) => commandLine("fork", run.run_id, ["--at", String(slot)], ...told(texts), ...(texts["dry"] ? ["--dry-run"] : []), ["--by", texts["by"] ?? ""]),
  };
}

function parsed(text = "", otherwise: Json): Json {
  try {
    return text.trim() ? (JSON.parse(text) as Json) : null;
  } catch {
    return otherwise; // it is told when it is sent
  }
}

const TOGETHER = ["cancel", "pause", "unpause", "redrive", "terminate"];

/** What can be done to all runs of a filter at once; null where the filter says what the API cannot act on. */
export function together(filters: Record<string, string>): Action | null {
  const { workflow = "", status = "", tag = "", since = "", failure = "", ...others } = filters;
  if (Object.values(others).some(Boolean) || !(workflow || status || tag || since || failure)) return null;
  return {
    title: "Act on all runs that fit",
    verb: "Act on all",
    dryVerb: "Only count",
    about: `All runs with ${Object.entries({ workflow, status, tag, since, failure }).filter(([, value]) => value).map(([name, value]) => `${name} ${value}`).join(", ")}. It is a run of its own, whose page tells how far it is.`,
    fields: [
      { name: "action", label: "Action", kind: "choice", choices: TOGETHER, required: true },
      { name: "dry", label: "Count them only", kind: "check", value: "yes" },
      { name: "reason", label: "Reason" },
      by(),
    ],
    path: "/runs:batch",
    body: ({ action, dry, reason, by }) => ({
      filter: { ...(workflow && { workflow }), ...(status && { status: status.split(",") }), ...(tag && { tag }), ...(since && { since }), ...(failure && { failure }) },
      action: action ?? "",
      dry_run: dry === "yes",
      reason: reason ?? "",
      by: by ?? "",
    }),
    command: ({ action = "", dry = "", reason = "", by = "" }) =>
      commandLine("batch", action || "ACTION", ["--workflow", workflow], ["--status", status], ["--tag", tag], ["--since", since], ["--failure", failure], ...(dry ? ["--dry-run"] : []), ["--reason", reason], ["--by", by]),
    isDanger: true,
  };
}

function sending(run: Run, name: string): Action {
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

function asking(run: Run): Action {
  return {
    title: "Query this run",
    verb: "Ask",
    about: "A handler of the function answers with its variables as they are. Nothing changes.",
    fields: [{ name: "name", label: "Name, as in @ctx.query", required: true, known: { workflow: run.workflow, of: "queries" } }],
    method: "GET",
    path: ({ name = "" }) => `${base(run)}/queries/${encodeURIComponent(name)}`,
    body: () => null,
    command: ({ name = "" }) => commandLine("query", run.run_id, name || "NAME"),
    isMore: true,
  };
}

function updating(run: Run): Action {
  return {
    title: "Update this run",
    verb: "Update",
    about: "A handler of the function changes its variables and answers. The change is recorded in the history.",
    fields: [
      { name: "name", label: "Name, as in @ctx.update", required: true, known: { workflow: run.workflow, of: "updates" } },
      { name: "input", label: "Input, as JSON, by the handler's names; may be empty", kind: "json" },
    ],
    path: ({ name = "" }) => `${base(run)}/updates/${encodeURIComponent(name)}?wait=10`,
    body: ({ input }) => ({ input: input ?? null }),
    command: ({ name = "", input = "" }) => commandLine("update", run.run_id, name || "NAME", ["-i", input]),
    isMore: true,
  };
}

function beginning(run: Run): Action {
  return {
    title: "Start this run",
    verb: "Start",
    about: "It was created and has waited since.",
    fields: [by()],
    path: `${base(run)}/start`,
    body: ({ by }) => ({ by: by ?? "" }),
    command: ({ by = "" }) => commandLine("start", run.run_id, ["--by", by]),
  };
}
