// Times, durations and commands for people.

import type { Json } from "./types";

const UNITS: [number, string, number, string][] = [
  [86_400, "d", 3_600, "h"],
  [3_600, "h", 60, "min"],
  [60, "min", 1, "s"],
];

export function span(seconds: number): string {
  if (seconds < 1) return `${Math.max(Math.round(seconds * 1000), 0)} ms`;
  if (seconds < 10) return `${seconds.toFixed(1)} s`;
  for (const [unit, name, smaller, smallerName] of UNITS) {
    if (seconds >= unit) {
      const whole = Math.floor(seconds / unit);
      const rest = Math.floor((seconds % unit) / smaller);
      return whole < 10 && rest ? `${whole} ${name} ${rest} ${smallerName}` : `${whole} ${name}`;
    }
  }
  return `${Math.floor(seconds)} s`;
}

export function ago(at: string, now: number): string {
  const seconds = (now - Date.parse(at)) / 1000;
  if (seconds <= -1) return `in ${soon(-seconds)}`;
  return seconds < 5 ? "just now" : `${coarse(seconds)} ago`;
}

/** To the nearest: what is due in 24 hours was set for 24 hours a moment ago. */
function soon(seconds: number): string {
  for (const [unit, name, smaller] of UNITS) if (Math.round(seconds / smaller) * smaller >= unit) return `${Math.round(seconds / unit)} ${name}`;
  return `${Math.round(seconds)} s`;
}

function coarse(seconds: number): string {
  for (const [unit, name] of UNITS) if (seconds >= unit) return `${Math.floor(seconds / unit)} ${name}`;
  return `${Math.floor(seconds)} s`;
}

export function clock(at: string | number): string {
  return new Date(at).toLocaleTimeString(undefined, { hour12: false });
}

/** The time with its day and time zone, and the same in UTC, as logs and the API have it. */
export function full(at: string): string {
  const moment = new Date(at);
  const day = moment.toLocaleDateString(undefined, { year: "numeric", month: "short", day: "numeric" });
  return `${day}, ${zoned(clock(at), at)} = ${moment.toISOString()}`;
}

/** A time of the reader's own zone, with the zone's name. */
export function zoned(time: string, at: string): string {
  const parts = new Intl.DateTimeFormat(undefined, { timeZoneName: "short" }).formatToParts(new Date(at));
  return `${time} ${parts.find((part) => part.type === "timeZoneName")?.value ?? ""}`;
}

/** The time, with its day unless that is today. */
export function when(at: string | number): string {
  const [moment, today] = [new Date(at), new Date()];
  if (moment.toDateString() === today.toDateString()) return clock(at);
  const year = moment.getFullYear() === today.getFullYear() ? {} : ({ year: "numeric" } as const);
  return `${moment.toLocaleDateString(undefined, { month: "short", day: "numeric", ...year })}, ${clock(at)}`;
}

/** Replaces the times of an explanation, which are in UTC, with the reader's own. */
export function localized(text: string): string {
  return text.replace(/\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z/g, when);
}

const BUTTONS: [RegExp, string][] = [
  [/POST \/runs\/\S+\/approve or \/reject(?: with "wait": "[^"]*")? by the approver/, "Approve or Reject, as the approver"],
  [/POST \/runs\/\S+\/approve or \/reject with (?:"wait": "[^"]*" and )?"by": /, "Approve or Reject, as "],
  [/POST \/runs\/\S+\/approve or \/reject(?: with "wait": "[^"]*")? by (?=")/, "Approve or Reject, as "],
  [/POST \/runs\/\S+\/unpause has it go on/, "Unpause"],
  [/POST \/workflows:unpause (has it go on|ends the pause of its workflow)/, "Unpause all workflows"],
  [/POST \/workflows\/(\S+)\/unpause (has it go on|ends the pause of its workflow)/, "Unpause its workflow, $1"],
  [/POST \/runs\/\S+\/start starts it, \/cancel ends it/, "Start or Cancel"],
  [/GET \/runs\/\S+\/branches\S* lists the branches(?: that wait| of \S+)?/, "they are listed below"],
  [/GET \/limits\/(\S+) shows/, "the page Limits shows"],
  [/GET \/runs\/(\S+)\/explain shows the state of that run/, "see run $1"],
  [/ \(POST \/runs\/[^)]*\)/g, ""],
];

