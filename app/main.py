"""What `panel serve app` runs once for each browser tab; the page itself is built in imported modules."""

import panel as pn

from app.page import Page

pn.extension(reconnect=True)  # settings of this tab, so not at import
Page().servable()
