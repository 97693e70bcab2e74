"""`fieldlab bench load`: what many browser tabs on one server cost, and what each of them gets."""
