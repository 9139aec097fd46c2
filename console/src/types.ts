// The shapes of the HTTP API that the console reads; /openapi.json has all of them.

export type Json = null | boolean | number | string | Json[] | { [name: string]: Json };
export type Page<T> = { items: T[]; next_cursor: string | null };

export interface RunSummary {
  run_id: string;
  workflow: string;
  version: string;
  status: string;
  current_steps: string[];
  waiting_for: string | null;
  waiting_since: string | null;
  waiting_until: string | null;
  failure: { fingerprint: string; type: string; step: string } | null;
  tags: Record<string, string>;
  parent: string | null;
  origin: { kind: string; run_id: string } | null;
  created_at: string;
  started_at: string | null;
  ended_at: string | null;
}

export interface ErrorView {
  type: string;
  category: string;
  message: string;
  step: string;
  attempts: number;
  data: Json;
  traceback: string;
}

export interface Step {
  status: string;
  output: Json;
  error: ErrorView | null;
  attempts: number;
  started_at: string | null;
  ended_at: string | null;
  branches: Record<string, number> | null;
}

export interface Token {
  id: string;
  step: string;
  phase: string;
  waiting_for: string | null;
  awaits: string[]; // the kinds of what can still come: several of an `any` or `all`
  waiting_until: string | null;
}

export interface Child {
  name: string;
  run_id: string;
  workflow: string;
  status: string | null;
}

export interface Run extends RunSummary {
  version_number: number | null; // what the author of a durable function gave it
  pinned: boolean; // what is made of it takes its version
  phase: string;
  progress: string;
  waiting_data: Json;
  pending_reason: string | null;
  gathering: Gathering | null;
  input: Json;
  state: Record<string, Json>;
  steps: Record<string, Step>;
  tokens: Token[];
  forked: { id: string; node: string; width: number; join: string | null } | null;
  result: Json;
  error: ErrorView | null;
  outcome: string | null;
  result_summary: string | null;
  cancelled_by: string | null;
  cancel_reason: string | null;
  children: Child[];
  priority: number;
  cost: Cost | null;
}

export interface Gathering {
  mode: string; // debounce | batch
  starts: number;
  most: number | null;
  begins_at: string;
}

export interface Cost {
  steps: number;
  records: number;
  write_units: number;
  invocations: number;
  schedules: number;
  usd: number;
  prices_as_of: string;
}

export interface Waker {
  what: string;
  at: string | null;
  detail: string;
}

export interface Explanation {
  why: string;
  wakers: Waker[];
  deadline: string | null;
  nothing_can_wake_it: boolean;
}

/** A pause of a workflow, or of `*`: all of them. */
export interface WorkflowPause {
  workflow: string;
  since: string;
  by: string | null;
  reason: string | null;
}

export interface Entry {
  id: string;
  at: string;
  type: string;
  token: string;
  step: string | null;
  attempt: number | null;
  from: string | null;
  to: string | null;
  trigger: string | null;
  by: string | null;
  data: Json;
}

export interface GraphNode {
  name: string;
  kind: string;
  operation: string | null;
  run: string | null;
  wait: string | null;
  calls: string[];
  compensate: string | null;
  terminal: boolean;
  forks_to: string | null;
  joins: string | null;
}

export interface GraphEdge {
  id: string;
  from: string;
  to: string | null;
  stage: string;
  when: string | null;
  foreach: string | null;
  fail: string | null;
}

export interface Graph {
  start: string;
  nodes: GraphNode[];
  edges: GraphEdge[];
}

export interface RunGraph extends Graph {
  states: Record<string, string>;
  steps: Record<string, Step>;
  taken: Record<string, number>;
}

export interface Change {
  op: "add" | "remove" | "replace";
  path: string;
  before: Json;
  value: Json;
}

