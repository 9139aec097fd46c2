// Calls of the HTTP API, and whether the server answers.

import { useEffect, useRef, useState } from "preact/hooks";
import type { Json, Problem } from "./types";

const SOONEST_MS = 1000; // between two looks at something that moves
const LATEST_MS = 5000; // between two looks at something that does not
const ANSWER_MS = 15000;

export class Refusal extends Error {
  constructor(readonly problem: Problem) {
    super(problem.detail || problem.title);
  }
}

/** The server did not answer at all. */
export class Unreachable extends Error {}

export interface Answer<T> {
  status: number;
  body: T;
  etag: string;
}

/** Where the connection stands: `lostAt` is when the server last failed to answer, or 0. */
export const connection = { lostAt: 0, seenAt: 0, listeners: new Set<() => void>() };

function tell(lost: boolean): void {
  const before = connection.lostAt;
  connection.lostAt = lost ? before || Date.now() : 0;
  if (!lost) connection.seenAt = Date.now();
  if (Boolean(before) !== lost) connection.listeners.forEach((listen) => listen());
}

async function call(method: string, path: string, body?: Json, etag = ""): Promise<Answer<unknown> | null> {
  const headers: Record<string, string> = { accept: "application/json" };
  if (body !== undefined) headers["content-type"] = "application/json";
  if (etag) headers["if-none-match"] = etag;
  let reply: Response;
  let text: string;
  try {
    const signal = AbortSignal.timeout(ANSWER_MS);
    // `no-store`: the browser's own cache would turn a 304 into a 200 with the whole body to parse.
    reply = await fetch("." + path, { method, headers, signal, cache: "no-store", body: body === undefined ? null : JSON.stringify(body) });
    text = await reply.text();
  } catch (error) {
    tell(true);
    throw new Unreachable(error instanceof Error ? error.message : String(error));
  }
  tell(false);
  if (reply.status === 304) return null;
  const found: unknown = text ? JSON.parse(text) : null;
  if (!reply.ok) throw new Refusal(found as Problem);
  return { status: reply.status, body: found, etag: reply.headers.get("etag") ?? "" };
}

export async function get<T>(path: string): Promise<T> {
  return ((await call("GET", path)) as Answer<T>).body;
}

export async function post<T>(path: string, body: Json): Promise<Answer<T>> {
  return (await call("POST", path, body)) as Answer<T>;
}

export function query(values: Record<string, string>): string {
  const given = Object.entries(values).filter(([, value]) => value);
  return given.length ? "?" + new URLSearchParams(given).toString() : "";
}

export interface Live<T> {
  value: T | null;
  error: Refusal | null;
  at: number; // when it last changed
  again: () => void;
}

/** Reads a path now and again: often while it changes, seldom while it does not, never while nobody looks. */
export function useLive<T>(path: string | null, isOver = false, soonestMs = SOONEST_MS): Live<T> {
  const [live, set] = useState<{ path: string | null; value: T | null; error: Refusal | null; at: number }>({ path, value: null, error: null, at: 0 });
  const [nudge, setNudge] = useState(0);
  const over = useRef(isOver);
  over.current = isOver;
  useEffect(() => (path === null ? undefined : follow<T>(path, (found) => set({ path, ...found }), over, soonestMs)), [path, nudge]);
  const current = live.path === path ? live : { value: null, error: null, at: 0 };
  return { value: current.value, error: current.error, at: current.at, again: () => setNudge(nudge + 1) };
}

type Found<T> = { value: T | null; error: Refusal | null; at: number };

function follow<T>(path: string, found: (found: Found<T>) => void, over: { current: boolean }, soonestMs: number): () => void {
  let timer = 0;
  let stopped = false;
  let etag = "";
  let waitMs = soonestMs;
  let asked = 0; // the number of the look that counts: an older one that answers late is dropped
  const look = async (): Promise<void> => {
    const mine = ++asked;
    try {
      const answer = (await call("GET", path, undefined, etag)) as Answer<T> | null;
      if (stopped || mine !== asked) return;
      waitMs = answer ? soonestMs : Math.min(waitMs * 1.3, LATEST_MS);
      if (answer) {
        etag = answer.etag;
        found({ value: answer.body, error: null, at: Date.now() });
      }
    } catch (error) {
      if (stopped || mine !== asked) return;
      if (error instanceof Refusal) found({ value: null, error, at: Date.now() });
      waitMs = error instanceof Refusal ? LATEST_MS : SOONEST_MS;
    }
    if (!over.current) timer = window.setTimeout(look, waitMs);
  };
  const seen = (): void => {
    window.clearTimeout(timer);
    if (!document.hidden) void look();
  };
  document.addEventListener("visibilitychange", seen);
  void look();
  return () => {
    stopped = true;
    window.clearTimeout(timer);
    document.removeEventListener("visibilitychange", seen);
  };
}

/** Renders again when the connection is lost or found, and every second while it is lost. */
export function useConnection(): typeof connection {
  const [, render] = useState(0);
  useEffect(() => {
    const listen = (): void => render((count) => count + 1);
    connection.listeners.add(listen);
    const timer = window.setInterval(() => connection.lostAt && listen(), 1000);
    return () => {
      connection.listeners.delete(listen);
      window.clearInterval(timer);
    };
  }, []);
  return connection;
}
