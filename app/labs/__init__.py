"""How the page shows each lab: a folder a lab, named as the lab is; `plain` is for labs without one."""
