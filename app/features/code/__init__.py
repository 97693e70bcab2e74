"""The code panel: the source of what runs, its PTX and machine code."""

from app.features.code.code_panel import CodePanel

FEATURE = CodePanel
