// Requests to the server. A failed one throws a `Fault` with the problem that the server described.

import type { Problem, StatementsAnswer } from "./views";

export class Fault extends Error {
  constructor(readonly problem: Problem) {
    super(problem.detail);
  }
}

const BASE = "/api/v1";

export async function get<T>(path: string, signal?: AbortSignal): Promise<T> {
  return answer<T>(await send(path, { signal }));
}

export async function post<T>(path: string, body: unknown = {}, signal?: AbortSignal): Promise<T> {
  const headers = { "Content-Type": "application/json" };
  return answer<T>(await send(path, { method: "POST", headers, body: JSON.stringify(body), signal }));
}

export const run = (text: string): Promise<StatementsAnswer> => post<StatementsAnswer>("/statements", { text });

async function send(path: string, init: RequestInit): Promise<Response> {
  try {
    return await fetch(BASE + path, { credentials: "same-origin", ...init });
  } catch (error) {
    if (init.signal?.aborted) throw error;
    throw new Fault(problem(0, "the server does not answer", "The page goes on by itself once the server is back."));
  }
}

async function answer<T>(response: Response): Promise<T> {
  if (response.ok) return (await response.json()) as T;
  let described: Problem | null = null;
  try {
    described = (await response.json()) as Problem;
  } catch {
    // not the server's own answer: a proxy's, for example
  }
  throw new Fault(described?.detail ? described : problem(response.status, `the server answered ${response.status}`));
}

function problem(status: number, detail: string, hint?: string): Problem {
  return { type: "about:blank", title: "Fault", status, code: "", detail, hint };
}

/** What went wrong, as a problem to show. */
export function problemOf(error: unknown): Problem {
  return error instanceof Fault ? error.problem : problem(0, error instanceof Error ? error.message : String(error));
}

export const path = (...parts: string[]): string => `/${parts.map(encodeURIComponent).join("/")}`;
