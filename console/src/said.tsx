// What a run said: the error of its end or the last one, and what its steps emitted.

import type { JSX } from "preact";
import { useLive } from "./api";
import { takenBy } from "./history";
import type { Entry, ErrorView, Page, Run, Said } from "./types";
import { Card, Command, Failure } from "./ui";
import { clock, commandLine, TERMINAL, when } from "./words";

const SAID_MS = 2000; // between two looks at what a step says while it runs

/** What the run failed with, or what a step failed with and the run went on from. */
export function LastError({ run, error, entries }: { run: Run; error: ErrorView; entries: Entry[] }): JSX.Element {
  const isEnd = TERMINAL.has(run.status) && run.status !== "completed";
  const taken = takenBy(entries, error.step);
  return (
    <Card title={isEnd ? "Error" : taken ? "The last error, which a rule took" : "The last error"} class={isEnd ? "is-error" : ""}>
      <Failure error={error} taken={taken} />
    </Card>
  );
}

/** What the steps emitted in the last hour, and the command that shows what they logged. */
export function Logs({ run }: { run: Run }): JSX.Element {
  const said = useLive<Page<Said>>(`/runs/${encodeURIComponent(run.run_id)}/output?limit=200`, { isOver: run.status !== "running", soonestMs: SAID_MS }).value?.items ?? [];
  return (
    <Card title="Logs" class="o-logs" aside={said.length > 0 && "what its steps emitted"}>
      {said.length > 0 && (
        <ol class="said" tabIndex={0} aria-label="What its steps emitted">
          {said.map((one) => (
            <li key={one.cursor}>
              <time dateTime={one.at} title={when(one.at)}>
                {clock(one.at)}
              </time>
              <b>{one.step}</b> <code>{typeof one.data === "string" ? one.data : JSON.stringify(one.data)}</code>
            </li>
          ))}
        </ol>
      )}
      <Command line={commandLine("logs", run.run_id)} />
    </Card>
  );
}
