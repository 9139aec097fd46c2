// Runs that gather starts before they begin (`debounce`, `batch`): how many they have, and until when.

import type { JSX } from "preact";
import { query, useLive } from "./api";
import type { Gathering, Page, Run, RunSummary } from "./types";
import { Card, Empty, Time } from "./ui";
import { counted, shortId } from "./words";

const SELDOM_MS = 5000;
const LISTED = "10";

export function Gathers({ workflow, mode }: { workflow: string; mode: string }): JSX.Element {
  const page = useLive<Page<RunSummary>>("/runs" + query({ workflow, status: "pending", limit: LISTED }), { soonestMs: SELDOM_MS }).value;
  return (
    <Card title="Gathering starts" aside={mode}>
      {page && !page.items.length && <Empty title="No run gathers starts now" />}
      <ul class="groups">
        {page?.items.map((one) => (
          <Row key={one.run_id} id={one.run_id} />
        ))}
      </ul>
      {page?.next_cursor && <p class="foot"><a href={"#/runs" + query({ workflow, status: "pending" })}>All of them</a></p>}
    </Card>
  );
}

function Row({ id }: { id: string }): JSX.Element {
  const run = useLive<Run>(`/runs/${encodeURIComponent(id)}`, { soonestMs: SELDOM_MS }).value;
  return (
    <li>
      <a href={`#/runs/${encodeURIComponent(id)}`} title={id}>{shortId(id)}</a> {run && (run.gathering ? <Gathered of={run.gathering} /> : run.pending_reason)}
    </li>
  );
}

export function Gathered({ of }: { of: Gathering }): JSX.Element {
  return (
    <>
      {counted(of.starts, "start")}
      {of.most && ` of at most ${of.most}`} <span class="muted">· begins <Time at={of.begins_at} />{of.mode === "debounce" ? ", if no other comes" : ", or when it is full"}</span>
    </>
  );
}
