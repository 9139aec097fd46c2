// The wait of a durable function for a condition or a timer of its own (`ctx.until`): its log tells it by what its tasks wait for.

import type { Entry } from "./types";

export const UNTIL = "until"; // as the API names its step
const GOES_ON = /^(update\.(received|answered)|phase\.changed|function\.stuck)$/; // these do not end it

/** The entries with the beginning and the end of each such wait among them, as other waits have theirs. */
export function withOwnWaits(entries: Entry[]): Entry[] {
  if (!entries.some(isOwnWait)) return entries;
  const found: Entry[] = [];
  let open = false;
  for (const entry of entries) {
    if (open && entry.token === "0" && !GOES_ON.test(entry.type)) {
      found.push({ ...entry, type: `${UNTIL}.${/^(run\.(cancelled|timed_out)|function\.interrupted)$/.test(entry.type) ? "cancelled" : "completed"}`, step: UNTIL, attempt: null, data: null });
      open = false;
    }
    found.push(entry);
    if (!isOwnWait(entry)) continue;
    found.push({ ...entry, type: `${UNTIL}.awaited` });
    open = true;
  }
  return found;
}

function isOwnWait(entry: Entry): boolean {
  return entry.type === "tasks.waiting" && entry.step === UNTIL;
}
