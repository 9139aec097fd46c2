// Values as JSON that folds. A value too large for its answer stands as its size, and is read when the reader asks for it.

import type { JSX } from "preact";
import { useState } from "preact/hooks";
import { get } from "./api";
import type { Json } from "./types";
import { counted, largeOf, sized, unquoted, type Large } from "./words";

const LONG_TEXT = 4000;
const MANY = 100; // items of a list or an object that are shown at once

/** A value as JSON, whose objects and lists fold. Everything in it is text, whatever it looks like. */
export function Data({ value, open = 2 }: { value: Json; open?: number }): JSX.Element {
  return (
    <div class="data">
      <Value value={value} open={open} />
    </div>
  );
}

function Value({ value, open }: { value: Json; open: number }): JSX.Element {
  if (typeof value === "string") return <Text value={value} />;
  const large = largeOf(value);
  if (large) return <LargeValue large={large} open={open} />;
  if (value === null || typeof value !== "object") return <span class={`v-${value === null ? "null" : typeof value}`}>{String(value)}</span>;
  const isList = Array.isArray(value);
  const parts: [string, Json][] = isList ? value.map((one, at) => [String(at), one]) : Object.entries(value);
  if (!parts.length) return <span class="v-null">{isList ? "[]" : "{}"}</span>;
  return <Parts parts={parts} isList={isList} open={open} />;
}

function Parts({ parts, isList, open }: { parts: [string, Json][]; isList: boolean; open: number }): JSX.Element {
  const [shown, setShown] = useState(MANY);
  const [isOpen, setOpen] = useState(open > 0);
  return (
    <details open={isOpen} onToggle={(event) => setOpen(event.currentTarget.open)}>
      <summary>{isList ? counted(parts.length, "item") : `{ ${parts.slice(0, 4).map(([name]) => name).join(", ")}${parts.length > 4 ? ", …" : ""} }`}</summary>
      {isOpen && (
        <ul>
          {parts.slice(0, shown).map(([name, one]) => (
            <li key={name}>
              <span class="v-name">{name}</span>
              <Value value={one} open={open - 1} />
            </li>
          ))}
          {parts.length > shown && (
            <li>
              <button type="button" class="quiet" onClick={() => setShown(shown + MANY * 10)}>
                {parts.length - shown} more
              </button>
            </li>
          )}
        </ul>
      )}
    </details>
  );
}

function Text({ value }: { value: string }): JSX.Element {
  const [isWhole, setWhole] = useState(value.length <= LONG_TEXT);
  return (
    <span class="v-string">
      {isWhole ? unquoted(value) : value.slice(0, LONG_TEXT)}
      {!isWhole && (
        <button type="button" class="quiet" onClick={() => setWhole(true)}>
          … {value.length - LONG_TEXT} characters more
        </button>
      )}
    </span>
  );
}

type Reading = { said: string } | { value: Json } | { url: string };

/** The size of a value, and what reads it: into the page, or into a file. */
function LargeValue({ large, open }: { large: Large; open: number }): JSX.Element {
  const [found, set] = useState<Reading>({ said: "" });
  const read = async (use: (value: Json) => void): Promise<void> => {
    set({ said: "reading …" });
    try {
      const answer = await get<{ value?: Json; result?: Json }>(large.link);
      const value = answer.value ?? answer.result ?? null;
      const elsewhere = largeOf(value, /^https:/); // too large for any answer: a link of some minutes hands it out
      set(elsewhere ? { url: elsewhere.link } : { said: "" });
      if (!elsewhere) use(value);
    } catch (problem) {
      set({ said: `It cannot be read: ${(problem as Error).message}` });
    }
  };
  if ("value" in found) return <Value value={found.value} open={Math.max(open, 1)} />;
  const asks = (text: string, use: (value: Json) => void): JSX.Element => (
    <button type="button" class="quiet" onClick={() => void read(use)}>
      {text}
    </button>
  );
  return (
    <span class="large">
      <b>{sized(large.bytes)}</b>
      {"url" in found ? (
        <a href={found.url} target="_blank" rel="noreferrer">open it</a>
      ) : (
        <>
          {asks("show", (value) => set({ value }))}
          {asks("download", (value) => save(value, large.link))}
          <span role="status">{found.said}</span>
        </>
      )}
    </span>
  );
}

/** Hands a value to the reader as a file. A link alone would not do: calls carry who calls. */
function save(value: Json, link: string): void {
  const url = URL.createObjectURL(new Blob([JSON.stringify(value, null, 2)], { type: "application/json" }));
  const path = new URLSearchParams(link.split("?")[1] ?? "").get("path") ?? "/result";
  const name = path.replace(/[^\w.-]+/g, "-").replace(/^-/, "");
  Object.assign(document.createElement("a"), { href: url, download: `${name}.json` }).click();
  window.setTimeout(() => URL.revokeObjectURL(url), 60_000);
}
