"""deploy/ says the same as the code: every setting, command, process and address in it exists. No engine runs here."""

import configparser
import re
from pathlib import Path
from typing import Any

import pytest
import yaml
from django.core.management import get_commands, load_command_class

from project import processes
from tests.house.tree import ROOT

DEPLOY = ROOT / "deploy"
YAML = sorted([*DEPLOY.rglob("*.yaml"), *DEPLOY.rglob("*.yml")])
UNITS = sorted(DEPLOY.rglob("*.service"))
KNOWN = set(re.findall(r"^\| `([A-Z_]+)`", (ROOT / "docs" / "settings.md").read_text(), re.MULTILINE))
OTHERS = {"POSTGRES_USER", "POSTGRES_DB", "POSTGRES_PASSWORD", "PATH", "PYTHONUNBUFFERED", "PYTHONDONTWRITEBYTECODE"}
OURS = "nightdesk:0.1.0"
TAGGED = re.compile(r"[a-z0-9][a-z0-9/_-]*:[a-z0-9._-]*\d[a-z0-9._-]*")


def documents(path: Path) -> list[Any]:
    return [one for one in yaml.safe_load_all(path.read_text()) if one]


def named(path: Path) -> str:
    return path.name


def kubernetes() -> list[dict[str, Any]]:
    return [one for path in sorted((DEPLOY / "kubernetes").glob("*.yaml")) for one in documents(path)]


def compose() -> dict[str, Any]:
    [told] = documents(DEPLOY / "compose.yaml")
    return told


def pods() -> dict[str, dict[str, Any]]:
    """The template of every pod, by the name of what makes it."""
    made = {}
    for one in kubernetes():
        spec = one.get("spec", {})
        template = spec.get("jobTemplate", {}).get("spec", spec).get("template")
        if template:
            made[one["metadata"]["name"]] = template
    return made


def containers() -> list[dict[str, Any]]:
    return [container for pod in pods().values() for container in pod["spec"]["containers"]]


def of_compose() -> dict[str, dict[str, Any]]:
    """The services that run our image."""
    return {name: one for name, one in compose()["services"].items() if one["image"] == OURS}


def commands() -> list[list[str]]:
    """Every `manage.py …` anywhere in deploy/."""
    dockerfile = re.search(r"^CMD \[(.+)\]$", (DEPLOY / "Dockerfile").read_text(), re.MULTILINE)
    assert dockerfile
    found = [re.findall(r'"([^"]+)"', dockerfile[1])]
    found += [one["command"] for one in of_compose().values()]
    found += [one["args"] for one in containers()]
    found += [unit(path)["Service"]["ExecStart"].split() for path in UNITS]
    return [words[words.index("manage.py") + 1 :] for words in found]


def unit(path: Path) -> configparser.ConfigParser:
    parser = configparser.ConfigParser(strict=False, interpolation=None)
    parser.optionxform = str  # type: ignore[assignment,method-assign]
    parser.read_string(path.read_text())
    return parser


def test_there_is_something_to_look_at():
    assert len(YAML) == 5
    assert [path.name for path in UNITS] == ["nightdesk.service", "nightdesk@.service"]
    assert len(commands()) == 14


@pytest.mark.parametrize("path", YAML, ids=named)
def test_it_is_yaml_that_names_no_key_twice(path):
    class Strict(yaml.SafeLoader):
        pass

    def mapping(loader: yaml.SafeLoader, node: yaml.MappingNode) -> dict[Any, Any]:
        keys = [key.value for key, _ in node.value]
        assert len(keys) == len(set(keys)), keys
        loader.flatten_mapping(node)
        return loader.construct_mapping(node, deep=True)

    Strict.add_constructor("tag:yaml.org,2002:map", mapping)
    assert [one for one in yaml.load_all(path.read_text(), Strict) if one]


