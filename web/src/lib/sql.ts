// The text of statements: pieces to color, and where a statement begins and ends. Pure.

export interface Piece {
  kind: "keyword" | "string" | "number" | "comment" | "window" | "name" | "other";
  text: string;
  at: number;
}

export const KEYWORDS = new Set(
  `SELECT FROM WHERE GROUP BY HAVING AS JOIN LEFT RIGHT FULL OUTER INNER CROSS ON UNION ALL DISTINCT LIMIT ORDER ASC DESC INTO WITH CREATE OR
  REPLACE STREAM TABLE QUERY VIEW EVENT RULE AGGREGATE DROP ALTER SET SHOW DESCRIBE EXPLAIN ANALYZE CAPACITY JSON ASSUME DESIRE DEMAND START STOP
  ENABLE DISABLE TIMESTAMP SKEW AHEAD RANGE ROWS SESSION LANDMARK NOW SLIDE PARTITION AND NOT IN IS NULL BETWEEN LIKE CASE WHEN THEN ELSE END
  SEQUENCE WITHIN CONTEXT RECENT CHRONICLE CONTINUOUS CUMULATIVE UNRESTRICTED DETECT DO INSERT CALL RAISE SECOND SECONDS MINUTE MINUTES HOUR HOURS
  DAY DAYS MILLISECOND MILLISECONDS MUST BEST EFFORT DONT CARE IF EXISTS TRUE FALSE ANY CAST INT INTEGER BIGINT DOUBLE VARCHAR STRING BOOLEAN DATE
  INTERVAL IMPUTE SUPPRESS PACE ORDERED`.split(/\s+/),
);
const PATTERN = /(--[^\n]*|\/\*[\s\S]*?(?:\*\/|$))|('(?:[^']|'')*(?:'|$))|("(?:[^"]|"")*(?:"|$))|(\b\d+(?:\.\d+)?(?:e[+-]?\d+)?\b)|([A-Za-z_]\w*)|([[\]])|(\s+|[^\sA-Za-z_0-9'"[\]]+?)/gi;

/** Cut a text into pieces. Together they are the text. */
export function pieces(text: string): Piece[] {
  const found: Piece[] = [];
  for (const match of text.matchAll(PATTERN)) {
    const [all, comment, string, quoted, number, word, bracket] = match;
    const kind = comment ? "comment" : string ? "string" : quoted ? "name" : number ? "number" : word ? (KEYWORDS.has(word.toUpperCase()) ? "keyword" : "name") : bracket ? "window" : "other";
    found.push({ kind, text: all, at: match.index });
  }
  return found;
}

/** The statements of a text as ranges; a semicolon in a string or comment ends nothing. */
export function statements(text: string): { from: number; to: number }[] {
  const found: { from: number; to: number }[] = [];
  let from = 0;
  let blank = true;
  for (const piece of pieces(text)) {
    if (piece.kind === "other" && piece.text.includes(";")) {
      const to = piece.at + piece.text.indexOf(";") + 1;
      if (!blank) found.push({ from, to });
      from = to;
      blank = true;
    } else if (piece.kind !== "comment" && piece.text.trim()) {
      if (blank) from = piece.at;
      blank = false;
    }
  }
  if (!blank) found.push({ from, to: text.length });
  return found;
}

/** The statement at a position: the one around it, else the last one before it. */
export function statementAt(text: string, position: number): { from: number; to: number } | null {
  const all = statements(text);
  return all.find(({ from, to }) => from <= position && position <= to) ?? all.findLast(({ from }) => from <= position) ?? all[0] ?? null;
}
