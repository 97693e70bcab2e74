"""Setup file for `panel serve --setup`: every lab is shown with the generic parts only."""

import app.tab.lab_view

app.tab.lab_view.find_spec = lambda name: None
