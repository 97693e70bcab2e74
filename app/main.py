"""What `panel serve app` runs once for each browser tab; the page itself is built in imported modules."""

import panel as pn

from app.page import Page
from app.panel_workarounds import serve_own_files
from app.ready_page import ready_page

pn.extension(reconnect=True)  # settings of this tab, so not at import
serve_own_files(pn.state.curdoc)
page = Page()
if ready_page().builds(pn.state.curdoc.session_context.id):
    page.prepare()
page.servable()
