"""`panel serve --setup` runs this: notes stay, so that a page that takes long to be drawn has those of before that."""

import app.notices

app.notices.LIFE = 600_000  # ms
