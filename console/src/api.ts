// Calls of the HTTP API, and whether the server answers.

import { useEffect, useRef, useState } from "preact/hooks";
import { feed } from "./live";
import { credentials, needsLogin, signIn } from "./login";
import type { Json, Problem } from "./types";

const SOONEST_MS = 1000; // between two looks at something that moves
const LATEST_MS = 5000; // between two looks at something that does not
const ANSWER_MS = 30000; // as long as API Gateway waits: to ask again before it has given up would double its work
const FED_SOONEST_MS = 250; // between two looks at what the feed says has changed
const FED_GROWTH = 4; // of the pause between two such looks
const FED_LATEST_MS = 60000; // between two looks at what the feed would say
const AT_ONCE = 2; // reads under way: on AWS each one more may start a function, which takes longer than to wait for its turn

export class Refusal extends Error {
  constructor(readonly problem: Problem) {
    super(problem.detail || problem.title);
  }
}

/** The server did not answer at all. */
export class Unreachable extends Error {}

/** Whether the server refused, and will again; one that is too busy may not. */
export function isForGood(problem: unknown): problem is Refusal {
  return problem instanceof Refusal && problem.problem.status < 500 && problem.problem.status !== 429;
}

export interface Answer<T> {
  status: number;
  body: T;
  etag: string;
}

interface Asking {
  body?: Json;
  etag?: string;
  key?: string; // of a call that is done once, however often it is sent
  signal?: AbortSignal;
  isLate?: boolean;
}

/** Where the connection stands: `lostAt` is when the server last failed to answer, or 0. */
export const connection = { lostAt: 0, seenAt: 0, listeners: new Set<() => void>() };

function tell(lost: boolean): void {
  const before = connection.lostAt;
  connection.lostAt = lost ? before || Date.now() : 0;
  if (!lost) connection.seenAt = Date.now();
  if (Boolean(before) !== lost) connection.listeners.forEach((listen) => listen());
}

async function call(method: string, path: string, { body, etag = "", key = "", signal }: Asking = {}): Promise<Answer<unknown>> {
  const headers: Record<string, string> = { accept: "application/json", ...credentials() };
  if (body !== undefined) headers["content-type"] = "application/json";
  if (etag) headers["if-none-match"] = etag;
  if (key) headers["idempotency-key"] = key;
  const signals = [AbortSignal.timeout(ANSWER_MS), ...(signal ? [signal] : [])];
  let reply: Response;
  let text: string;
  try {
    // `no-store`: the browser's own cache would turn a 304 into a 200 with the whole body to parse.
    reply = await fetch("." + path, { method, headers, signal: AbortSignal.any(signals), cache: "no-store", body: body === undefined ? null : JSON.stringify(body) });
    text = await reply.text();
  } catch (error) {
    if (!signal?.aborted) tell(true);
    throw new Unreachable(error instanceof Error ? error.message : String(error));
  }
  const found = parsed(text);
  tell(found === undefined && reply.ok);
  if (found === undefined && reply.ok) throw new Unreachable("What answers here is not Stepwell: it sent no JSON"); // a proxy, say
  if (reply.status === 401 && needsLogin) void signIn();
  if (!reply.ok && reply.status !== 304) throw new Refusal(problemOf(reply.status, found));
  return { status: reply.status, body: found, etag: reply.headers.get("etag") ?? "" };
}

/** The answer's value; undefined if it is no JSON. */
function parsed(text: string): unknown {
  try {
    return text ? (JSON.parse(text) as unknown) : null;
  } catch {
    return undefined;
  }
}

/** The answer as a problem; API Gateway's own refusals have a message alone. */
function problemOf(status: number, found: unknown): Problem {
  const given = (found ?? {}) as Partial<Problem> & { message?: string };
  const title = given.title ?? given.message ?? `The server answered ${status}`;
  return { ...given, title, status, detail: given.detail ?? title } as Problem;
}

/** The paths that the server refused to this caller, and the listeners to tell. */
export const forbidden = { paths: new Set<string>(), listeners: new Set<() => void>() };

function note(path: string, isForbidden: boolean): void {
  const place = path.replace(/\?.*/, "");
  if (forbidden.paths.has(place) === isForbidden) return;
  if (isForbidden) forbidden.paths.add(place);
  else forbidden.paths.delete(place);
  forbidden.listeners.forEach((listen) => listen());
}

let underWay = 0;
const inLine: { isLate: boolean; begin: () => void }[] = [];

function letIn(): void {
  while (underWay < AT_ONCE && inLine.length) {
    underWay += 1;
    inLine.splice(Math.max(inLine.findIndex((one) => !one.isLate), 0), 1)[0]?.begin();
  }
}

/** Reads in its turn; `isLate`: after whatever else waits for one. */
async function read(path: string, asking: Asking = {}): Promise<Answer<unknown>> {
  await new Promise<void>((begin) => {
    inLine.push({ isLate: Boolean(asking.isLate), begin });
    queueMicrotask(letIn); // not before all that one change of the page asks for stands in line
  });
  try {
    const answer = await call("GET", path, asking);
    note(path, false);
    return answer;
  } catch (error) {
    if (error instanceof Refusal && error.problem.status === 403) note(path, true);
    throw error;
  } finally {
    underWay -= 1;
    letIn();
  }
}

/** `isLate`: what the page shows beside the rest. */
export async function get<T>(path: string, isLate = false): Promise<T> {
  return (await read(path, { isLate })).body as T;
}

