"""Setup file for `panel serve --setup`: notices stay ten minutes, so that a slowly drawn page shows earlier ones."""

import app.notices

app.notices.LIFE = 600_000  # ms