export interface Moment {
  slot: number;
  last_slot: number;
  at: string | null;
  status: string;
  phase: string;
  current_steps: string[];
  state: Record<string, Json>;
  steps: Record<string, Step>;
  states: Record<string, string>;
  taken: Record<string, number>;
  changes: Change[];
}

export interface WorkflowSummary {
  name: string;
  version: string;
  version_number: number | null;
  format: string;
  description: string;
  nodes: number;
}

export interface Workflow extends WorkflowSummary {
  graph: Graph;
  input_schema: { [name: string]: Json } | null;
  queries: string[]; // of a durable function, as far as its code names them
  updates: string[];
  gathers: string | null; // debounce | batch
  timeout_seconds: number | null;
  document: { [name: string]: Json };
}

export interface Branch {
  id: string;
  index: number;
  item: Json;
  status: string;
  current_step: string | null;
  waiting_for: string | null;
  waiting_until: string | null;
  waiting_data: Json;
  output: Json;
  error: ErrorView | null;
  steps: Record<string, Step>;
  forked: { id: string; node: string; width: number } | null;
  ended_at: string | null;
}

/** What a step said as it ran. */
export interface Said {
  cursor: string;
  at: string;
  token: string;
  step: string;
  attempt: number;
  data: Json;
}

/** What the code of a run logged or printed. */
export interface LogLine {
  id: string;
  at: string;
  level: string;
  step: string | null;
  branch?: string | null; // an older server does not tell it
  attempt: number;
  message: string;
}

export interface Stats {
  total: number;
  at_least: string[]; // statuses of which there are too many to count
  statuses: Record<string, { count: number }>;
  workflows: Record<string, Record<string, number>>;
  waits: Record<string, number>;
  overdue: number;
  paused: WorkflowPause[];
}

export interface Version {
  version: string;
  version_number: number | null;
  deployed: boolean;
  aliases: string[];
  runs: number;
  waits: { waiting_for: string; step: string; runs: number }[];
  oldest: { run_id: string; created_at: string } | null;
}

export interface Versions {
  is_whole: boolean;
  items: Version[];
}

export interface Problem {
  status: number;
  code: string;
  title: string;
  detail: string;
  hint: string | null;
  errors: { path: string; message: string }[];
}

export interface FailureGroup {
  fingerprint: string;
  workflow: string;
  type: string;
  step: string;
  count: number;
  first_at: string;
  last_at: string;
  run_id: string;
}

export interface Schedule {
  name: string;
  workflow: string;
  schedule: string;
  timezone: string;
  next: string[];
  last_at: string | null;
  last_run_id: string | null;
  paused: { since: string; by: string | null; reason: string | null } | null;
  error: string | null; // why it would start no run now
}

export interface Delivery {
  source: string;
  id: string;
  at: string;
  outcome: string;
  detail: string;
  made: string | null;
  replays: string[];
}

export interface Checked {
  name: string | null;
  format: string | null;
  problems: { severity: string; code: string; message: string; hint: string; line: number; column: number }[];
  graph: Graph | null;
  simulation: Simulation | null;
}

export interface Simulation {
  runs: number;
  outcomes: { status: string; count: number; error: string; step: string }[];
  p50_seconds: number | null;
  p95_seconds: number | null;
  usd_per_1000_runs: { stepwell: number; step_functions_standard: number; lambda_durable_functions: number } | null;
  prices_as_of: string;
  never_reached: string[];
  never_taken: string[];
  contradictions: { code: string; node: string; message: string; hint: string }[];
  assumed: Record<string, string>;
}

export interface Limit {
  name: string;
  of: string; // steps | runs
  concurrency: number | null;
  rate_limit: { limit: number; per: number; burst: number } | null;
  key: string | null;
  under_way: number | null;
  waiting: number | null;
}

export interface InLine {
  run_id: string;
  token: string;
  place: number | null;
}

export interface Line {
  under_way: InLine[];
  items: InLine[];
  next_cursor: string | null;
}
