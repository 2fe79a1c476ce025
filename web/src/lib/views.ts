// Made by web/types from headrace/server/views. Do not edit.

/** A column of a stream, table or query. */
export interface Column {
  name: string;
  type: string;
}

/** A place in a text: half-open, in UTF-16 units, as browsers count; line and column begin at 1. */
export interface SpanView {
  start: number;
  end: number;
  line: number;
  column: number;
  unit: "utf-16";
}

/** A replacement that repairs a text: what to write between two positions (UTF-16 units). */
export interface Fix {
  start: number;
  end: number;
  text: string;
}

/** An error, as application/problem+json (RFC 9457). */
export interface Problem {
  type: string;
  title: string;
  status: number;
  code: string;
  detail: string;
  hint?: string | null;
  span?: SpanView | null;
  excerpt?: string | null;
  fix?: Fix | null;
  id?: string | null;
  stage?: string | null;
  first?: number | null;
}

/** The figures of a stream: totals since the process began, and rates of the last seconds. */
export interface StreamFigures {
  name: string;
  rate: number;
  tuples: number;
  late: number;
  bad: number;
  skipped: number;
  frontier: number | null;
  lag_ms: number | null;
  behind_ms: number;
  unread: number;
  unread_unit: string;
}

/** The figures of a query or rule. */
export interface QueryFigures {
  name: string;
  state: string;
  rate: number;
  results: number;
  failed: number;
  latency_ms: number | null;
  waiting: number;
  state_bytes: number;
  shed: number;
  watchers: number;
}

/** A promise beside what is observed: microseconds, bytes, results per second or a ratio; slack from 0 to 1. */
export interface StandingView {
  query: string;
  measure: "latency" | "memory" | "throughput" | "smoothness";
  strictness: string;
  promised: number;
  observed: number | null;
  kept: boolean | null;
  slack: number | null;
}

/** The figures of an operator; `wait_ms` is an estimate by Little's law. */
export interface VertexFigures {
  id: string;
  rate_in: number;
  rate_out: number;
  busy: number;
  service_us: number | null;
  selectivity: number | null;
  queued: number;
  peak: number;
  wait_ms: number | null;
  idle: number | null;
  held: number;
  state_bytes: number;
  saved: number;
  shed: number;
  late: number;
}

/** What a page needs after a micro-batch. The counters `decisions` and `catalog` say when to fetch these again. */
export interface Beat {
  batch: number;
  at: number;
  took_ms: number | null;
  state: "starting" | "idle" | "running" | "failed" | "ended" | "stopping";
  stage: string | null;
  load: number | null;
  speed: number;
  cores: number;
  rate: number;
  state_bytes: number;
  queued: number;
  streams: StreamFigures[];
  queries: QueryFigures[];
  promises: StandingView[];
  bottleneck: string | null;
  bottleneck_title: string | null;
  decisions: number;
  catalog: number;
}

/** The server, and its latest beat. */
export interface DeploymentView {
  name: string;
  version: string;
  host: string;
  checkpoint: string;
  state: "starting" | "idle" | "running" | "failed" | "ended" | "stopping";
  stage: string | null;
  problem: Problem | null;
  since: number;
  uptime_s: number;
  cores: number;
  role: "read" | "write";
  read_only: boolean;
  logs: string;
  beat: Beat;
}

/** One condition of readiness. */
export interface Check {
  name: string;
  ok: boolean;
  detail: string;
}

/** Whether the process answers, and whether it is ready; checks only with a token. */
export interface Health {
  status: "ok" | "not ready";
  checks: Check[];
}

/** A bucket, as it reported in the last micro-batch. */
export interface PartitionView {
  bucket: number;
  machine: string;
  state_bytes: number;
  cached_bytes: number;
  operators_us: number;
  restored: boolean;
}

/** A setting, its value, and what it means. */
export interface SettingView {
  setting: string;
  value: string;
  scope: string;
}

/** A token by name; the token itself is known to its user only. */
export interface TokenView {
  name: string;
  role: "read" | "write";
}

/** Rows of a SHOW, DESCRIBE or DEMAND. */
export interface ListingView {
  columns: string[];
  rows: unknown[][];
}

/** One figure over time; None where nothing is known. */
export interface Series {
  name: string;
  values: (number | null)[];
}

/** Figures over time: `times` are the same for all series. */
export interface HistoryView {
  step_s: number;
  times: number[];
  series: Series[];
}

/** Who is logged in. */
export interface LoginAnswer {
  name: string;
  role: "read" | "write";
}

/** Something was done. */
export interface Done {
  done: string;
}

