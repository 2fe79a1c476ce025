// The editor: CodeMirror with our words. It lives in a shadow tree, so that its styles need no exception in the content
// security policy. Loaded when the page is first visited.

import { acceptCompletion, autocompletion, closeBrackets, type Completion, type CompletionContext, completionKeymap, type CompletionResult } from "@codemirror/autocomplete";
import { defaultKeymap, history, historyKeymap, indentWithTab } from "@codemirror/commands";
import { bracketMatching, HighlightStyle, StreamLanguage, type StringStream, syntaxHighlighting } from "@codemirror/language";
import { type Diagnostic, forceLinting, linter, lintGutter, setDiagnostics } from "@codemirror/lint";
import { EditorState, Prec } from "@codemirror/state";
import { drawSelection, EditorView, highlightActiveLine, highlightActiveLineGutter, keymap, lineNumbers } from "@codemirror/view";
import { tags } from "@lezer/highlight";
import { post } from "./api";
import { KEYWORDS } from "./sql";
import type { Diagnosis, Problem, WordsView } from "./views";

export interface Editor {
  view: EditorView;
  set: (text: string) => void;
  insert: (text: string) => void;
  fix: () => boolean;
  mark: (problem: Problem | null, offset: number) => void;
  destroy: () => void;
}
export interface Wishes {
  text: string;
  label?: string;
  checks?: boolean; // whether the text is statements of ours; a snapshot's is not
  words: () => WordsView | null;
  onchange: (text: string) => void;
  oncursor: (line: number, column: number) => void;
  onproblem: (problem: Problem | null) => void;
  onrun: (all: boolean) => void;
}

const WINDOWS = ["[RANGE 10 SECONDS]", "[RANGE 10 SECONDS SLIDE 2 SECONDS]", "[ROWS 100]", "[SESSION 30 SECONDS]", "[NOW]"];

