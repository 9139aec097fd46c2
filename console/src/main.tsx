// The console's frame: where the reader is, whether the server answers, and the page.

import type { JSX } from "preact";
import { render } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import { useConnection, useForbidden, useLive } from "./api";
import { CheckPage } from "./check";
import { Inbox } from "./inbox";
import { watch } from "./live";
import { needsLogin, settle, signIn, signOut } from "./login";
import "./main.css";
import "./dialogs.css";
import { RunPage } from "./run";
import { RunsPage } from "./runs";
import type { Stats } from "./types";
import { Empty } from "./ui";
import "./visible";
import { clock, FOR_PEOPLE, shortId, span, tally } from "./words";
import { WorkflowPage, WorkflowsPage } from "./workflows";

const COUNTED_MS = 5000; // between two looks at the counts where they are the page
const BESIDE_MS = 20000; // and where they stand beside it

interface Place {
  path: string[];
  asked: Record<string, string>;
}

function here(): Place {
  const [path = "", asked = ""] = location.hash.replace(/^#\/?/, "").split("?");
  return { path: path.split("/").filter(Boolean).map(decode), asked: Object.fromEntries(new URLSearchParams(asked)) };
}

function decode(part: string): string {
  try {
    return decodeURIComponent(part);
  } catch {
    return part; // a stray percent sign is a part of the name
  }
}

function usePlace(): Place {
  const [place, set] = useState(here);
  useEffect(() => {
    const move = (): void => set(here());
    addEventListener("hashchange", move);
    return () => removeEventListener("hashchange", move);
  }, []);
  return place;
}

/** What the page's feed is of: a run, the runs of a workflow, or all runs. */
function topicOf({ path: [room, name] }: Place): Record<string, string> | null {
  if (room === "runs" && name) return { run: name };
  if (room === "workflows" && name) return { workflow: name };
  return room === "check" ? null : {};
}

function Page({ place, stats, refused, recount }: { place: Place; stats: Stats | null; refused: string; recount: () => void }): JSX.Element {
  const [room, name] = place.path;
  if (!room || (room === "runs" && !name)) return <RunsPage asked={place.asked} stats={stats} refused={refused} recount={recount} />;
  if (room === "runs" && name) return <RunPage key={name} id={name} asked={place.asked} stats={stats} recount={recount} />;
  if (room === "inbox") return <Inbox />;
  if (room === "workflows") return name ? <WorkflowPage key={name} name={name} stats={stats} refused={refused} recount={recount} /> : <WorkflowsPage stats={stats} refused={refused} recount={recount} />;
  if (room === "check") return <CheckPage />;
  return <Empty isPage title="There is no such page">The bar on top leads to all pages.</Empty>;
}

function Console(): JSX.Element {
  const place = usePlace();
  const isCounted = place.path.length < 2 && place.path[0] !== "check";
  const counts = useLive<Stats>("/stats", { soonestMs: isCounted ? COUNTED_MS : BESIDE_MS, isFed: isCounted, isAging: true, isLate: !isCounted });
  const stats = counts.value;
  const was = useRef(isCounted);
  useEffect(() => {
    if (was.current !== isCounted) counts.again();
    was.current = isCounted;
  }, [isCounted]);
  useEffect(() => watch(topicOf(place)), [place]);
  const asked = FOR_PEOPLE.reduce((sum, kind) => sum + (stats?.waits[kind] ?? 0), 0);
  const room = place.path[0] ?? "runs";
  useEffect(() => {
    document.title = [place.path[1], room[0]?.toUpperCase() + room.slice(1), "Stepwell"].filter(Boolean).join(" · ");
  }, [place]);
  const link = (name: string, text: string, count = 0): JSX.Element => (
    <a href={`#/${name}`} aria-current={room === name || (room === "check" && name === "workflows") ? "page" : undefined}>
      {text}
      {count > 0 && <b class="count">{tally(count, stats?.at_least.includes("waiting"))}</b>}
    </a>
  );
  return (
    <>
      <header class="top">
        <a class="brand" href="#/runs">
          <img src="console/icon.svg" alt="" width="20" height="20" />
          Stepwell
        </a>
        <nav aria-label="Pages">
          {link("runs", "Runs")}
          {link("inbox", "Inbox", asked)}
          {link("workflows", "Workflows")}
        </nav>
        <Live />
        {needsLogin && (
          <button type="button" class="quiet" onClick={signOut}>
            Sign out
          </button>
        )}
        <Theme />
      </header>
      <Lost />
      <Forbidden page={place.path.join("/")} />
      <main id="main">
        <Page place={place} stats={stats} refused={counts.error?.message ?? ""} recount={counts.again} />
      </main>
    </>
  );
}

function Live(): JSX.Element {
  const { lostAt } = useConnection();
  return (
    <span class={lostAt ? "live is-lost" : "live"} title={lostAt ? "The server does not answer" : "What you see follows the server"}>
      <i aria-hidden="true" />
      {lostAt ? "offline" : "live"}
    </span>
  );
}

/** Says that the server does not answer, since when, and of when the page is. */
function Lost(): JSX.Element {
  const { lostAt, seenAt } = useConnection();
  return (
    <div role="status" class={lostAt ? "lost" : "found"}>
      {lostAt > 0 && (
        <>
          <strong>The server does not answer</strong> since {clock(lostAt)}
          {seenAt > 0 && <>; what you see is from {clock(seenAt)}</>}. Runs lose nothing by it. Trying again every second
          {Date.now() - lostAt > 10_000 && <span aria-hidden="true"> for {span((Date.now() - lostAt) / 1000)}</span>}.
        </>
      )}
    </div>
  );
}

/** Says which parts of the page its reader may not see: by their routes, since permissions name routes. */
function Forbidden({ page }: { page: string }): JSX.Element {
  const paths = useForbidden(page);
  return (
    <div role="status" class={paths.length ? "forbidden" : "found"}>
      {paths.length > 0 && (
        <>
          <strong>You may not see all of this page.</strong> The server refuses {paths.map((path, at) => <>{at > 0 && ", "}<code>GET {path.split("/").map((part) => shortId(decode(part))).join("/")}</code></>)}.
        </>
      )}
    </div>
  );
}

const THEMES = ["system", "light", "dark"] as const;

function Theme(): JSX.Element {
  const [theme, set] = useState(() => localStorage.getItem("theme") ?? "system");
  useEffect(() => {
    document.documentElement.dataset["theme"] = theme;
    localStorage.setItem("theme", theme);
  }, [theme]);
  const next = THEMES[(THEMES.indexOf(theme as (typeof THEMES)[number]) + 1) % THEMES.length] ?? "system";
  return (
    <button type="button" class="quiet theme" title={`Colours: ${theme}`} aria-label={`Colours: ${theme}; switch to ${next}`} onClick={() => set(next)}>
      {{ system: "◐", light: "○", dark: "●" }[theme] ?? "◐"}
    </button>
  );
}

function SignIn({ why }: { why: string }): JSX.Element {
  return (
    <main id="main">
      <Empty isPage title="Sign in to see runs">
        <p>{why}</p>
        <button type="button" class="primary" onClick={() => void signIn()}>
          Sign in
        </button>
      </Empty>
    </main>
  );
}

document.body.replaceChildren();
void settle().then((why) => render(why ? <SignIn why={why} /> : <Console />, document.body));
