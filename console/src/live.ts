// The live feed: one WebSocket for what the page shows, whose entries tell the page to read again. Without it, pages poll.

import { get, isForGood, query } from "./api";

const SOONEST_MS = 1000; // before a lost feed is opened again
const LATEST_MS = 30000;
const SETTLED_MS = 3000; // after opening: what was committed while it opened is asked for
const ALIVE_MS = 240000; // API Gateway ends a connection that is silent for ten minutes

/** Whether the page's feed is open, and who reads again when something is committed. */
export const feed = { isOpen: false, listeners: new Set<() => void>() };

let topic: Record<string, string> | null = null;
let socket: WebSocket | null = null;
let turn = 0; // of opening; an older one counts no more
let timers: number[] = [];

/** Follows one run, the runs of one workflow, or all runs; null: nothing. */
export function watch(wanted: Record<string, string> | null): void {
  if (JSON.stringify(wanted) === JSON.stringify(topic)) return;
  topic = wanted;
  reopen();
}

function reopen(): void {
  close();
  if (topic !== null && !document.hidden) void open(topic, ++turn, SOONEST_MS);
}

function close(): void {
  turn += 1;
  timers.forEach(window.clearTimeout);
  timers = [];
  socket?.close();
  socket = null;
  feed.isOpen = false;
}

function tell(): void {
  feed.listeners.forEach((listen) => listen());
}

async function open(wanted: Record<string, string>, mine: number, waitMs: number): Promise<void> {
  const url = await addressOf(wanted);
  if (mine !== turn || url === null) return; // this API has no feed
  if (url === "") return later(wanted, mine, waitMs);
  const made = (socket = new WebSocket(url));
  const ask = (): void => {
    if (made.readyState === WebSocket.OPEN) made.send("{}");
  };
  made.onopen = () => {
    feed.isOpen = true;
    ask();
    tell(); // what was committed before it opened
    timers.push(window.setTimeout(tell, SETTLED_MS), window.setInterval(ask, ALIVE_MS));
    waitMs = SOONEST_MS;
  };
  made.onmessage = (message) => {
    const { entries } = JSON.parse(String(message.data)) as { entries?: unknown[] };
    if (entries === undefined || entries.length) tell(); // without any: an error, say because the run was deleted
  };
  made.onclose = () => {
    if (mine !== turn) return;
    feed.isOpen = false;
    tell(); // whether the server answers at all
    later(wanted, mine, waitMs);
  };
}

function later(wanted: Record<string, string>, mine: number, waitMs: number): void {
  timers.forEach(window.clearTimeout);
  timers = [window.setTimeout(() => mine === turn && void open(wanted, mine, Math.min(waitMs * 2, LATEST_MS)), waitMs)];
}

/** The feed's address; null where there is none, "" where the server does not answer. */
async function addressOf(wanted: Record<string, string>): Promise<string | null> {
  try {
    const url = new URL((await get<{ url: string }>("/stream" + query(wanted), true)).url, location.href);
    url.protocol = url.protocol.replace("http", "ws");
    return url.href;
  } catch (problem) {
    return isForGood(problem) ? null : "";
  }
}

document.addEventListener("visibilitychange", reopen);
