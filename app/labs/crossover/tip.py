"""What stands beside the pointer on a mark: in the page's own type and colours, in both schemes."""

from __future__ import annotations

from app.theme import FAMILY

TIP = f"""
<div style="font: var(--small, 14px) {FAMILY}; line-height: 1.4; max-width: 360px; margin: -8px; padding: 8px 12px;
background: var(--paper); color: var(--ink); border: 1px solid var(--line); border-radius: 4px">
<b>@name</b><br>@words{{safe}}</div>
"""
