"""Setup file for `panel serve --setup`: notices stay ten minutes, so that a slowly drawn page shows earlier ones."""

import app.page.notices

app.page.notices.LIFE = 600_000  # ms
