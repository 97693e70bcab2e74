"""Make the lab of this folder known, so that tests import it as `fieldlab_labs.new_lab`."""

from pathlib import Path

from compute.lab import plugins

plugins.name_folders([Path(__file__).parent])