/** A stream, table, view, event, query, rule or sink in the graph of who reads whom. */
export interface RelationNode {
  id: string;
  kind: "stream" | "table" | "view" | "event" | "query" | "rule" | "sink";
  name: string;
  detail: string;
  rate: number | null;
}

/** A reads-from relation: tuples flow from `origin` to `reader`. */
export interface RelationArc {
  origin: string;
  reader: string;
  rate: number | null;
}

/** Streams, tables, views, queries, events, rules and sinks, and who reads whom. */
export interface RelationGraph {
  nodes: RelationNode[];
  arcs: RelationArc[];
}

/** Some rows, as columns and values. */
export interface Sample {
  columns: Column[];
  rows: unknown[][];
  total: number;
}

/** A stream: where it comes from, its columns, and its figures. */
export interface StreamView {
  name: string;
  source: string;
  options: Record<string, string>;
  columns: Column[];
  timing: string;
  time_column: string | null;
  skew_ms: number;
  readers: string[];
  can_push: boolean;
  figures: StreamFigures;
  bad: Sample | null;
  late: Sample | null;
}

/** A table: stored, and read again every `refresh_ms` if that is not None; or fed by a stream, a row for each key. */
export interface TableView {
  name: string;
  source: string;
  options: Record<string, string>;
  columns: Column[];
  readers: string[];
  refresh_ms: number | null;
  origin: string | null;
  key: string[];
  problem: string | null;
}

/** What is kept of the newest results of a query. */
export interface ShelfView {
  keep: string;
  durable: boolean;
  rows: number;
  bytes: number;
  first: number | null;
  last: number | null;
  dropped: number;
  hidden: number;
}

/** A query, view or event. */
export interface QueryView {
  name: string;
  kind: "query" | "view" | "event" | "follow";
  text: string;
  columns: Column[];
  sinks: string[];
  reads: string[];
  readers: string[];
  options: Record<string, string>;
  promises: StandingView[];
  scheduler: string | null;
  shares_with: string[];
  stint: string | null;
  figures: QueryFigures | null;
  shelf: ShelfView | null;
}

/** An operator. It is fetched once for each graph; ids stay the same over plans. */
export interface VertexView {
  id: string;
  operator: string;
  title: string;
  detail: string;
  half: "ingest" | "bucket";
  inputs: string[];
  queries: string[];
  span: SpanView | null;
}

/** The operators of a query, or of all, with their figures. */
export interface GraphView {
  query: string | null;
  vertices: VertexView[];
  figures: VertexFigures[];
  bottleneck: string | null;
}

/** A rule, and what became of its detections. */
export interface RuleView {
  name: string;
  event: string;
  context: string;
  condition: string;
  text: string;
  actions: string[];
  execution: string;
  state: string;
  detections: number;
  ignored: number;
  calls: number;
  done: number;
  waiting: number;
  failed: number;
}

/** A call that waits: after how many tries of how many, and what the last answer was. */
export interface CallView {
  rule: string;
  key: string;
  action: string;
  tries: number;
  most: number;
  reason: string | null;
}

/** A call that was given up. */
export interface FailureView {
  rule: string;
  key: string;
  action: string;
  reason: string;
  tries: number;
  at: number;
  detection: string;
}

/** Calls of rules that wait, by rule; the first of them, and the newest that were given up by this process. */
export interface OutboxView {
  waiting: number;
  fault: string | null;
  rules: [string, number][];
  calls: CallView[];
  failed: FailureView[];
}

/** A decision of the controller, with its reason. */
export interface DecisionView {
  number: number;
  at: number;
  query: string | null;
  kind: string;
  action: string;
  reason: string;
}

/** Decisions, oldest first; `newest` is the number to ask `after` next time. */
export interface DecisionsView {
  decisions: DecisionView[];
  newest: number;
}

/** What feedback drops at one place, and what it saved. */
export interface GuardView {
  place: string;
  vertex: string | null;
  unneeded: string;
  until: number | null;
  active: boolean;
  tuples: number;
  bytes: number | null;
}

/** What feedback saved. */
export interface FeedbackView {
  guards: GuardView[];
  purged: number;
}

/** What is dropped on one arc. */
export interface ShedView {
  vertex: string;
  place: string;
  port: number;
  queries: string[];
  kind: string;
  share: number;
  seen: number;
  dropped: number;
  active: boolean;
}

/** What one query lost by shedding, and what it may lose. */
export interface ShedQueryView {
  query: string;
  mode: string;
  arrived: number;
  dropped: number;
  error: number | null;
  allowed: number | null;
}

/** What is shed, by place and by query. */
export interface SheddingView {
  places: ShedView[];
  queries: ShedQueryView[];
}

