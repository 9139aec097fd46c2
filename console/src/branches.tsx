// The branches of the fork that a run stands at, or has come through: counted on the graph, listed here on demand.

import type { JSX } from "preact";
import { useEffect, useState } from "preact/hooks";
import { get, query } from "./api";
import type { Branch, Entry, Page, Run } from "./types";
import { Card, Empty, Failure, Status } from "./ui";
import { plain } from "./words";

const LISTED = 50;

/** The fork that the run opened last: an entry's id is its token and its slot, and so is a fork's. */
function lastFork(entries: Entry[]): string {
  const forks = entries.filter((entry) => entry.type === "fork.opened" && entry.step && (entry.data as { width: number }).width > 1);
  const opened = forks.findLast((entry) => entry.token === "0") ?? forks.at(-1);
  return opened ? opened.id.replace(/@(\d+)\.\d+$/, "/$1") : "";
}

function isDag(entries: Entry[]): boolean {
  return entries.some((entry) => entry.type === "fork.opened" && entry.token === "0" && !entry.step);
}

export function Branches(given: { run: Run; entries: Entry[]; moved: number; chosen: string; choose: (token: string) => void }): JSX.Element | null {
  const { run, entries, moved, chosen, choose } = given;
  const open = run.forked?.node ? run.forked.id : ""; // the fork of a DAG has no node: its branches are its steps
  const fork = open || (chosen && !isDag(entries) ? chosen.replace(/\.\d+$/, "") : lastFork(entries));
  const [status, setStatus] = useState("");
  const [cursor, setCursor] = useState("");
  const [page, setPage] = useState<Page<Branch> | null>(null);
  useEffect(() => {
    let stopped = false;
    if (fork) {
      const path = `/runs/${encodeURIComponent(run.run_id)}/branches` + query({ fork, status, cursor, limit: String(LISTED) });
      void get<Page<Branch>>(path).then((found) => !stopped && setPage(found), () => undefined); // the run itself tells of errors
    }
    return () => {
      stopped = true;
    };
  }, [run.run_id, fork, status, cursor, moved]);
  if (!fork || !page) return null;
  const counts = (open && run.forked ? run.steps[run.forked.node] : undefined)?.branches ?? Object.values(run.steps).find((step) => (step.branches?.["total"] ?? 0) > 1)?.branches;
  const filter = (
    <select aria-label="Status of branches" value={status} onChange={(event) => (setCursor(""), setStatus(event.currentTarget.value))}>
      <option value="">all</option>
      {["running", "waiting", "completed", "failed", "cancelled"].map((one) => (
        <option key={one} value={one}>
          {plain(one)}
          {counts?.[one] ? ` (${counts[one]})` : ""}
        </option>
      ))}
    </select>
  );
  return (
    <Card class="branches" title={<>Branches {open && run.forked && <span class="muted">{run.forked.width} of {run.forked.node}</span>}</>} aside={filter}>
      {!page.items.length && <Empty title="No branch fits" />}
      <ol>
        {page.items.map((branch) => (
          <li key={branch.id} class={branch.id === chosen ? "is-chosen" : ""}>
            <button type="button" class="quiet" onClick={() => choose(branch.id === chosen ? "" : branch.id)}>
              {branch.index}
            </button>
            <Status value={branch.status} />
            <span class="where">{branch.current_step ?? ""}{branch.waiting_for && <span class="muted"> · {branch.waiting_for}</span>}</span>
            <code class="item">{branch.item === null ? "" : JSON.stringify(branch.item)}</code>
            {branch.error && branch.id === chosen && <Failure error={branch.error} />}
          </li>
        ))}
      </ol>
      <div class="pages">
        {cursor && <button type="button" class="quiet" onClick={() => setCursor("")}>First</button>}
        {page.next_cursor && <button type="button" class="quiet" onClick={() => setCursor(page.next_cursor ?? "")}>Next {LISTED}</button>}
      </div>
    </Card>
  );
}
