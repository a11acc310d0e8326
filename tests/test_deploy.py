"""The files of deploy/: their settings, variables, commands, ports and times are those of Antiphon.

`make cluster-test` runs nginx and systemd's own check with them.
"""

from __future__ import annotations

import argparse
import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import jsonschema_rs
import pytest
import yaml
from packaging.requirements import Requirement
from prometheus_client import CollectorRegistry

from antiphon.cli import serve
from antiphon.config import Config
from antiphon.config.load import load_config, parse_config
from antiphon.observe.metrics import DurationHistograms, RequestCounters
from antiphon.server.routes import EXACT
from antiphon.server.serve import _TERMINAL_EVENTS_S
from deploy.lock import EXTRAS, list_requirements
from tests.support.kubernetes_schema import SCHEMAS
from tests.support.tables import table

DEPLOY = Path(__file__).parents[1] / "deploy"
MANIFESTS = list(yaml.safe_load_all((DEPLOY / "kubernetes" / "antiphon.yaml").read_text()))
COMPOSE = yaml.safe_load((DEPLOY / "compose.yaml").read_text())
UNIT = (DEPLOY / "antiphon.service").read_text()
CONTAINER = (DEPLOY / "Containerfile").read_text()
NGINX = (DEPLOY / "nginx.conf").read_text()
CONFIG_PATH = "/etc/antiphon/antiphon.toml"


def read_variables() -> dict[str, str]:
    lines = (DEPLOY / "antiphon.env.example").read_text().splitlines()
    pairs = [line.partition("=") for line in lines if line and not line.startswith("#")]
    return {name: value or "filled in" for name, _, value in pairs}


@pytest.fixture
def config() -> Config:
    return load_config(DEPLOY / "antiphon.toml", read_variables())


def parse_command(arguments: Sequence[str]) -> argparse.Namespace:
    """Parse the arguments after `antiphon`, as the command line does."""
    command, *rest = arguments
    assert command == "serve"
    parser = argparse.ArgumentParser(exit_on_error=False)
    serve.add(parser)
    return parser.parse_args(rest)


def manifest(kind: str) -> dict[str, Any]:
    [found] = [each for each in MANIFESTS if each["kind"] == kind]
    assert isinstance(found, dict)
    return found


def test_the_example_of_the_environment_has_every_variable_of_the_configuration(
    config: Config,
) -> None:
    text = (DEPLOY / "antiphon.toml").read_text()
    assert set(re.findall(r"\$\{(\w+)\}", text)) == set(read_variables())
    assert config.store.url.startswith("postgresql://")
    assert config.shared.url.startswith("redis://")
    assert config.capsule.keys  # without them a gateway with PostgreSQL does not start
    for missing in read_variables():
        variables = {name: value for name, value in read_variables().items() if name != missing}
        with pytest.raises(Exception, match=missing):
            parse_config(text, variables, name="antiphon.toml")


def unit_values(name: str) -> list[str]:
    return re.findall(rf"^{name}=(.*)$", UNIT, re.MULTILINE)


def commands() -> list[Sequence[str]]:
    container = manifest("Deployment")["spec"]["template"]["spec"]["containers"][0]
    [started] = unit_values("ExecStart")
    [default] = re.findall(r"^CMD (.*)$", CONTAINER, re.MULTILINE)
    return [
        container["args"],
        COMPOSE["services"]["gateway"]["command"],
        started.split()[1:],
        json.loads(default),
    ]


@pytest.mark.parametrize("command", commands())
def test_every_command_is_one_of_ours_and_names_the_configuration(command: Sequence[str]) -> None:
    assert parse_command(command).config == CONFIG_PATH


def stop_seconds() -> dict[str, float]:
    pod = manifest("Deployment")["spec"]["template"]["spec"]
    pause = pod["containers"][0]["lifecycle"]["preStop"]["exec"]["command"]
    assert pause[0] == "sleep"
    return {
        "kubernetes": pod["terminationGracePeriodSeconds"] - float(pause[1]),
        "compose": float(COMPOSE["services"]["gateway"]["stop_grace_period"].rstrip("s")),
        "systemd": float(unit_values("TimeoutStopSec")[0]),
    }


