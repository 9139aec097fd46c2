// What is deployed: definitions with their graphs, and how their runs are.

import type { JSX } from "preact";
import { useState } from "preact/hooks";
import { query, useLive } from "./api";
import { Data } from "./data";
import { Deliveries, Failures, Limits, Schedules } from "./deployed";
import { Gathers } from "./gathering";
import { GraphView } from "./graph";
import { EVERY, PauseButton, pauseOf, Pauses } from "./pauses";
import { Start } from "./start";
import type { Page, Stats, Workflow, WorkflowSummary } from "./types";
import { Card, Copy, Empty, Status } from "./ui";
import { Versions } from "./versions";
import { counted, numberedVersion, span, STATUSES, tally } from "./words";

const SELDOM_MS = 15000; // between two looks at what a deploy changes

export function WorkflowsPage({ stats, refused, recount }: { stats: Stats | null; refused: string; recount: () => void }): JSX.Element {
  const { value: page, error } = useLive<Page<WorkflowSummary>>("/workflows", { soonestMs: SELDOM_MS });
  return (
    <>
      <div class="bar">
        <h1>Workflows</h1>
        <a class="button" href="#/check">
          Check a definition
        </a>
        {Boolean(page?.items.length) && <PauseButton workflow={EVERY} stats={stats} again={recount} />}
      </div>
      <Pauses pauses={stats?.paused ?? []} again={recount} />
      {error && <Empty title="The workflows cannot be listed">{error.message}</Empty>}
      {!page && !error && <p class="muted loading">Reading the workflows …</p>}
      {page && !page.items.length && <Empty title="No workflow is deployed">Put a definition into the folder that is served, or let <code>stepwell init</code> write one.</Empty>}
      <div class="tiles">
        {page?.items.map((one) => (
          <Card key={one.name} title={<a href={`#/workflows/${encodeURIComponent(one.name)}`}>{one.name}</a>} aside={<>{pauseOf(stats, one.name) && <Status value="paused" />}<span class="tag">{one.format}</span></>}>
            <p>{one.description || <span class="muted">No description.</span>}</p>
            <Counts name={one.name} stats={stats} refused={refused} />
          </Card>
        ))}
      </div>
      <Limits />
      <Deliveries />
    </>
  );
}

function Counts({ name, stats, refused }: { name: string; stats: Stats | null; refused: string }): JSX.Element {
  const counts = stats?.workflows[name] ?? {};
  const shown = STATUSES.filter((status) => counts[status]);
  return (
    <p class="counts">
      {shown.map((status) => (
        <a key={status} href={"#/runs" + query({ workflow: name, status })}>
          {tally(counts[status] ?? 0, stats?.at_least.includes(status))} <Status value={status} />
        </a>
      ))}
      {stats && !shown.length && <span class="muted">no runs</span>}
      {refused && (
        <span class="muted">
          <a href={"#/runs" + query({ workflow: name })}>its runs</a>, whose counts cannot be shown: {refused}
        </span>
      )}
    </p>
  );
}

export function WorkflowPage({ name, stats, refused, recount }: { name: string; stats: Stats | null; refused: string; recount: () => void }): JSX.Element {
  const live = useLive<Workflow>(`/workflows/${encodeURIComponent(name)}`, { soonestMs: SELDOM_MS });
  const [starting, setStarting] = useState(false);
  if (live.error) return <Empty isPage title={live.error.problem.status === 404 ? "There is no such workflow" : "This workflow cannot be shown"}>{live.error.message} <a href="#/workflows">All workflows</a></Empty>;
  const workflow = live.value;
  if (!workflow) return <p class="muted loading">Reading the workflow …</p>;
  const pause = pauseOf(stats, name);
  const text = JSON.stringify(workflow.document, null, 2);
  return (
    <article class="workflow">
      <header class="head">
        <p class="crumbs">
          <a href="#/workflows">Workflows</a>
        </p>
        <div class="title">
          <h1>{workflow.name}</h1>
          <span class="tag">{workflow.format}</span>
          {pause && <Status value="paused" />}
          <span class="actions">
            <PauseButton workflow={name} stats={stats} again={recount} />
            <button type="button" class="primary" onClick={() => setStarting(true)}>
              Start a run
            </button>
          </span>
        </div>
        <div class="why">
          <p>{workflow.description || "It has no description."}</p>
        </div>
        <Pauses pauses={pause ? [pause] : []} again={recount} />
      </header>
      <div class="columns">
        <div class="wide">
          {workflow.format === "function" ? (
            <Card title="Graph">
              <p class="muted">The graph of a durable function is what a run of it does: each run's page draws it.</p>
            </Card>
          ) : (
            <Card title="Graph" aside={counted(workflow.nodes, "node")}>
              <GraphView graph={workflow.graph} />
            </Card>
          )}
          <Card title="Definition" class="o-definition" aside={<Copy text={text} label="Copy the definition as JSON" />}>
            <Data value={workflow.document} open={2} />
          </Card>
        </div>
        <div class="narrow">
          <Card title="Deployed">
            <dl>
              <dt>Version</dt>
              <dd>
                <code title={workflow.version}>{numberedVersion(workflow)}</code> <Copy text={workflow.version} label="Copy the version" />
              </dd>
              <dt>Timeout</dt>
              <dd>{workflow.timeout_seconds === null ? "none" : span(workflow.timeout_seconds)}</dd>
              <dt>Runs</dt>
              <dd>
                <Counts name={workflow.name} stats={stats} refused={refused} />
              </dd>
            </dl>
          </Card>
          <Versions workflow={workflow.name} />
          {workflow.gathers && <Gathers workflow={workflow.name} mode={workflow.gathers} />}
          <Failures name={workflow.name} />
          <Schedules name={workflow.name} />
          <Limits workflow={workflow.name} />
        </div>
      </div>
      {starting && <Start workflow={workflow.name} onClose={() => setStarting(false)} />}
    </article>
  );
}
