"""`fieldlab bench load`: the cost of many browser tabs on one server, and the frame rates and answer times they get."""
