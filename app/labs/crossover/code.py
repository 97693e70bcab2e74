"""The text of a program as HTML: the very file that runs, its words coloured by what Python takes them for."""

from __future__ import annotations

import io
import keyword
import tokenize
from html import escape

from compute.labs.crossover.program import Program

STYLE = """
.programs { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(300px, 100%), 1fr)); gap: 16px;
  padding: 0 8px 16px 24px; align-items: start; }
.program { min-width: 0; border: 1px solid var(--line); border-radius: 6px; background: var(--paper);
  border-top: 4px solid var(--hue, var(--line)); }
.program.cpu { --hue: var(--cpu); } .program.gpu { --hue: var(--gpu); }
.program.wrong { --hue: var(--bad); } .program.right { --hue: var(--good); }
.program header { padding: 4px 16px; border-bottom: 1px solid var(--line); display: flex; gap: 16px;
  align-items: baseline; justify-content: space-between; }
.program h3 { margin: 0; font-size: var(--body, 16px); color: var(--ink); }
.program header code { color: var(--muted); font-size: var(--small, 14px); }
.program pre { margin: 0; padding: 8px 16px 16px; font: var(--small, 14px)/1.45 'Roboto Mono', 'Liberation Mono',
  Menlo, Consolas, monospace; color: var(--ink); overflow-x: auto; tab-size: 4; white-space: pre-wrap;
  overflow-wrap: anywhere; }
.k { color: var(--accent); font-weight: 700; } .s { color: var(--good); } .n { color: var(--warn); }
.c { color: var(--muted); font-style: italic; } .d { font-weight: 700; }
"""
QUIET = {tokenize.ENCODING, tokenize.ENDMARKER, tokenize.INDENT, tokenize.DEDENT, tokenize.NEWLINE, tokenize.NL}
KINDS = {tokenize.STRING: "s", tokenize.COMMENT: "c", tokenize.NUMBER: "n"}


def program(which: Program, kind: str, title: str = "") -> str:
    """One file. kind: "cpu", "gpu", "wrong" or "right": its hue; title: stands above it beside the file's name."""
    named = f"<h3>{escape(title)}</h3>" if title else ""
    head = f"<header>{named}<code>{escape(which.name)}.py</code></header>"
    return f"<article class='program {kind}'>{head}<pre>{coloured(which.source)}</pre></article>"


def coloured(source: str) -> str:
    """Python as HTML; its text is `source`, character for character."""
    lines = source.splitlines(keepends=True)
    starts = [0]
    for line in lines:
        starts.append(starts[-1] + len(line))
    out, done, before = [], 0, ""
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type in QUIET:
            continue
        start, end = (starts[row - 1] + column for row, column in (token.start, token.end))
        out.append(escape(source[done:start]))
        kind = _kind(token, before)
        text = escape(source[start:end])
        out.append(f"<span class='{kind}'>{text}</span>" if kind else text)
        done, before = end, token.string
    return "".join([*out, escape(source[done:])])


def _kind(token: tokenize.TokenInfo, before: str) -> str:
    if token.type == tokenize.NAME:
        return "k" if keyword.iskeyword(token.string) else "d" if before in ("def", "class") else ""
    return KINDS.get(token.type, "")