@pytest.mark.parametrize("words", commands(), ids=" ".join)
def test_a_command_exists_and_takes_these_options(words):
    name, *options = words
    app = get_commands()[name]
    parser = load_command_class(app, name).create_parser("manage.py", name)
    told = vars(parser.parse_args(options))
    for process in filter(None, told.get("processes", "").split(",")):
        assert process in (*processes.NAMES, "%i")


def process_of(words: list[str]) -> str:
    return words[words.index("--processes") + 1]


def test_compose_and_kubernetes_run_each_process_of_up_once():
    ours = {process_of(one["command"]) for one in of_compose().values()}
    assert ours == set(processes.NAMES) - {"valkey"}
    assert {process_of(one["args"]) for one in containers() if one["args"][2] == "up"} == ours
    assert list(of_compose()) == [process_of(one["command"]) for one in of_compose().values()]


def settings_named() -> list[tuple[str, str]]:
    text = (DEPLOY / "Dockerfile").read_text()
    found = [
        ("Dockerfile", name)
        for line in re.findall(r"^ENV (.+)$", text, re.MULTILINE)
        for name in re.findall(r"(\w+)=", line)
    ]
    for name, one in compose()["services"].items():
        found += [(name, key) for key in one.get("environment", {})]
    found += [("compose", name) for name in re.findall(r"\$\{(\w+)", (DEPLOY / "compose.yaml").read_text())]
    for one in kubernetes():
        found += [(one["metadata"]["name"], key) for key in {**one.get("data", {}), **one.get("stringData", {})}]
    for path in UNITS:
        found += [(path.name, key) for key in re.findall(r"(\w+)=", unit(path)["Service"]["Environment"])]
    example = (DEPLOY / "systemd" / "nightdesk.env.example").read_text()
    found += [("env.example", name) for name in re.findall(r"^#?([A-Z_]+)=", example, re.MULTILINE)]
    return sorted(set(found))


def test_every_setting_is_one_of_the_desk():
    assert len(settings_named()) > 30
    assert [(where, name) for where, name in settings_named() if name not in KNOWN | OTHERS] == []


def images() -> list[str]:
    built = re.findall(r"^FROM (\S+)", (DEPLOY / "Dockerfile").read_text(), re.MULTILINE)
    return [*built, *(one["image"] for one in compose()["services"].values()), *(one["image"] for one in containers())]


@pytest.mark.parametrize("image", sorted(set(images())))
def test_an_image_is_a_plain_name_with_a_version(image):
    assert TAGGED.fullmatch(image), image
    assert "." not in image.split("/")[0].split(":")[0], "no registry's host"


def test_the_version_of_our_image_is_the_version_of_the_code():
    version = re.search(r'^version = "(.+)"', (ROOT / "pyproject.toml").read_text(), re.MULTILINE)
    assert version
    assert f"nightdesk:{version[1]}" == OURS


def probes() -> list[str]:
    found = [
        probe["httpGet"]["path"]
        for container in containers()
        for name, probe in container.items()
        if name.endswith("Probe")
    ]
    return [*found, *re.findall(r"127\.0\.0\.1:8000(/\w+)", (DEPLOY / "Dockerfile").read_text())]


def test_a_probe_asks_an_address_that_answers_without_the_database():
    asgi = (ROOT / "project" / "asgi.py").read_text()
    assert len(probes()) == 4
    assert {path for path in probes() if f'scope["path"] == "{path}"' not in asgi} == set()


@pytest.mark.parametrize("name", sorted(pods()))
def test_a_pod_runs_as_nobody_in_particular_and_may_nothing(name):
    spec = pods()[name]["spec"]
    assert spec["securityContext"]["runAsNonRoot"] is True
    assert spec["automountServiceAccountToken"] is False
    for container in spec["containers"]:
        held = container["securityContext"]
        assert (held["allowPrivilegeEscalation"], held["readOnlyRootFilesystem"]) == (False, True)
        assert held["capabilities"] == {"drop": ["ALL"]}
        assert container["resources"]["limits"]["memory"]
        mounted = {mount["name"] for mount in container["volumeMounts"]}
        assert mounted == {volume["name"] for volume in spec["volumes"]}