@pytest.mark.parametrize("where", stop_seconds())
def test_streams_may_end_before_the_process_is_killed(where: str, config: Config) -> None:
    store_s = 2 * config.store.wait_s  # a database that is away is waited for in the end
    assert stop_seconds()[where] >= config.server.shutdown_s + _TERMINAL_EVENTS_S + store_s


def test_a_gateway_is_started_again_until_its_database_answers() -> None:
    assert unit_values("Restart") == ["always"]
    assert unit_values("StartLimitIntervalSec") == ["0"], "systemd gives up after five starts"
    assert COMPOSE["services"]["gateway"]["restart"] == "unless-stopped"


def test_ports_and_probes_are_those_of_the_gateway(config: Config) -> None:
    container = manifest("Deployment")["spec"]["template"]["spec"]["containers"][0]
    [port] = container["ports"]
    assert port["containerPort"] == config.server.port
    probes = [container[f"{kind}Probe"]["httpGet"] for kind in ("startup", "readiness", "liveness")]
    assert {probe["port"] for probe in probes} == {port["name"]}
    paths = [probe["path"] for probe in probes]
    [checked] = re.findall(r"127.0.0.1:(\d+)(/[\w/]+)", str(COMPOSE["services"]["gateway"]))
    assert {*paths, checked[1]} <= EXACT.keys()
    # A database that is away must not take every gateway out of the Service.
    assert paths[1:] == ["/health/live", "/health/live"]
    assert int(checked[0]) == config.server.port
    assert re.findall(r"server gateway:(\d+)", NGINX) == [str(config.server.port)]
    assert f"EXPOSE {config.server.port}\n" in CONTAINER


def find_errors(document: dict[str, Any]) -> list[str]:
    validator = jsonschema_rs.Draft202012Validator(SCHEMAS[document["kind"]])
    return [error.message for error in validator.iter_errors(document)]


def test_the_objects_of_kubernetes_have_the_fields_of_its_api() -> None:
    assert {each["kind"] for each in MANIFESTS} == SCHEMAS.keys()
    assert [error for each in MANIFESTS for error in find_errors(each)] == []
    misspelt = {**manifest("Service"), "spec": {**manifest("Service")["spec"], "port": 1}}
    assert len(find_errors(misspelt)) == 1


def test_the_objects_of_kubernetes_refer_to_each_other() -> None:
    deployment = manifest("Deployment")["spec"]
    labels = deployment["template"]["metadata"]["labels"]
    pod = deployment["template"]["spec"]
    assert deployment["selector"]["matchLabels"] == labels
    assert manifest("Service")["spec"]["selector"] == labels
    assert manifest("PodDisruptionBudget")["spec"]["selector"]["matchLabels"] == labels
    [port] = manifest("Service")["spec"]["ports"]
    assert port["targetPort"] == pod["containers"][0]["ports"][0]["name"]
    mounted = {each["name"] for each in pod["containers"][0]["volumeMounts"]}
    assert mounted == {each["name"] for each in pod["volumes"]}
    assert pod["containers"][0]["volumeMounts"][0]["mountPath"] == str(Path(CONFIG_PATH).parent)


def test_compose_names_only_volumes_and_services_that_exist() -> None:
    services = COMPOSE["services"]
    for service in services.values():
        assert set(service.get("depends_on", ())) <= services.keys()
    environment = services["gateway"]["environment"]
    assert set(environment) <= set(read_variables())
    for url in environment.values():
        host = re.search(r"(?:@|redis://)(\w+)[/:]", url)
        assert host
        assert host[1] in services
    named = [each.partition(":")[0] for each in services["postgres"]["volumes"]]
    assert named == [*COMPOSE["volumes"]]


def test_nginx_passes_the_api_alone_unbuffered_and_no_larger_bodies_than_the_gateway(
    config: Config,
) -> None:
    assert re.findall(r"location (\S+) \{", NGINX) == ["/v1/", "/"]
    assert "proxy_buffering off;" in NGINX
    [megabytes] = re.findall(r"client_max_body_size (\d+)m;", NGINX)
    assert int(megabytes) << 20 == config.server.max_body_bytes
    [read_s] = re.findall(r"proxy_read_timeout (\d+)s;", NGINX)
    assert int(read_s) > config.server.keepalive_s
    assert "non_idempotent" not in NGINX  # a request would be paid for twice
    assert "keepalive" not in NGINX.replace("keep-alive", "")  # see tests/cluster/test_deploy.py


