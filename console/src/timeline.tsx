// When each step ran and waited: a bar for each, its attempts within it.

import type { JSX } from "preact";
import { useMemo } from "preact/hooks";
import type { Entry, Run } from "./types";
import { failedInBranch, toneOf, type History } from "./history";
import { Took } from "./runs";
import { Card, useNow } from "./ui";
import { withOwnWaits } from "./until";
import { span, TERMINAL } from "./words";

const OPENS = /^(step\.started|approval\.requested|event\.awaited|sleep\.started|children\.started|lock\.requested|until\.awaited)$/;
const UNDONE: Record<string, { tone: string; what: string }> = {
  "step.compensated": { tone: "is-compensated", what: "compensated" },
  "compensation.failed": { tone: "is-failed", what: "compensation failed" },
};
const LEAST_PERCENT = 0.4;
const DRAWN = 400; // segments that fit side by side
const TOLD = 100; // branches of a fork that the history tells of

interface Segment {
  from: number;
  to: number; // 0: it goes on
  tone: string;
  what: string;
}

interface Row {
  name: string;
  step: string; // of its entries: a wait of the same name as a step has its kind in its name
  from: number;
  to: number;
  segments: Segment[];
}

export function Timeline({ run, history: { entries, hasMore }, chosen, choose }: { run: Run; history: History; chosen: string; choose: (step: string) => void }): JSX.Element | null {
  const now = useNow();
  const from = Date.parse(run.started_at ?? "");
  const rows = useMemo(() => rowsOf(run, entries, hasMore).map((row) => ofThisRun(row, from)), [run, entries, hasMore, from]);
  if (!rows.length || !run.started_at) return null;
  const to = Math.max(run.ended_at ? Date.parse(run.ended_at) : now, ...rows.map((row) => row.to), from + 1);
  return (
    <Card title="Timeline" aside={<Took run={run} />} class="o-timeline">
      <div class="timeline">
      {rows.map((row) => (
        <button type="button" key={row.name} class={row.step === chosen ? "row is-chosen" : "row"} aria-pressed={row.step === chosen} onClick={() => choose(row.step === chosen ? "" : row.step)}>
          <span class="name">{row.name}</span>
          {row.to && row.to < from ? <Kept /> : <Track row={row} from={from} to={to} />}
          <span class="took">{span(((row.to || now) - row.from) / 1000)}</span>
        </button>
      ))}
      <div class="scale" aria-hidden="true">
        <span>0</span>
        <span>{span((to - from) / 2000)}</span>
        <span>{span((to - from) / 1000)}</span>
      </div>
      </div>
    </Card>
  );
}

/** When a step was at work, between the run's start and now or its end. */
function Track({ row, from, to }: { row: Row; from: number; to: number }): JSX.Element {
  const left = (at: number): number => ((at - from) / (to - from)) * 100;
  return (
    <span class="track" aria-hidden="true">
      <i class="whole" style={{ left: `${left(row.from)}%`, width: `${left(row.to || to) - left(row.from)}%` }} />
      {merged(row.segments, (to - from) / DRAWN).map((part) => {
        const end = part.to || to;
        return <i key={`${part.from}${part.what}`} class={part.tone} title={`${part.what}, ${span((end - part.from) / 1000)}`} style={{ left: `${Math.min(left(part.from), 100 - LEAST_PERCENT)}%`, width: `${Math.max(left(end) - left(part.from), LEAST_PERCENT)}%` }} />;
      })}
    </span>
  );
}

/** In place of a bar: the run that this one was made from did that. */
function Kept(): JSX.Element {
  return <small class="muted">before this run</small>;
}

/** The segments that can be told apart: those closer than a pixel or two are drawn as one. */
function merged(segments: Segment[], leastMs: number): Segment[] {
  if (segments.length < DRAWN) return segments;
  const drawn: Segment[] = [];
  for (const part of segments) {
    const last = drawn.at(-1);
    if (last?.to && last.tone === part.tone && part.from - last.to < leastMs) drawn[drawn.length - 1] = { ...last, to: part.to, what: "several attempts" };
    else drawn.push(part);
  }
  return drawn;
}

