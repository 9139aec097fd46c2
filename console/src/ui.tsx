// Small parts that every page uses.

import type { ComponentChildren, JSX } from "preact";
import { useEffect, useLayoutEffect, useRef, useState } from "preact/hooks";
import { Data } from "./data";
import type { ErrorView } from "./types";
import { ago, counted, forPeople, full, localized, plain, shortId, tally } from "./words";

let now = Date.now();
const ticking = new Set<() => void>();
window.setInterval(() => {
  now = Date.now();
  ticking.forEach((tick) => tick());
}, 1000);

/** The time, as of the last second. */
export function useNow(): number {
  const [, render] = useState(0);
  useEffect(() => {
    const tick = (): void => render(now);
    ticking.add(tick);
    return () => void ticking.delete(tick);
  }, []);
  return now;
}

/** `isTolerated`: it failed in a branch, and the run completed all the same. */
export function Status({ value, isTolerated }: { value: string; isTolerated?: boolean }): JSX.Element {
  return (
    <span class={`status is-${isTolerated ? "tolerated" : value}`}>
      <i aria-hidden="true" />
      {plain(value)}
      {isTolerated && ", tolerated"}
    </span>
  );
}

/** A count of runs, which may be the least that there are. */
export function Tally({ count, isBounded }: { count: number; isBounded: boolean }): JSX.Element {
  return <b title={isBounded ? "At least so many: there are too many to count" : undefined}>{tally(count, isBounded)}</b>;
}

export function Time({ at }: { at: string }): JSX.Element {
  return (
    <time dateTime={at} title={full(at)}>
      {ago(at, useNow())}
    </time>
  );
}

export function Card(given: { title: ComponentChildren; aside?: ComponentChildren; class?: string; children: ComponentChildren }): JSX.Element {
  return (
    <section class={`card ${given.class ?? ""}`}>
      <header>
        <h2>{given.title}</h2>
        <div class="aside">{given.aside}</div>
      </header>
      {given.children}
    </section>
  );
}

/** The first lines of a text that is told in full elsewhere. */
export function Brief({ text }: { text: string }): JSX.Element {
  return (
    <span class="brief" title={text}>
      {text}
    </span>
  );
}

/** That there is nothing, and why; `isPage`: it is all of the page, and its heading. */
export function Empty({ title, isPage, children }: { title: string; isPage?: boolean; children?: ComponentChildren }): JSX.Element {
  return (
    <div class="empty">
      {isPage ? <h1>{title}</h1> : <strong>{title}</strong>}
      {children && <div>{children}</div>}
    </div>
  );
}

export function Copy({ text, label }: { text: string | (() => string); label: string }): JSX.Element {
  const [said, say] = useState("");
  const copy = async (): Promise<void> => {
    const isDone = await navigator.clipboard.writeText(typeof text === "string" ? text : text()).then(() => true, () => false);
    say(isDone ? "copied" : "not copied: the browser refuses");
    window.setTimeout(() => say(""), isDone ? 1200 : 4000);
  };
  return (
    <button type="button" class="quiet copy" aria-label={said || label} title={label} onClick={() => void copy()}>
      {said || "copy"}
    </button>
  );
}

/** A command of the command line, to be copied. */
export function Command({ line }: { line: string }): JSX.Element {
  return (
    <div class="command">
      <code>{line}</code>
      <Copy text={line} label="Copy the command" />
    </div>
  );
}

/** What an explanation says, with the reader's times, and with links to the other runs that it names. */
export function Explained({ text }: { text: string }): JSX.Element {
  const parts = localized(forPeople(text)).split(/\b(?:run )?(run_[0-9a-z]{20,})/);
  return <>{parts.map((part, at) => (at % 2 ? <a key={at} href={`#/runs/${part}`} title={part}>{shortId(part)}</a> : part))}</>;
}

export function Failure({ error, taken }: { error: ErrorView; taken?: string }): JSX.Element {
  return (
    <div class="failure">
      <p>
        <strong>{error.type}</strong> {error.message}
      </p>
      <p class="muted">
        {[error.step && `at ${error.step}`, error.category, error.attempts && counted(error.attempts, "attempt")].filter(Boolean).join(" · ")}
      </p>
      {taken && <p>{taken}</p>}
      {error.traceback && (
        <pre class="traceback" tabIndex={0} aria-label="Traceback">
          {error.traceback.trimEnd()}
        </pre>
      )}
      {error.data !== null && error.data !== undefined && <Data value={error.data} />}
    </div>
  );
}

export function Dialog({ title, onClose, children }: { title: string; onClose: () => void; children: ComponentChildren }): JSX.Element {
  const place = useRef<HTMLDialogElement>(null);
  useLayoutEffect(() => {
    const dialog = place.current;
    dialog?.showModal();
    return () => dialog?.close();
  }, []);
  return (
    <dialog ref={place} onClose={onClose} aria-label={title}>
      <header>
        <h2>{title}</h2>
        <button type="button" class="quiet" aria-label="Close" onClick={onClose}>
          ✕
        </button>
      </header>
      {children}
    </dialog>
  );
}

/** Scrolls to the outcome of an action, and returns the focus to its button, which lost it while it was disabled. */
export function showOutcome(button: HTMLElement | null | undefined): void {
  if (document.activeElement === document.body) button?.focus();
  document.querySelector("dialog .told")?.scrollIntoView({ block: "nearest" });
}

/** Keeps what the keyboard chose in sight. */
export function useInSight(chosen: string | number): { current: HTMLElement | null } {
  const list = useRef<HTMLElement>(null);
  useLayoutEffect(() => list.current?.querySelector(".is-chosen")?.scrollIntoView({ block: "nearest" }), [chosen]);
  return list;
}

/** Runs an action for a key, unless the reader is typing. A layout effect: what is drawn hears the very next key. */
export function useKeys(keys: Record<string, () => void>): void {
  const latest = useRef(keys);
  latest.current = keys;
  useLayoutEffect(() => {
    const press = (event: KeyboardEvent): void => {
      const target = event.target as HTMLElement;
      if (event.ctrlKey || event.metaKey || event.altKey || document.querySelector("dialog[open]")) return;
      if (["INPUT", "TEXTAREA", "SELECT"].includes(target.tagName)) return;
      if (event.key === "Enter" && target.closest("a, button, summary")) return; // it is for what has the focus
      const act = latest.current[event.key];
      if (!act) return;
      event.preventDefault();
      act();
    };
    document.addEventListener("keydown", press);
    return () => document.removeEventListener("keydown", press);
  }, []);
}
