// A definition that is pasted: its problems by line, its graph, and how simulated runs of it end. Nothing is deployed.

import type { JSX } from "preact";
import { useState } from "preact/hooks";
import { post, Refusal } from "./api";
import { GraphView } from "./graph";
import type { Checked, Simulation } from "./types";
import { Card, Command, Empty, Status } from "./ui";
import { counted, span } from "./words";

const EXAMPLE = `workflow: hello
timeline:
  - {name: greet, run: python:steps.greet, timeout: 10s}
  - {name: approve, wait: {for: approval, timeout: 1d}}
`;

export function CheckPage(): JSX.Element {
  const [text, setText] = useState(() => sessionStorage.getItem("checked") ?? EXAMPLE);
  const [found, setFound] = useState<Checked | null>(null);
  const [refused, setRefused] = useState("");
  const check = async (event: Event): Promise<void> => {
    event.preventDefault();
    sessionStorage.setItem("checked", text);
    try {
      setFound((await post<Checked>("/check", { definition: text })).body);
      setRefused("");
    } catch (error) {
      setFound(null); // it is of what was checked before
      setRefused(error instanceof Refusal ? error.message : "The server does not answer.");
    }
  };
  return (
    <article class="check">
      <header class="head">
        <p class="crumbs">
          <a href="#/workflows">Workflows</a>
        </p>
        <div class="title">
          <h1>Check a definition</h1>
        </div>
        <div class="why">
          <p>Paste YAML or JSON: what is wrong with it, by line, its graph, and how simulated runs end. Nothing is deployed.</p>
        </div>
      </header>
      <div class="columns halves">
        <form onSubmit={(event) => void check(event)}>
          <textarea aria-label="Definition" rows={24} spellcheck={false} value={text} onInput={(event) => setText(event.currentTarget.value)} />
          <div class="bar">
            <Command line="stepwell check FILE" />
            <button type="submit" class="primary" disabled={!text.trim()}>
              Check
            </button>
          </div>
        </form>
        <div>
          {refused && <Empty title="It cannot be checked">{refused}</Empty>}
          {found && <Found found={found} />}
        </div>
      </div>
    </article>
  );
}

function Found({ found }: { found: Checked }): JSX.Element {
  return (
    <>
      <Card title={found.name ?? "Problems"} aside={found.format && <span class="tag">{found.format}</span>} class={found.graph ? "" : "is-error"}>
        {found.problems.length ? (
          <ul class="problems">
            {found.problems.map((one, at) => (
              <li key={at} class={one.severity === "error" ? "is-failed" : "is-waiting"}>
                <code>{one.line ? `${one.line}:${one.column}` : ""}</code>
                <span>
                  <b>{one.severity}</b> {one.message} <code class="muted">{one.code}</code>
                  {one.hint && <p class="muted">{one.hint}</p>}
                </span>
              </li>
            ))}
          </ul>
        ) : (
          <p role="status">No problem was found.</p>
        )}
      </Card>
      {found.graph && (
        <Card title="Graph">
          <GraphView graph={found.graph} />
        </Card>
      )}
      {found.simulation && <Simulated found={found.simulation} />}
    </>
  );
}

/** How runs end if nobody says how long its steps take: no code of theirs ran. */
function Simulated({ found }: { found: Simulation }): JSX.Element {
  const cost = found.usd_per_1000_runs;
  return (
    <Card title="Simulation" aside={counted(found.runs, "run")} class={found.contradictions.length ? "is-error" : ""}>
      <dl>
        {found.outcomes.map((one) => (
          <>
            <dt>{counted(one.count, "run")}</dt>
            <dd>
              <Status value={one.status} /> {one.error && <code>{one.error}</code>} {one.step && `at ${one.step}`}
            </dd>
          </>
        ))}
        {found.p50_seconds !== null && found.p95_seconds !== null && (
          <>
            <dt>Takes</dt>
            <dd>
              {span(found.p50_seconds)}
              {found.p95_seconds > found.p50_seconds && `, and ${span(found.p95_seconds)} at most in 19 of 20`}
            </dd>
          </>
        )}
        {cost && (
          <>
            <dt>1,000 runs</dt>
            <dd>
              {usd(cost.stepwell)} here, {usd(cost.step_functions_standard)} on Step Functions, {usd(cost.lambda_durable_functions)} on Lambda durable functions, by
              prices of {found.prices_as_of}
            </dd>
          </>
        )}
        <Never title="Not reached" names={found.never_reached} />
        <Never title="Not taken" names={found.never_taken} />
      </dl>
      <ul class="problems">
        {found.contradictions.map((one) => (
          <li key={one.code + one.node} class="is-failed">
            <code>{one.node}</code>
            <span>
              {one.message} <code class="muted">{one.code}</code>
              {one.hint && <p class="muted">{one.hint}</p>}
            </span>
          </li>
        ))}
      </ul>
      <p class="muted">
        No code ran. It assumed {Object.entries(found.assumed).map(([what, how]) => `${what}: ${how}`).join("; ") || "nothing"}. <code>stepwell simulate</code> takes what you know.
      </p>
    </Card>
  );
}

/** Steps and rules that no simulated run came to. */
function Never({ title, names }: { title: string; names: string[] }): JSX.Element | null {
  if (!names.length) return null;
  return (
    <>
      <dt>{title}</dt>
      <dd>
        <code>{names.join(", ")}</code>
      </dd>
    </>
  );
}

function usd(amount: number): string {
  return `${amount.toPrecision(2)} USD`;
}
