"""What `panel serve app` runs once for each browser tab; the page itself is built in imported modules."""

from app.page import Page

Page().servable()