let offers: Promise<Set<string>> | null = null;

/** Whether this API has a route, as its own document says. */
export function offered(method: string, path: string): Promise<boolean> {
  offers ??= get<{ paths: Record<string, Record<string, Json>> }>("/openapi.json").then(
    (document) => new Set(Object.entries(document.paths).flatMap(([at, methods]) => Object.keys(methods).map((one) => `${one.toUpperCase()} ${at}`))),
  );
  return offers.then((routes) => routes.has(`${method} ${path}`)).catch(() => {
    offers = null;
    return false;
  });
}

export async function post<T>(path: string, body: Json, key = ""): Promise<Answer<T>> {
  return (await call("POST", path, { body, key })) as Answer<T>;
}

export async function remove<T>(path: string): Promise<Answer<T>> {
  return (await call("DELETE", path)) as Answer<T>;
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

export interface Pace {
  isOver?: boolean; // it does not change any more
  soonestMs?: number;
  isFed?: boolean; // the feed says when it changes
  isAging?: boolean; // its answer has ages, so it always differs: that says nothing of a change
  isLate?: boolean; // what the page shows beside the rest
}

/** Reads a path when the feed says that it changes; else often while it changes, seldom while it does not. Never while nobody looks. */
export function useLive<T>(path: string | null, pace: Pace = {}): Live<T> {
  const [live, set] = useState<{ path: string | null; value: T | null; error: Refusal | null; at: number }>({ path, value: null, error: null, at: 0 });
  const [nudge, setNudge] = useState(0);
  const latest = useRef(pace);
  latest.current = pace;
  useEffect(() => (path === null ? undefined : follow<T>(path, (found) => set({ path, ...found }), latest)), [path, nudge]);
  const current = live.path === path ? live : { value: null, error: null, at: 0 };
  return { value: current.value, error: current.error, at: current.at, again: () => setNudge(nudge + 1) };
}

type Found<T> = { value: T | null; error: Refusal | null; at: number };

function follow<T>(path: string, found: (found: Found<T>) => void, pace: { current: Pace }): () => void {
  let timer = 0;
  let stopped = false;
  let etag = "";
  let waitMs = SOONEST_MS;
  let lookedAt = 0;
  let isTold = false; // while it looked
  let isAnswered = false;
  let isShown = false;
  let looking: AbortController | null = null;
  const isFed = (): boolean => Boolean(pace.current.isFed) && feed.isOpen && !connection.lostAt;
  const soonestOf = (): number => Math.max(lookedAt + (pace.current.soonestMs ?? FED_SOONEST_MS) - Date.now(), 0);
  const next = (inMs: number): void => {
    window.clearTimeout(timer);
    if (!stopped) timer = window.setTimeout(() => void ((pace.current.isOver && isAnswered) || look()), inMs); // an answer may say that it is over
  };
  const look = async (): Promise<void> => {
    looking?.abort(); // an older look that answers late counts no more
    const mine = (looking = new AbortController());
    window.clearTimeout(timer);
    lookedAt = Date.now();
    const soonestMs = pace.current.soonestMs ?? SOONEST_MS;
    try {
      const answer = await read(path, { etag, signal: mine.signal, isLate: Boolean(pace.current.isLate) });
      if (mine.signal.aborted) return;
      isAnswered = true;
      const fedMs = pace.current.isAging ? FED_GROWTH * soonestMs : FED_LATEST_MS; // not all that ages is told by the feed: a pause is not
      const [growth, latestMs] = isFed() ? [FED_GROWTH, fedMs] : [1.3, Math.max(LATEST_MS, soonestMs)];
      const isSame = answer.status === 304 || pace.current.isAging;
      waitMs = isSame ? Math.min(Math.max(waitMs, soonestMs) * growth, latestMs) : soonestMs;
      if (answer.status !== 304) {
        etag = answer.etag;
        isShown = true;
        found({ value: answer.body as T, error: null, at: Date.now() });
      }
    } catch (error) {
      if (mine.signal.aborted) return;
      isAnswered ||= isForGood(error);
      if (isForGood(error) || (error instanceof Refusal && !isShown)) found({ value: null, error, at: Date.now() }); // what is shown outlasts a busy server
      waitMs = error instanceof Refusal ? LATEST_MS : SOONEST_MS;
    }
    looking = null;
    next(isTold ? soonestOf() : waitMs);
    isTold = false;
  };
  const seen = (): void => {
    window.clearTimeout(timer);
    if (document.hidden) looking?.abort();
    else void look();
  };
  const told = (): void => {
    if (!pace.current.isFed || document.hidden) return;
    waitMs = SOONEST_MS;
    if (looking) isTold = true; // to look again at once would never end where looks take long
    else next(soonestOf());
  };
  document.addEventListener("visibilitychange", seen);
  feed.listeners.add(told);
  void look();
  return () => {
    stopped = true;
    looking?.abort();
    window.clearTimeout(timer);
    feed.listeners.delete(told);
    document.removeEventListener("visibilitychange", seen);
  };
}

/** The paths that this page asked for and its reader may not see. */
export function useForbidden(page: string): string[] {
  const [, render] = useState(0);
  useEffect(() => {
    const listen = (): void => render((count) => count + 1);
    forbidden.listeners.add(listen);
    return () => void forbidden.listeners.delete(listen);
  }, []);
  useEffect(() => {
    forbidden.paths.clear();
    render((count) => count + 1);
  }, [page]);
  return [...forbidden.paths];
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