const language = StreamLanguage.define<{ comment: boolean }>({
  name: "headrace",
  startState: () => ({ comment: false }),
  token(stream: StringStream, state): string | null {
    if (state.comment) {
      if (stream.match(/.*?\*\//)) state.comment = false;
      else stream.skipToEnd();
      return "comment";
    }
    if (stream.eatSpace()) return null;
    if (stream.match("--")) {
      stream.skipToEnd();
      return "comment";
    }
    if (stream.match("/*")) {
      state.comment = true;
      return "comment";
    }
    if (stream.match(/'(?:[^']|'')*'?/)) return "string";
    if (stream.match(/"(?:[^"]|"")*"?/)) return "variableName";
    if (stream.match(/\d+(?:\.\d+)?(?:e[+-]?\d+)?/i)) return "number";
    const word = stream.match(/[A-Za-z_]\w*/) as RegExpMatchArray | null;
    if (word) return KEYWORDS.has(word[0].toUpperCase()) ? "keyword" : stream.peek() === "(" ? "labelName" : "variableName";
    if (stream.match(/[[\]]/)) return "typeName";
    stream.next();
    return null;
  },
  languageData: { commentTokens: { line: "--", block: { open: "/*", close: "*/" } }, closeBrackets: { brackets: ["(", "[", "'"] } },
});

const colors = syntaxHighlighting(
  HighlightStyle.define([
    { tag: tags.keyword, color: "var(--accent)", fontWeight: "600" },
    { tag: tags.string, color: "var(--c4)" },
    { tag: tags.number, color: "var(--c2)" },
    { tag: tags.comment, color: "var(--muted)", fontStyle: "italic" },
    { tag: tags.labelName, color: "var(--c5)" },
    { tag: tags.typeName, color: "var(--c3)", fontWeight: "600" },
  ]),
);

const look = EditorView.theme({
  "&": { color: "var(--text)", backgroundColor: "var(--surface)", fontSize: "14px", height: "100%" },
  "&.cm-focused": { outline: "none" },
  ".cm-scroller": { fontFamily: "var(--mono)", lineHeight: "1.6" },
  ".cm-content": { caretColor: "var(--text)", padding: "10px 0" },
  ".cm-gutters": { backgroundColor: "var(--surface)", color: "var(--muted)", border: "0", borderRight: "1px solid var(--line)" },
  ".cm-activeLine, .cm-activeLineGutter": { backgroundColor: "color-mix(in srgb, var(--accent) 7%, transparent)" },
  ".cm-cursor": { borderLeftColor: "var(--text)" },
  "&.cm-focused .cm-selectionBackground, .cm-selectionBackground": { backgroundColor: "color-mix(in srgb, var(--accent) 28%, transparent) !important" },
  ".cm-tooltip": { backgroundColor: "var(--surface)", color: "var(--text)", border: "1px solid var(--line-strong)", borderRadius: "8px", boxShadow: "var(--float)", overflow: "hidden" },
  ".cm-tooltip-autocomplete > ul": { fontFamily: "var(--mono)", maxHeight: "16em" },
  ".cm-tooltip-autocomplete > ul > li": { padding: "3px 10px !important", lineHeight: "1.5" },
  ".cm-tooltip-autocomplete > ul > li[aria-selected]": { backgroundColor: "var(--accent-soft) !important", color: "var(--text) !important" },
  ".cm-completionDetail": { color: "var(--muted)", fontStyle: "normal", marginLeft: "1em" },
  ".cm-completionInfo": { padding: "6px 10px" },
  ".cm-diagnostic": { padding: "8px 12px", borderLeft: "4px solid var(--bad)", fontFamily: "var(--sans)", whiteSpace: "pre-wrap", maxWidth: "520px" },
  ".cm-diagnosticAction": { backgroundColor: "var(--accent)", color: "var(--on-accent)", borderRadius: "6px", padding: "3px 10px", margin: "6px 0 0", font: "inherit", fontWeight: "600", display: "block", cursor: "pointer" },
  ".cm-lintRange-error": { backgroundImage: "none", textDecoration: "underline wavy var(--bad) 1.5px", textUnderlineOffset: "3px" },
  ".cm-matchingBracket": { backgroundColor: "var(--accent-soft) !important" },
});

// Where text is typed over a selection, Chromium keeps the look of what it replaces by a style attribute, which the content
// security policy refuses. So this edit is made by the editor, as its other edits are.
const typeOver = EditorView.domEventHandlers({
  beforeinput(event, view) {
    const { main } = view.state.selection;
    const text = event.data;
    if (event.inputType !== "insertText" || text === null || main.empty || view.composing || !event.cancelable) return false;
    event.preventDefault();
    const insert = () => view.state.update(view.state.replaceSelection(text), { userEvent: "input.type", scrollIntoView: true });
    if (!view.state.facet(EditorView.inputHandler).some((handle) => handle(view, main.from, main.to, text, insert))) view.dispatch(insert());
    return true;
  },
});

export function create(parent: HTMLElement, wishes: Wishes): Editor {
  const shadow = parent.shadowRoot ?? parent.attachShadow({ mode: "open" });
  const sheet = new CSSStyleSheet();
  sheet.replaceSync(":host { display: block; height: 100% } .root { height: 100% }");
  shadow.adoptedStyleSheets = [sheet];
  const root = document.createElement("div");
  root.className = "root";
  shadow.replaceChildren(root);
  let current: Problem | null = null;
  let offset = 0;

  const view: EditorView = new EditorView({
    parent: root,
    root: shadow,
    state: EditorState.create({
      doc: wishes.text,
      extensions: [
        lineNumbers(), lintGutter(), history(), drawSelection(), bracketMatching(), closeBrackets(), highlightActiveLine(), highlightActiveLineGutter(),
        EditorView.lineWrapping, language, colors, look, typeOver,
        EditorView.contentAttributes.of({ "aria-label": wishes.label ?? "Statements", spellcheck: "false" }),
        autocompletion({ override: [(context) => (wishes.checks === false ? completeSnapshot : complete)(context, wishes.words())], icons: false }),
        Prec.highest(keymap.of([
          { key: "Mod-Enter", run: () => (wishes.onrun(false), true) },
          { key: "Mod-Shift-Enter", run: () => (wishes.onrun(true), true) },
          { key: "Mod-.", run: () => fix() },
          { key: "Alt-Enter", run: () => fix() },
          { key: "Tab", run: acceptCompletion },
        ])),
        keymap.of([...completionKeymap, ...defaultKeymap, ...historyKeymap, indentWithTab]),
        wishes.checks === false ? [] : linter(() => check(view.state.doc.toString()), { delay: 300 }),
        EditorView.updateListener.of((update) => {
          if (update.docChanged) wishes.onchange(update.state.doc.toString());
          if (update.docChanged || update.selectionSet) {
            const head = update.state.selection.main.head;
            const line = update.state.doc.lineAt(head);
            wishes.oncursor(line.number, head - line.from + 1);
          }
        }),
      ],
    }),
  });

  async function check(text: string): Promise<Diagnostic[]> {
    try {
      const { problem } = await post<Diagnosis>("/check", { text });
      current = problem;
      offset = 0;
      wishes.onproblem(problem);
      return problem ? [diagnostic(problem, text.length, 0)] : [];
    } catch {
      return [];
    }
  }

  function diagnostic(problem: Problem, length: number, shift: number): Diagnostic {
    const from = Math.min(length, (problem.span?.start ?? 0) + shift);
    const to = Math.min(length, Math.max(from, (problem.span?.end ?? 0) + shift));
    const repair = problem.fix;
    return {
      from, to, severity: "error",
      message: `${problem.code}  ${problem.detail}${problem.hint ? `\n${problem.hint}` : ""}`,
      actions: repair ? [{ name: `Replace with ${repair.text}  (Ctrl+.)`, apply: () => void fix() }] : [],
    };
  }

  function fix(): boolean {
    const repair = current?.fix;
    if (!repair) return false;
    view.dispatch({ changes: { from: repair.start + offset, to: repair.end + offset, insert: repair.text }, selection: { anchor: repair.start + offset + repair.text.length } });
    current = null;
    wishes.onproblem(null);
    forceLinting(view);
    view.focus();
    return true;
  }

  return {
    view,
    fix,
    set: (text) => view.dispatch({ changes: { from: 0, to: view.state.doc.length, insert: text } }),
    insert: (text) => {
      view.dispatch(view.state.replaceSelection(text));
      view.focus();
    },
    mark: (problem, shift) => {
      current = problem;
      offset = shift;
      view.dispatch(setDiagnostics(view.state, problem ? [diagnostic(problem, view.state.doc.length, shift)] : []));
    },
    destroy: () => view.destroy(),
  };
}

/** What a snapshot can read, and the columns of what its text mentions. */
function completeSnapshot(context: CompletionContext, words: WordsView | null): CompletionResult | null {
  const word = context.matchBefore(/[A-Za-z_][\w.]*/);
  if (!words || (!word && !context.explicit)) return null;
  const text = context.state.doc.toString().toLowerCase();
  const mentioned = words.relations.filter((relation) => text.includes(relation.name.toLowerCase()));
  const columns = mentioned.flatMap((relation) => relation.columns.map((column) => ({ label: column.name, detail: `${column.type}, ${relation.name}`, boost: 20 })));
  const options: Completion[] = [...words.snapshots.map((label) => ({ label, boost: 30 })), ...columns];
  for (const label of ["SELECT", "FROM", "WHERE", "GROUP BY", "ORDER BY", "LIMIT", "JOIN", "USING", "AS", "DESC"]) options.push({ label });
  return { from: word ? word.from : context.pos, options, validFor: /^[\w.]*$/ };
}

function complete(context: CompletionContext, words: WordsView | null): CompletionResult | null {
  const bracket = context.matchBefore(/\[\w*/);
  if (bracket) return { from: bracket.from, options: WINDOWS.map((label) => ({ label, type: "type", detail: "window" })) };
  const dotted = context.matchBefore(/[A-Za-z_]\w*\.\w*/);
  if (dotted && words) {
    const [owner = ""] = dotted.text.split(".");
    const relation = words.relations.find((relation) => relation.name.toLowerCase() === owner.toLowerCase());
    if (relation) return { from: dotted.from + owner.length + 1, options: relation.columns.map((column) => ({ label: column.name, detail: column.type })) };
  }
  const word = context.matchBefore(/[A-Za-z_]\w*/);
  if (!word && !context.explicit) return null;
  const options: Completion[] = [];
  if (words) {
    const text = context.state.doc.toString().toLowerCase();
    for (const relation of words.relations) {
      options.push({ label: relation.name, detail: relation.kind, boost: 30 });
      if (text.includes(relation.name.toLowerCase())) for (const column of relation.columns) options.push({ label: column.name, detail: `${column.type}, ${relation.name}`, boost: 40 });
    }
    for (const made of words.functions) options.push({ label: made.name, detail: made.aggregate ? "aggregate" : "function", info: made.signature || undefined, apply: `${made.name}(`, boost: 5 });
    for (const keyword of words.keywords) options.push({ label: keyword, detail: "", boost: 0 });
    for (const name of words.options) options.push({ label: name, detail: "option", boost: -1 });
    for (const name of words.types) options.push({ label: name, detail: "type", boost: -2 });
    for (const [name] of words.settings) options.push({ label: name, detail: "setting", boost: -3 });
    for (const name of [...words.sources, ...words.sinks]) options.push({ label: name, detail: "connector", boost: -4 });
  }
  const known = new Set<string>();
  const unique = options.filter((option) => !known.has(option.label + option.detail) && known.add(option.label + option.detail));
  return { from: word ? word.from : context.pos, options: unique, validFor: /^\w*$/ };
}
