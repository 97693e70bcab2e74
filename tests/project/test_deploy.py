"""The recipes of deploy/ match the code: valid options, the installed files in the image, equal versions."""

from __future__ import annotations

import argparse
import json
import re
import shlex
import shutil
import subprocess
import tomllib
from pathlib import Path

import pytest
import yaml
from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet

from app.server import serve
from compute.cli import serve_options

ROOT = Path(__file__).parents[2]
DEPLOY = ROOT / "deploy"


def parsed(options: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    serve_options.add(parser)
    return parser.parse_args(options)


def test_the_service_s_options_are_valid_and_match_the_proxy():
    text = (DEPLOY / "fieldlab.service").read_text().replace("\\\n", " ")
    chosen = parsed(re.search(r"^ExecStart=\S+ serve (.*)$", text, re.MULTILINE)[1].split())
    proxy, passed = (DEPLOY / "nginx.conf").read_text(), (DEPLOY / "fieldlab_proxy.conf").read_text()
    assert f"location {chosen.prefix}/ " in proxy
    assert f"proxy_pass         http://{chosen.address}:{chosen.port};" in passed
    assert f"server_name {chosen.origin[0]};" in proxy
    assert chosen.behind_proxy
    assert "X-Real-Ip $remote_addr" in passed


def test_apache_passes_the_service_s_path_and_only_followers_need_no_login():
    text = (DEPLOY / "apache.conf").read_text()
    unit = (DEPLOY / "fieldlab.service").read_text().replace("\\\n", " ")
    chosen = parsed(re.search(r"^ExecStart=\S+ serve (.*)$", unit, re.MULTILINE)[1].split())
    assert f"ProxyPass {chosen.prefix}/ http://{chosen.address}:{chosen.port}{chosen.prefix}/ upgrade=websocket" in text
    assert set(re.findall(r"^ *ServerName (\S+)", text, re.MULTILINE)) == set(chosen.origin)
    rules = re.findall(r"<Location (\S+)>.*?Require (.*?)\n", text, re.DOTALL)
    assert rules == [(f"{chosen.prefix}/", "valid-user"), (f"{chosen.prefix}/follow/", "all granted")]
    assert "X-Real-Ip expr=%{REMOTE_ADDR}" in text


def test_the_service_allows_as_many_descriptors_as_the_server_uses():
    limit = re.search(r"^LimitNOFILE=(\d+)$", (DEPLOY / "fieldlab.service").read_text(), re.MULTILINE)
    assert limit is not None
    assert int(limit[1]) == serve.DESCRIPTORS


def test_the_service_is_hardened():
    """At most 3.0 of 10 by systemd's own table; the unit has 1.4."""
    if shutil.which("systemd-analyze") is None:
        pytest.skip("systemd-analyze is not installed")
    command = ["systemd-analyze", "security", "--offline=true", "--threshold=30", "--no-pager"]
    done = subprocess.run([*command, DEPLOY / "fieldlab.service"], capture_output=True, text=True, check=False)
    if "nrecognized option" in done.stderr or "nknown" in done.stderr:
        pytest.skip("this systemd-analyze has no --offline")
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_image_s_base_is_pinned_and_its_port_is_published_on_the_loopback_only():
    recipe = (DEPLOY / "Dockerfile").read_text()
    first, *others = re.findall(r"^FROM (\S+)", recipe, re.MULTILINE)
    assert re.fullmatch(r"python:3\.\d+\.\d+-slim-\w+@sha256:[0-9a-f]{64}", first)
    assert set(others) == {"base"}
    services = yaml.safe_load((DEPLOY / "compose.yaml").read_text())["services"]
    published = [port for service in services.values() for port in service.get("ports", [])]
    published += re.findall(r"docker run .*-p (\S+)", recipe)
    assert published
    assert all(port.startswith("127.0.0.1:") for port in published)


def test_the_image_contains_the_package_and_starts_with_valid_options():
    recipe = (DEPLOY / "Dockerfile").read_text()
    wheel = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["hatch"]["build"]["targets"]["wheel"]
    let_in = {line[1:] for line in (ROOT / ".dockerignore").read_text().splitlines() if line.startswith("!")}
    copied = {word for line in recipe.splitlines() if re.match("COPY (?!--from)", line) for word in line.split()[1:-1]}
    assert copied == let_in >= {*wheel["only-include"], "pyproject.toml", "README.md", "LICENSE"}
    assert all((ROOT / name).exists() for name in copied)
    entry = json.loads(re.search(r"^ENTRYPOINT (.*)$", recipe, re.MULTILINE)[1])
    services = yaml.safe_load((DEPLOY / "compose.yaml").read_text())["services"]
    assert entry[:2] == ["fieldlab", "serve"]
    assert parsed(entry[2:] + services["fieldlab"]["command"]).address == "0.0.0.0"
    for command in re.findall(r"docker run .* fieldlab(?:-cuda)? (--.*)$", recipe, re.MULTILINE):
        assert parsed(shlex.split(command)).origin == ["localhost:5006"]


def test_the_image_does_not_run_as_root():
    users = re.findall(r"^(USER|RUN|ENTRYPOINT) ?(\S*)", (DEPLOY / "Dockerfile").read_text(), re.MULTILINE)
    assert [name for what, name in users if what == "USER"] == ["10001"]  # a number: Kubernetes does not look up names
    assert users.index(("USER", "10001")) < len(users) - 1
    assert "useradd --create-home --uid 10001 fieldlab" in (DEPLOY / "Dockerfile").read_text()


def test_version_licence_and_address_agree():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    cited = yaml.safe_load((ROOT / "CITATION.cff").read_text())
    assert (cited["version"], cited["license"]) == (project["version"], project["license"])
    assert cited.get("repository-code") == project.get("urls", {}).get("Repository")


def test_files_that_the_guides_name_exist():
    for guide in ("README.md", "SECURITY.md", "CONTRIBUTING.md", "docs/deploy.md"):
        text = (ROOT / guide).read_text()
        linked = re.findall(r"\]\((?!https?:|#)([^)#]+)\)", text)
        named = re.findall(r"`((?:app|compute|docs|deploy)/[\w/]+\.\w+)`", text)
        missing = [one for one in linked if not ((ROOT / guide).parent / one).exists()]
        assert not missing + [one for one in named if not (ROOT / one).exists()], guide


CONDA = {"matplotlib": "matplotlib-base", "prometheus-client": "prometheus_client"}  # different names on conda-forge


def test_the_conda_package_has_the_requirements_of_the_wheel():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    recipe = yaml.safe_load((DEPLOY / "conda" / "recipe.yaml").read_text())
    assert recipe["context"]["version"] == project["version"]
    wanted = [Requirement(one) for one in project["dependencies"]]
    wanted = {CONDA.get(one.name, one.name): one.specifier for one in wanted} | {
        "python": SpecifierSet(project["requires-python"])
    }
    given = dict(one.split(" ", 1) for one in recipe["requirements"]["run"])
    assert {name: SpecifierSet(bounds) for name, bounds in given.items()} == wanted
    assert recipe["build"]["python"]["entry_points"] == [
        f"{name} = {target}" for name, target in project["scripts"].items()
    ]
