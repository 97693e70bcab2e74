"""What `panel serve app` runs once for each browser tab; the page itself is built in imported modules."""

import panel as pn

from app.page import Page
from app.panel_workarounds import serve_own_files

pn.extension(reconnect=True)  # settings of this tab, so not at import
serve_own_files(pn.state.curdoc)
Page().servable()