# The lock file


def read_lock() -> dict[str, tuple[str, int]]:
    """Version and number of hashes of each package."""
    text = (DEPLOY / "requirements.lock").read_text()
    lines = [line for line in text.replace("\\\n", "").splitlines() if not line.startswith("#")]
    pattern = r"([a-z0-9.-]+)==(\S+)((?: +--hash=sha256:[0-9a-f]{64})+)"
    packages = [re.fullmatch(pattern, line) for line in lines]
    return {found[1]: (found[2], found[3].count("--hash")) for found in packages if found}


def test_the_lock_file_has_every_package_of_the_image_with_its_hash() -> None:
    text = (DEPLOY / "requirements.lock").read_text()
    lock = read_lock()
    assert len(lock) == text.count("==") > 20
    for requirement in map(Requirement, list_requirements()):
        version, hashes = lock[requirement.name]
        assert requirement.specifier.contains(version), requirement
        assert 1 <= hashes <= 2


def test_the_image_installs_nothing_but_the_packages_of_the_lock_file() -> None:
    commands = re.findall(r"python -m pip (\w+) (.*)", CONTAINER)
    assert [name for name, _ in commands] == ["download", "install", "wheel", "install"]
    assert "--require-hashes --requirement requirements.lock" in commands[0][1]
    assert all("--no-index" in options for _, options in commands[1:])
    extras = re.search(r"antiphon\[([a-z,]+)\]", CONTAINER)
    assert extras
    assert tuple(extras[1].split(",")) == EXTRAS


# The systemd unit


def test_the_unit_gives_up_what_the_gateway_does_not_need() -> None:
    settings = dict(re.findall(r"^(\w+)=(.*)$", UNIT, re.MULTILINE))
    for name in (
        *("LockPersonality", "MemoryDenyWriteExecute", "NoNewPrivileges", "PrivateDevices"),
        *("PrivateTmp", "PrivateUsers", "ProtectClock", "ProtectControlGroups", "ProtectHome"),
        *("ProtectHostname", "ProtectKernelLogs", "ProtectKernelModules", "RestrictNamespaces"),
        *("ProtectKernelTunables", "RestrictRealtime", "RestrictSUIDSGID"),
    ):
        assert settings[name] == "yes", name
    assert settings["CapabilityBoundingSet"] == ""
    assert settings["UMask"] == "0077"
    assert "SystemCallFilter=@system-service\nSystemCallFilter=~@privileged\n" in UNIT


# --- the dashboard --------------------------------------------------------------------------------

SERIES = re.compile(r"\b(antiphon_\w+?)(?:_bucket|_sum|_count)?(?=[\[({) ]|$)")


def read_series() -> dict[str, set[str]]:
    """The series of docs/monitoring.md, with their labels."""
    page = (DEPLOY.parent / "docs" / "monitoring.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| (`antiphon_[^|]+) \| ([^|]*)\|", page, re.MULTILINE)
    return {
        name: set(re.findall(r"\w+", labels))
        for names, labels in rows
        for name in re.findall(r"`(antiphon_\w+)`", names)
    }


def read_queries() -> list[tuple[str, str]]:
    dashboard = json.loads((DEPLOY / "grafana.json").read_text(encoding="utf-8"))
    targets = [target for panel in dashboard["panels"] for target in panel["targets"]]
    return [(target["expr"], target["legendFormat"]) for target in targets]


def test_the_documented_series_are_those_that_the_gateway_has() -> None:
    registry = CollectorRegistry()
    RequestCounters(registry)
    DurationHistograms(registry)
    known = {family.name for family in registry.collect()}
    documented = {name.removesuffix("_total") for name in read_series()}
    assert known
    assert known - documented - {"antiphon_unpriced_requests"} == set()


@table(("query", "legend"), read_queries())
def test_a_query_of_the_dashboard_uses_series_and_labels_that_exist(
    query: str, legend: str
) -> None:
    [name] = SERIES.findall(query)
    labels = read_series()[name] | {"le"}
    grouped = re.findall(r"by \(([^)]*)\)", query)
    assert {label.strip() for group in grouped for label in group.split(",")} <= labels
    assert set(re.findall(r"{{(\w+)}}", legend)) <= labels