/** An explanation, whose routes are for programs, with the console's own words for them. */
export function forPeople(text: string): string {
  return BUTTONS.reduce((said, [route, words]) => said.replace(route, words), text).replaceAll("timed_out", "timed out");
}

/** A small amount of money that a person can compare: of one, and of a million like it. */
export function priced(usd: number): string {
  const million = usd * 1_000_000;
  return `${million >= 100 ? Math.round(million).toLocaleString() : million.toPrecision(2)} USD for a million such runs`;
}

/** A word as the shell reads it back. */
export function quoted(word: string): string {
  return /^[\w@%+=:,./-]+$/.test(word) ? word : `'${word.replaceAll("'", `'\\''`)}'`;
}

export function commandLine(...words: (string | [string, string])[]): string {
  const given = words.flatMap((word) => (typeof word === "string" ? [word] : word[1] ? [word[0], word[1]] : []));
  return ["stepwell", ...given.map(quoted)].join(" ");
}

export interface Large {
  bytes: number;
  link: string;
}

/** What stands for a value that is too large for its answer; with a link to anywhere else, it is the run's own data. */
export function largeOf(value: Json, links = /^\/runs\/[^/?]+\/(value\?|result$)/): Large | null {
  const { large, ...others } = value !== null && typeof value === "object" && !Array.isArray(value) ? value : {};
  const { bytes, link, ...more } = large !== null && typeof large === "object" && !Array.isArray(large) ? (large as { [name: string]: Json }) : {};
  if (typeof bytes !== "number" || typeof link !== "string" || Object.keys({ ...others, ...more }).length) return null;
  return links.test(link) ? { bytes, link } : null;
}

export function sized(bytes: number): string {
  return bytes < 1_000_000 ? `${Math.ceil(bytes / 1000)} kB` : `${(bytes / 1_000_000).toFixed(1)} MB`;
}

/** A text without quotes, unless it would look like another value or like nothing. */
export function unquoted(text: string): string {
  return /^(\s*|true|false|null|\[\]|\{\}|-?\d+(\.\d+)?(e[+-]?\d+)?)$/i.test(text) ? JSON.stringify(text) : text;
}

/** The beginning of a value as JSON, on one line. */
export function brief(value: Json, most: number): string {
  const shorter = (_: string, part: Json): Json => {
    const large = largeOf(part);
    if (large) return `… ${sized(large.bytes)}`;
    if (typeof part === "string") return part.slice(0, most);
    return Array.isArray(part) ? part.slice(0, most) : part;
  };
  const text = JSON.stringify(value, shorter) ?? "";
  return text.length > most ? text.slice(0, most) + "…" : text;
}

export function counted(count = 0, what = ""): string {
  return `${count} ${what}${count === 1 ? "" : "s"}`;
}

/** A count; `isBounded`: there are more, too many to count. */
export function tally(count: number, isBounded = false): string {
  return `${isBounded ? "≥ " : ""}${count}`;
}

export function shortId(id: string): string {
  return id.length > 16 ? `${id.slice(0, 4)}…${id.slice(-6)}` : id;
}

export function shortVersion(version: string): string {
  return version.replace("sha256:", "").slice(0, 12);
}

/** A version with the number that the author of a durable function gave it. */
export function numberedVersion(one: { version: string; version_number: number | null }): string {
  return shortVersion(one.version) + (one.version_number ? ` (${one.version_number})` : "");
}

export function plain(word: string): string {
  return word.replaceAll("_", " ");
}

/** A kind of wait in words: a wait in `ctx.until` is for a function's tasks to the API. */
export function kindWords(kind: string): string {
  return kind === "tasks" ? "a condition" : plain(kind);
}

export const TERMINAL = new Set(["completed", "compensated", "failed", "timed_out", "cancelled"]);
export const STATUSES = ["pending", "running", "waiting", "paused", "compensating", "idle", "completed", "failed", "timed_out", "cancelled", "compensated"];

/** What a run waits with, without the links in it: whoever has such a link may answer. */
export function withoutLinks(data: Json): Json {
  if (data === null || typeof data !== "object" || Array.isArray(data)) return data;
  const { approval_links: _links, callback_url: _url, ...rest } = data;
  return Object.keys(rest).length ? rest : null;
}

/** What a person ends: the kinds of wait of the inbox. */
export const FOR_PEOPLE = ["approval", "response", "document", "signature", "test"];
export const FOR_OTHERS = ["event", "callback", "sleep", "delay", "children", "workflow", "agent", "tasks"]; // other kinds of waits
