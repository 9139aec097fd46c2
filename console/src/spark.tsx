// A sparkline of the newest runs that fit the filters: when they started, and when runs failed.

import type { JSX } from "preact";
import { query, useLive } from "./api";
import type { Page, RunSummary } from "./types";
import { useNow } from "./ui";
import { counted, span } from "./words";

const LOOKED_AT = 200; // runs: the work does not grow with the number that there are
const SELDOM_MS = 60000;
const BARS = 48;
const HEIGHT = 28;
const FAILED = new Set(["failed", "timed_out"]);

export function Spark({ filters }: { filters: Record<string, string> }): JSX.Element | null {
  const runs = useLive<Page<RunSummary>>("/runs" + query({ ...filters, limit: String(LOOKED_AT) }), { soonestMs: SELDOM_MS, isLate: true }).value?.items ?? [];
  const now = Math.ceil(useNow() / SELDOM_MS) * SELDOM_MS;
  if (runs.length < 2) return null;
  const began = Math.min(...runs.map((run) => Date.parse(run.created_at)));
  const barMs = Math.max((now - began) / BARS, 1);
  const starts = bars(runs.map((run) => run.created_at), began, barMs);
  const failures = bars(runs.filter((run) => run.ended_at && FAILED.has(run.status)).map((run) => run.ended_at ?? ""), began, barMs);
  const most = Math.max(...starts, ...failures);
  const failed = failures.reduce((sum, count) => sum + count, 0);
  const told = `${runs.length === LOOKED_AT ? "The newest " : ""}${counted(runs.length, "run")} in the last ${span((now - began) / 1000)}, ${failed} failed`;
  return (
    <figure class="spark">
      <svg viewBox={`0 0 ${BARS * 4} ${HEIGHT}`} role="img" aria-label={told} preserveAspectRatio="none">
        {starts.map((count, at) => count > 0 && <rect key={at} class="starts" x={at * 4} width="3" y={HEIGHT - height(count, most)} height={height(count, most)} />)}
        {failures.map((count, at) => count > 0 && <rect key={`f${at}`} class="failures" x={at * 4} width="3" y={HEIGHT - height(count, most)} height={height(count, most)} />)}
      </svg>
      <figcaption>{told}</figcaption>
    </figure>
  );
}

function bars(times: string[], began: number, barMs: number): number[] {
  const found = new Array<number>(BARS).fill(0);
  for (const at of times) {
    const bar = Math.min(Math.max(Math.floor((Date.parse(at) - began) / barMs), 0), BARS - 1);
    found[bar] = (found[bar] ?? 0) + 1;
  }
  return found;
}

function height(count: number, most: number): number {
  return Math.max((count / most) * HEIGHT, 2);
}
