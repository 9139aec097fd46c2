// The branches of a fork: counted on the graph, listed here on demand, with the forks that are in them.

import type { JSX } from "preact";
import { useState } from "preact/hooks";
import { Act } from "./act";
import { approval, approversOf, rejection, type Action } from "./actions";
import { query } from "./api";
import { useFresh } from "./fresh";
import type { Branch, Entry, Page, Run } from "./types";
import { Card, Empty, Failure, Status } from "./ui";
import { brief, kindWords, plain } from "./words";

const LISTED = 50;
const ITEM = 200; // characters of a branch's item on its row
const STATUSES = ["running", "waiting", "paused", "completed", "failed", "cancelled"];

interface Fork {
  id: string;
  node: string;
  token: string; // whose fork it is
  width: number;
}

/** The forks that the history tells of, but for that of a DAG, whose branches are its steps. One that was reopened stands for what it was. */
function forksOf(run: Run, entries: Entry[]): Fork[] {
  const found = new Map<string, Fork>();
  for (const { type, id: place, step: node, token, data } of entries) {
    if (!/^fork\.(re)?opened$/.test(type) || !node) continue;
    const { width } = data as { width: number };
    const id = place.replace(/@(\d+)\.\d+$/, "/$1"); // an entry's id is its token and its slot, and so is a fork's
    const before = type === "fork.reopened" && [...found.values()].findLast((one) => one.token === token && one.node === node);
    if (before) found.delete(before.id); // its branches are under the new one
    if (width > 1) found.set(id, { id, node, token, width });
  }
  if (run.forked?.node && !found.has(run.forked.id)) found.set(run.forked.id, { ...run.forked, token: "0" });
  return [...found.values()];
}

/** The fork that a page opens with: the one that the run stands at, else the last of its own. */
function firstOf(run: Run, forks: Fork[]): string {
  if (run.forked?.node) return run.forked.id;
  return (forks.findLast((one) => one.token === "0") ?? forks.at(-1))?.id ?? "";
}

interface Given {
  run: Run;
  entries: Entry[];
  moved: number;
  chosen: string;
  fork: string; // that the reader opened
  go: (more: Record<string, string>) => void;
  again: () => void;
}

export function Branches({ run, entries, moved, chosen, fork: opened, go, again }: Given): JSX.Element | null {
  const forks = forksOf(run, entries);
  const inUrl = chosen.replace(/\.\d+$/, "");
  const fork = opened || (forks.some((one) => one.id === inUrl) ? inUrl : firstOf(run, forks));
  const [status, setStatus] = useState("");
  const [cursor, setCursor] = useState("");
  const [action, setAction] = useState<Action | null>(null);
  const page = useFresh<Page<Branch>>(fork ? `/runs/${encodeURIComponent(run.run_id)}/branches` + query({ fork, status, cursor, limit: String(LISTED) }) : null, moved);
  if (!fork || !page) return null;
  const here = forks.find((one) => one.id === fork);
  const outer = here?.token.replace(/\.\d+$/, ""); // that of a function's one task is none to look at
  const counts = (here && run.steps[here.node])?.branches ?? Object.values(run.steps).find((step) => (step.branches?.["total"] ?? 0) > 1)?.branches;
  const open = (id: string): void => (setCursor(""), setStatus(""), go({ fork: id, token: "" }));
  const inner = (branch: Branch): Fork | undefined => (branch.forked ? { ...branch.forked, token: branch.id } : forks.findLast((one) => one.token === branch.id));
  return (
    <Card
      class="branches"
      title={<>Branches {here && <span class="muted">{here.width} of {named(here, forks)}</span>}</>}
      aside={
        <>
          {forks.length > 1 && (
            <select aria-label="Fork" value={fork} onChange={(event) => open(event.currentTarget.value)}>
              {forks.map((one) => (
                <option key={one.id} value={one.id}>
                  {named(one, forks)} ({one.width})
                </option>
              ))}
            </select>
          )}
          <select aria-label="Status of branches" value={status} onChange={(event) => (setCursor(""), setStatus(event.currentTarget.value))}>
            <option value="">all</option>
            {STATUSES.map((one) => (
              <option key={one} value={one}>
                {plain(one)}
                {forks.length < 2 && counts?.[one] ? ` (${counts[one]})` : ""}
              </option>
            ))}
          </select>
        </>
      }
    >
      {!page.items.length && <Empty title="No branch fits" />}
      <ol tabIndex={0} aria-label="Branches">
        {page.items.map((branch) => (
          <Row key={branch.id} branch={branch} inner={inner(branch)} open={open} isChosen={branch.id === chosen} choose={() => go({ token: branch.id === chosen ? "" : branch.id })} ask={setAction} run={run} />
        ))}
      </ol>
      <div class="pages">
        {cursor && <button type="button" class="quiet" onClick={() => setCursor("")}>First</button>}
        {page.next_cursor && <button type="button" class="quiet" onClick={() => setCursor(page.next_cursor ?? "")}>Next {LISTED}</button>}
        {outer && forks.some((one) => one.id === outer) && <button type="button" class="quiet" onClick={() => open(outer)}>Back to the fork around it</button>}
      </div>
      {action && <Act action={action} onClose={() => setAction(null)} onDone={again} />}
    </Card>
  );
}

/** The one task of a function is no branch to tell of. */
function named(fork: Fork, forks: Fork[]): string {
  const isInner = forks.some((one) => one.id === fork.token.replace(/\.\d+$/, ""));
  return !isInner ? fork.node : `${fork.node} in branch ${fork.token.replace(/^0\/\d+\./, "").replace(/\/\d+\./g, " › ")}`;
}

interface RowGiven {
  run: Run;
  branch: Branch;
  inner: Fork | undefined;
  isChosen: boolean;
  open: (fork: string) => void;
  choose: () => void;
  ask: (action: Action) => void;
}

function Row({ run, branch, inner, isChosen, open, choose, ask }: RowGiven): JSX.Element {
  const step = branch.current_step ?? "";
  const shown = branch.item ?? Object.values(branch.steps).at(-1)?.output ?? null; // what it is of, else what it brought
  const clicked = (at: Element): void => void (at.closest("button, a, .failure") || choose()); // the button is for the keyboard
  const asks = branch.waiting_for === "approval" && run.status !== "paused";
  return (
    <li class={isChosen ? "is-chosen" : ""} onClick={(event) => clicked(event.target as Element)}>
      <button type="button" class="quiet" aria-pressed={isChosen} title="Its own history" onClick={choose}>
        {branch.index}
      </button>
      <Status value={branch.status} isTolerated={branch.status === "failed" && run.status === "completed"} />
      <span class="where">
        {step}
        {branch.waiting_for && <span class="muted"> · {kindWords(branch.waiting_for)}</span>}
        {branch.error && <span class="muted" title={branch.error.message}>{step && " · "}{branch.error.type}</span>}
      </span>
      <code class="item">{shown === null ? "" : brief(shown, ITEM)}</code>
      <span class="more">
        {inner && (
          <button type="button" class="quiet" onClick={() => open(inner.id)}>
            {inner.width} branches ▸
          </button>
        )}
        {asks && (
          <>
            <button type="button" class="quiet" onClick={() => ask(approval(run, step, branch.id, [], approversOf(branch.waiting_data)))}>
              approve
            </button>
            <button type="button" class="quiet" onClick={() => ask(rejection(run, step, branch.id, [], approversOf(branch.waiting_data)))}>
              reject
            </button>
          </>
        )}
      </span>
      {branch.error && isChosen && <Failure error={branch.error} />}
    </li>
  );
}