function rowsOf(run: Run, entries: Entry[], hasMore: boolean): Row[] {
  const rows = new Map<string, Row>();
  const open = new Map<string, Segment>(); // by token and step
  const latest = new Map<string, Row>(); // the row of the newest segment, likewise
  let undoneMs = 0; // when the last compensation ended
  const isCompleted = run.status === "completed";
  for (const entry of withOwnWaits(entries)) {
    if (entry.type === "fork.opened") forked(rows, open, entry);
    if (entry.type === "fork.reopened") reopened(rows, open, entry);
    if (/^join\./.test(entry.type)) joined(open, entry);
    const at = Date.parse(entry.at);
    if (entry.type === "compensation.started") undoneMs = at;
    if (!entry.step) continue;
    const undone = UNDONE[entry.type];
    if (undone) {
      row(rows, entry.step, at).segments.push({ from: undoneMs || at, to: at, ...undone });
      undoneMs = at;
    }
    const key = `${entry.token} ${entry.step}`;
    const going = open.get(key);
    if (going && !/^(phase\.changed|update\.)/.test(entry.type)) {
      [going.to, going.tone] = [at, /retry|paused/.test(entry.type) ? going.tone : toneOf(entry.type)];
      if (isCompleted && failedInBranch(entry)) [going.tone, going.what] = ["is-tolerated", `${going.what}, failed, tolerated`];
      open.delete(key);
    } else if (entry.type === "step.failed") {
      const last = (latest.get(key) ?? rows.get(entry.step))?.segments.at(-1); // a wait whose timer fired has ended, and failed by it
      if (last) last.tone = isCompleted && failedInBranch(entry) ? "is-tolerated" : "is-failed";
    }
    if (!OPENS.test(entry.type)) continue;
    const tone = entry.type === "step.started" ? "is-running" : "is-waiting";
    const segment = { from: at, to: 0, tone, what: entry.type === "step.started" ? `attempt ${entry.attempt ?? 1}` : entry.type };
    const here = row(rows, rowName(run, entry), at, entry.step);
    open.set(key, segment);
    latest.set(key, here);
    here.segments.push(segment);
  }
  for (const [name, step] of Object.entries(run.steps)) {
    if (!step.started_at || rows.has(name)) continue;
    const from = Date.parse(step.started_at);
    const isTolerated = isCompleted && step.status === "failed" && step.branches !== null;
    row(rows, name, from).segments.push({ from, to: step.ended_at ? Date.parse(step.ended_at) : 0, tone: isTolerated ? "is-tolerated" : `is-${step.status}`, what: isTolerated ? "failed, tolerated" : step.status });
  }
  const endOfRun = run.ended_at && TERMINAL.has(run.status) ? Date.parse(run.ended_at) : 0;
  const endOfAll = hasMore ? Date.parse(entries.at(-1)?.at ?? "") || 0 : endOfRun; // what follows is not known yet
  for (const one of rows.values()) {
    for (const part of one.segments) part.to ||= endOfAll;
    const endedAt = run.steps[one.name]?.ended_at; // an answered wait ends a moment after its answer
    one.to = one.segments.some((part) => !part.to) ? 0 : one.segments.reduce((last, part) => Math.max(last, part.to), endedAt ? Date.parse(endedAt) : 0);
  }
  return [...rows.values()].sort((one, other) => one.from - other.from);
}

/** A row as far as this run did it: the axis begins with the run, and one that was redriven has records of the run before. */
function ofThisRun(row: Row, from: number): Row {
  if (!(row.from < from) || (row.to && row.to < from)) return row;
  const going = row.segments.filter((part) => !part.to || part.to >= from);
  const segments = going.map((part) => ({ ...part, from: Math.max(part.from, from) }));
  return { ...row, from: segments[0]?.from ?? from, segments };
}

/** A bar for each group of branches of a wide fork, from the fork to its join; of a narrow one, the history has each branch. */
function forked(rows: Map<string, Row>, open: Map<string, Segment>, entry: Entry): void {
  const { width, groups } = entry.data as { width: number; groups: { node: string; count: number }[] };
  if (width <= TOLD) return;
  for (const { node, count } of groups) {
    const segment = { from: Date.parse(entry.at), to: 0, tone: "is-running", what: `${count} branches` };
    open.set(`${entry.token}/ ${node}`, segment);
    row(rows, node, segment.from).segments.push(segment);
  }
}

/** In a redriven run, the bars begin anew with the branches that go on: the others had completed in the run before. */
function reopened(rows: Map<string, Row>, open: Map<string, Segment>, entry: Entry): void {
  const { width, kept } = entry.data as { width: number; kept: number };
  const at = Date.parse(entry.at);
  for (const [key, segment] of open) {
    if (!key.startsWith(`${entry.token}/ `)) continue;
    const here = row(rows, key.slice(entry.token.length + 2), at);
    [segment.from, segment.what] = [at, `${width - kept} of ${width} branches`];
    if (here.segments[0] === segment) here.from = at;
  }
}

function joined(open: Map<string, Segment>, entry: Entry): void {
  for (const [key, segment] of open) {
    if (!key.startsWith(`${entry.token}/ `)) continue;
    [segment.to, segment.tone] = [Date.parse(entry.at), toneOf(entry.type)];
    open.delete(key);
  }
}

/** The name of a row, as the run's steps have it: a wait that shares its name with a step has its kind behind that. */
function rowName(run: Run, { type, step, data }: Entry): string {
  const told = data as { for?: string } | null;
  const name = `${step} (${told?.for ?? type.split(".")[0]})`;
  return type !== "step.started" && run.steps[name] ? name : (step ?? "");
}

function row(rows: Map<string, Row>, name: string, from: number, step = name): Row {
  const found = rows.get(name) ?? { name, step, from, to: 0, segments: [] };
  rows.set(name, found);
  return found;
}
