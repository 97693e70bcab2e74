"""Entry point of `panel serve app`, run once for each browser tab; imported modules build the page."""

import panel as pn

from app.page.page import Page
from app.upstream.panel_workarounds import serve_own_files

pn.extension(reconnect=True)  # per-session settings, so not at import
serve_own_files(pn.state.curdoc)
Page().servable()
