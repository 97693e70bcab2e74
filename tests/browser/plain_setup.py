"""`panel serve --setup` runs this: the page shows every lab as one that has no parts of its own."""

import app.lab_view

app.lab_view.find_spec = lambda name: None