def test_what_selects_pods_finds_them():
    labels = [pod["metadata"]["labels"] for pod in pods().values()]
    for one in kubernetes():
        selector = one.get("spec", {}).get("selector", {})
        wanted = selector.get("matchLabels", selector)
        assert not wanted or any(wanted.items() <= label.items() for label in labels), one["metadata"]["name"]


def test_what_must_run_once_is_never_two():
    deployments = {one["metadata"]["name"]: one["spec"] for one in kubernetes() if one["kind"] == "Deployment"}
    for name in ("nightdesk-beat", "nightdesk-listen"):
        assert (deployments[name]["replicas"], deployments[name]["strategy"]["type"]) == (1, "Recreate")


def test_references_lead_to_what_is_there():
    held = {(one["kind"], one["metadata"]["name"]) for one in kubernetes()}
    kinds = {"configMapRef": "ConfigMap", "secretRef": "Secret"}
    for container in containers():
        for reference, told in ((key, value) for one in container["envFrom"] for key, value in one.items()):
            assert (kinds[reference], told["name"]) in held


def test_compose_waits_for_what_it_needs_and_takes_every_right_away():
    told = compose()
    for one in told["services"].values():
        for name, on in one.get("depends_on", {}).items():
            assert told["services"][name]
            assert on["condition"] == "service_healthy"
        for volume in one.get("volumes", []):
            assert volume.split(":")[0] in told["volumes"]
    for one in of_compose().values():
        assert (one["read_only"], one["cap_drop"]) == (True, ["ALL"])
        assert one["security_opt"] == ["no-new-privileges:true"]


def test_the_image_is_built_in_two_stages_with_hashes_and_runs_as_nobody():
    text = (DEPLOY / "Dockerfile").read_text()
    assert len(re.findall(r"^FROM ", text, re.MULTILINE)) == 2
    assert "--require-hashes -r requirements.txt" in text
    assert re.search(r"^USER 10001:10001$", text, re.MULTILINE)
    copied = {word for line in re.findall(r"^COPY (?!--from)(.+)$", text, re.MULTILINE) for word in line.split()[:-1]}
    assert {name for name in copied if not (ROOT / name).exists()} == set()
    kept = set(re.findall(r"^!(\S+)", (DEPLOY / "Dockerfile.dockerignore").read_text(), re.MULTILINE))
    assert copied == kept


HARDENED = {
    "NoNewPrivileges": "yes",
    "CapabilityBoundingSet": "",
    "ProtectSystem": "strict",
    "ProtectHome": "yes",
    "PrivateTmp": "yes",
    "PrivateDevices": "yes",
    "RestrictSUIDSGID": "yes",
    "UMask": "0077",
    "KillMode": "mixed",
}


@pytest.mark.parametrize("path", UNITS, ids=named)
def test_a_unit_is_hardened_and_ends_its_desk_gently(path):
    service = unit(path)["Service"]
    assert {name: service.get(name) for name in HARDENED} == HARDENED
    assert service["User"] == "nightdesk"
    assert float(service["TimeoutStopSec"]) > 10, "`up` ends within ten seconds"
    assert service["Environment"].startswith(f"DATA_DIR=/var/lib/{service['StateDirectory']}")


def test_the_two_units_differ_only_in_what_they_run():
    one, many = (path.read_text().splitlines() for path in UNITS)
    changed = {line.partition("=")[0] for line in set(one) ^ set(many) if not line.startswith("#")}
    assert changed == {"Description", "ExecStart"}


def test_litestream_copies_the_file_the_unit_writes():
    [told] = documents(DEPLOY / "litestream.yml")
    assert [one["path"] for one in told["dbs"]] == ["/var/lib/nightdesk/nightdesk.sqlite3"]


def test_every_way_is_told_in_the_docs():
    page = (ROOT / "docs" / "production.md").read_text()
    for path in ("compose.yaml", "Dockerfile", "systemd/", "kubernetes/", "litestream.yml"):
        assert f"deploy/{path}" in page
