"""One lab in one browser tab: session, frames, view, controls, plots and status."""
