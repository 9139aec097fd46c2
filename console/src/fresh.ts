// What a page reads again whenever its run moves: one read at a time, so that what moves faster than it is read is seen too.

import { useEffect, useRef, useState } from "preact/hooks";
import { get, isForGood, type Refusal } from "./api";

const AGAIN_MS = 5000;

export interface Reader {
  again: () => void;
  stop: () => void;
}

/** Does some work whenever it is asked to, once at a time, and again after a while if the server could not answer then. `refused`: it will not. */
export function repeated(work: (isGone: () => boolean) => Promise<void>, refused: (refusal: Refusal) => void = () => undefined): Reader {
  let [isBusy, isStale, isGone, timer] = [false, false, false, 0];
  const missed = (problem: unknown): void => {
    if (isGone) return;
    if (isForGood(problem)) refused(problem);
    else timer = window.setTimeout(again, AGAIN_MS);
  };
  const done = (): void => {
    isBusy = false;
    if (isStale && !isGone) again();
  };
  function again(): void {
    window.clearTimeout(timer);
    isStale = isBusy;
    if (isBusy) return;
    isBusy = true;
    void work(() => isGone).catch(missed).then(done);
  }
  const stop = (): void => {
    isGone = true;
    window.clearTimeout(timer);
  };
  return { again, stop };
}

/** Reads a path whenever `moved`, or `also`, changes; 0: it is not known yet. What was read last stays until the next is there. `isLate`: after the rest of the page. */
export function useFresh<T>(path: string | null, moved: number, { also = "", isLate = false }: { also?: string; isLate?: boolean } = {}): T | null {
  const [value, set] = useState<T | null>(null);
  const reader = useRef<Reader | null>(null);
  useEffect(() => {
    if (path === null) return undefined;
    const mine = (reader.current = repeated(async (isGone) => {
      const found = await get<T>(path, isLate); // the page itself tells of errors
      if (!isGone()) set(found);
    }));
    return mine.stop;
  }, [path]);
  useEffect(() => {
    if (moved && path !== null) reader.current?.again();
  }, [path, moved, also]);
  return value;
}