/** A change of plan: from and to which tree, how, for how long, and whether it is through. */
export interface MigrationView {
  query: string;
  vertex: string;
  number: number;
  at: number;
  before: string;
  after: string;
  how: string;
  auto: boolean;
  batches: number;
  longest_ms: number;
  built: number;
  ended: number | null;
  state: "running" | "done" | "given up";
}

/** What a statement did, in a sentence. */
export interface MessageOutcome {
  kind: "message";
  text: string;
}

/** The rows of a SHOW, DESCRIBE or DEMAND. */
export interface ListingOutcome {
  kind: "listing";
  columns: string[];
  rows: unknown[][];
}

/** A query that now runs; `follow` if it lives only while somebody follows its results. */
export interface StartedOutcome {
  kind: "started";
  query: string;
  follow: boolean;
}

/** The outcomes of statements, in order; `commands` is the number after which they are in force. */
export interface StatementsAnswer {
  outcomes: (MessageOutcome | ListingOutcome | StartedOutcome)[];
  dry: boolean;
  commands: number;
}

/** What is wrong with a text; nothing if `problem` is None. */
export interface Diagnosis {
  problem: Problem | null;
  changes: boolean;
}

/** How the statements' queries would run: text for people, and graphs for pictures. */
export interface ExplainAnswer {
  text: string;
  plans: unknown[];
  graphs: GraphView[];
}

/** A record that does not fit the columns of a stream: what it is, why, and where it stands. */
export interface BadRecord {
  record: string;
  reason: string;
  origin: string;
}

/** The first records of a stream that is not created yet. */
export interface TrialView {
  stream: string;
  columns: Column[];
  rows: unknown[][];
  bad: BadRecord[];
}

/** How many rows were appended; `repeated` if an earlier request with the same key had done so. */
export interface PushAnswer {
  rows: number;
  repeated: boolean;
}

/** A function, for completion. */
export interface FunctionWord {
  name: string;
  signature: string;
  aggregate: boolean;
}

/** A name that a query can read, with its columns. */
export interface RelationWord {
  name: string;
  kind: string;
  columns: Column[];
}

/** What can be typed: keywords, functions, names, settings, promise options. */
export interface WordsView {
  keywords: string[];
  functions: FunctionWord[];
  relations: RelationWord[];
  rules: string[];
  types: string[];
  options: string[];
  settings: [string, string[]][];
  sources: string[];
  sinks: string[];
  snapshots: string[];
}

/** The results of a query in one micro-batch; `skipped` rows before them were not sent. */
export interface ResultBatch {
  batch: number;
  at: number;
  columns: Column[];
  rows: unknown[][];
  skipped: number;
}

/** What the shelf of a query holds, oldest first. */
export interface ResultsView {
  query: string;
  columns: Column[];
  batches: ResultBatch[];
  next: number;
  shelf: ShelfView;
}

/** The rows of a snapshot, which hold what was delivered up to a micro-batch; `cut` if there are more. */
export interface SnapshotView {
  columns: Column[];
  rows: unknown[][];
  batch: number | null;
  cut: boolean;
}

/** The first message on a WebSocket. */
export interface Hello {
  t: "hello";
  version: string;
  role: "read" | "write";
  beat: Beat;
}

/** A beat. */
export interface BeatMessage {
  t: "beat";
  beat: Beat;
}

/** Figures of the vertices of a query (None: of all), after a micro-batch. */
export interface GraphMessage {
  t: "graph";
  query: string | null;
  batch: number;
  figures: VertexFigures[];
  bottleneck: string | null;
}

/** Results of a query. */
export interface ResultsMessage {
  t: "results";
  query: string;
  result: ResultBatch;
}

/** New decisions. */
export interface DecisionsMessage {
  t: "decisions";
  decisions: DecisionView[];
  newest: number;
}

/** The rules, after a micro-batch in which one of their counters changed. */
export interface RulesMessage {
  t: "rules";
  rules: RuleView[];
  outbox: OutboxView;
}

/** Definitions have changed: fetch them again. */
export interface CatalogMessage {
  t: "catalog";
  catalog: number;
}

/** The state of the server has changed. */
export interface StateMessage {
  t: "state";
  state: "starting" | "idle" | "running" | "failed" | "ended" | "stopping";
  stage: string | null;
  problem: Problem | null;
}

/** A message of the client could not be followed. */
export interface LiveError {
  t: "error";
  topic: string | null;
  problem: Problem;
}

export type OutcomeView =
  | MessageOutcome
  | ListingOutcome
  | StartedOutcome;

export type LiveMessage =
  | Hello
  | BeatMessage
  | GraphMessage
  | ResultsMessage
  | DecisionsMessage
  | RulesMessage
  | CatalogMessage
  | StateMessage
  | LiveError;
