// A definition that is pasted: its problems by line, and its graph. Nothing is deployed.

import type { JSX } from "preact";
import { useState } from "preact/hooks";
import { post, Refusal } from "./api";
import { GraphView } from "./graph";
import type { Checked } from "./types";
import { Card, Command, Empty } from "./ui";

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
          <p>Paste YAML or JSON: what is wrong with it, by line, and its graph. Nothing is deployed.</p>
        </div>
      </header>
      <div class="columns halves">
        <form onSubmit={(event) => void check(event)}>
          <textarea aria-label="Definition" rows={24} spellcheck={false} value={text} onInput={(event) => setText(event.currentTarget.value)} />
          <div class="bar">
            <Command line="stepwell check FILE" />
            <button type="submit" class="primary">
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
    </>
  );
}
