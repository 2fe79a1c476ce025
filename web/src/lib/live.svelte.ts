// The live feed: one WebSocket for a page, with topics. It connects again by itself, and then asks for the same topics.

import type { Beat, LiveMessage, Problem } from "./views";

export interface Topic {
  t: "graph" | "results" | "decisions" | "rules";
  query?: string;
  after?: number;
}
type Handler = (message: LiveMessage) => void;
interface Watched {
  topic: Topic;
  handlers: Set<Handler>;
}

const PATIENCE = [250, 500, 1000, 2000, 3000];
/** How many messages of results may be under way. */
const CREDIT = 16;
/** The server sends a beat at least every five seconds; longer silence means trouble. */
const SILENCE = 12_000;

class Live {
  beat = $state.raw<Beat | null>(null);
  role = $state<"read" | "write">("read");
  version = $state("");
  status = $state<"connecting" | "live" | "lost" | "locked">("connecting");
  problem = $state.raw<Problem | null>(null);
  /** When the last message came, by the clock of this browser. */
  heard = $state(0);
  lostAt = $state(0);
  now = $state(Date.now());
  /** Grow whenever there is something to fetch again. */
  catalog = $state(0);
  decisions = $state(0);
  connected = $state(0);

  #socket: WebSocket | null = null;
  #topics = new Map<string, Watched>();
  #tries = 0;
  #beats = new Set<(beat: Beat) => void>();
  #wanted = false;

  start(): void {
    if (this.#wanted) return;
    this.#wanted = true;
    this.#connect();
    setInterval(() => {
      this.now = Date.now();
      if (this.status === "live" && this.now - this.heard > SILENCE) this.#socket?.close();
    }, 500);
  }

  /** Watch a topic; call what is returned to end it. */
  watch(topic: Topic, handler: Handler): () => void {
    const key = keyOf(topic);
    const watched = this.#topics.get(key) ?? { topic, handlers: new Set() };
    watched.handlers.add(handler);
    if (!this.#topics.has(key)) {
      this.#topics.set(key, watched);
      this.#ask(watched);
    }
    return () => {
      watched.handlers.delete(handler);
      if (watched.handlers.size || this.#topics.get(key) !== watched) return;
      this.#topics.delete(key);
      this.#send({ drop: [key] });
    };
  }

  onBeat(handler: (beat: Beat) => void): () => void {
    this.#beats.add(handler);
    return () => this.#beats.delete(handler);
  }

  #connect(): void {
    const scheme = location.protocol === "https:" ? "wss" : "ws";
    const socket = new WebSocket(`${scheme}://${location.host}/api/v1/live`);
    this.#socket = socket;
    socket.onopen = () => {
      this.#send({ watch: [{ t: "beat" }, { t: "catalog" }, { t: "state" }] });
      for (const watched of this.#topics.values()) this.#ask(watched);
    };
    socket.onmessage = (event) => this.#take(JSON.parse(event.data as string) as LiveMessage);
    socket.onclose = () => this.#lost(socket);
  }

  #lost(socket: WebSocket): void {
    if (socket !== this.#socket) return;
    this.#socket = null;
    if (this.status !== "lost") this.lostAt = Date.now();
    this.status = "lost";
    setTimeout(() => void this.#retry(), PATIENCE[Math.min(this.#tries, PATIENCE.length - 1)]);
    this.#tries += 1;
  }

  /** Connect again, unless the server was started again meanwhile: then it does not know the cookie of this page. */
  async #retry(): Promise<void> {
    try {
      const answer = await fetch("/api/v1/deployment", { credentials: "same-origin" });
      if (answer.status === 401) {
        this.status = "locked";
        return;
      }
    } catch {
      // it is still away
    }
    this.#connect();
  }

  /** Connect after a new login. */
  unlock(): void {
    if (this.status !== "locked") return;
    this.status = "lost";
    this.#tries = 0;
    this.#connect();
  }

  #take(message: LiveMessage): void {
    this.heard = this.now = Date.now();
    switch (message.t) {
      case "hello":
        this.role = message.role;
        this.version = message.version;
        this.status = "live";
        this.#tries = 0;
        this.connected += 1;
        this.#show(message.beat);
        break;
      case "beat":
        this.#show(message.beat);
        break;
      case "catalog":
        this.catalog = message.catalog;
        break;
      case "state":
        this.problem = message.problem;
        if (this.beat) this.beat = { ...this.beat, state: message.state, stage: message.stage };
        break;
      case "results":
        this.#pass(`results:${message.query}`, message);
        this.#send({ credit: { [`results:${message.query}`]: 1 } });
        break;
      case "graph":
        this.#pass(message.query === null ? "graph" : `graph:${message.query}`, message);
        break;
      case "error":
        if (message.topic) this.#pass(message.topic, message);
        break;
      default:
        this.#pass(message.t, message);
    }
  }

  #show(beat: Beat): void {
    this.beat = beat;
    if (beat.catalog !== this.catalog) this.catalog = beat.catalog;
    if (beat.decisions !== this.decisions) this.decisions = beat.decisions;
    if (beat.state !== "failed") this.problem = null;
    for (const handler of this.#beats) handler(beat);
  }

  #pass(key: string, message: LiveMessage): void {
    for (const handler of this.#topics.get(key)?.handlers ?? []) handler(message);
  }

  #ask(watched: Watched): void {
    this.#send({ watch: [watched.topic], ...(watched.topic.t === "results" ? { credit: { [keyOf(watched.topic)]: CREDIT } } : {}) });
  }

  #send(message: unknown): void {
    if (this.#socket?.readyState === WebSocket.OPEN) this.#socket.send(JSON.stringify(message));
  }
}

const keyOf = (topic: Topic): string => (topic.query === undefined ? topic.t : `${topic.t}:${topic.query}`);

export const live = new Live();
