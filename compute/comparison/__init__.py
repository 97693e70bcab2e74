"""The live comparison of backends beside a running lab: what may be asked, and what may be said of it."""
