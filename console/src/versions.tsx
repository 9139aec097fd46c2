// The versions of a workflow: which is deployed, which still have open runs, and the aliases that name them.

import type { JSX } from "preact";
import { useState } from "preact/hooks";
import { Act } from "./act";
import type { Action } from "./actions";
import { useLive } from "./api";
import type { Version, Versions as Found } from "./types";
import { Card, Empty, Time } from "./ui";
import { commandLine, counted, kindWords, numberedVersion, shortVersion } from "./words";

const SELDOM_MS = 15000;

export function Versions({ workflow }: { workflow: string }): JSX.Element {
  const path = `/workflows/${encodeURIComponent(workflow)}/versions`;
  const live = useLive<Found>(path, { soonestMs: SELDOM_MS, isFed: true });
  const [action, setAction] = useState<Action | null>(null);
  const found = live.value;
  return (
    <Card title="Versions" aside={found && !found.is_whole && "of the newest open runs"} class="versions">
      {live.error && <Empty title="The versions cannot be listed">{live.error.message}</Empty>}
      <ul class="groups">
        {found?.items.map((one) => (
          <Row key={one.version} one={one} name={() => setAction(naming(workflow, one.version))} drop={(alias) => setAction(dropping(workflow, alias))} />
        ))}
      </ul>
      {action && <Act action={action} onClose={() => setAction(null)} onDone={live.again} />}
    </Card>
  );
}

function Row({ one, name, drop }: { one: Version; name: () => void; drop: (alias: string) => void }): JSX.Element {
  return (
    <li>
      <code title={one.version}>{numberedVersion(one)}</code> {one.deployed && <span class="tag">deployed</span>}
      {one.aliases.map((alias) => (
        <span class="tag alias" key={alias}>
          {alias}
          <button type="button" class="quiet" aria-label={`Delete the alias ${alias}`} title="Delete the alias" onClick={() => drop(alias)}>
            ✕
          </button>
        </span>
      ))}
      <button type="button" class="quiet" aria-label={`Make an alias of version ${shortVersion(one.version)}`} onClick={name}>
        + alias
      </button>
      <p class="muted">
        {one.runs ? counted(one.runs, "open run") : "no open run"}
        {one.waits.map((wait) => `, ${wait.runs} at ${wait.step} for ${kindWords(wait.waiting_for)}`)}
        {one.oldest && (
          <>
            , the oldest started <a href={`#/runs/${encodeURIComponent(one.oldest.run_id)}`}><Time at={one.oldest.created_at} /></a>
          </>
        )}
      </p>
    </li>
  );
}

function naming(workflow: string, version: string): Action {
  return {
    title: `Name version ${shortVersion(version)}`,
    verb: "Name it",
    about: "Starts, redrives and forks can ask for this version by the alias. One that there is moves here; runs keep their version.",
    fields: [{ name: "alias", label: "Alias, such as stable", required: true }],
    path: `/workflows/${encodeURIComponent(workflow)}/aliases`,
    body: ({ alias }) => ({ alias: alias ?? "", version }),
    command: ({ alias = "" }) => commandLine("alias", workflow, alias || "ALIAS", "--version", version),
  };
}

function dropping(workflow: string, alias: string): Action {
  return {
    title: `Delete the alias ${alias}`,
    verb: "Delete the alias",
    about: "Starts that ask for it are refused from now on. Runs keep their version.",
    fields: [],
    method: "DELETE",
    path: `/workflows/${encodeURIComponent(workflow)}/aliases/${encodeURIComponent(alias)}`,
    body: () => null,
    command: () => commandLine("alias", workflow, alias, "--drop"),
    isDanger: true,
  };
}
