"""A value that makes no sense stops the start with one clear line; the rest is read as docs/settings.md says."""

import os
import stat
from pathlib import Path

import pytest

from project import backends, env

SPOKEN = ("en", "zh-hans")


def test_a_value_may_come_from_a_file(monkeypatch, tmp_path):
    (tmp_path / "secret").write_text("from the file\n")
    monkeypatch.setenv("OWNER_PASSWORD_FILE", str(tmp_path / "secret"))
    assert env.text("OWNER_PASSWORD") == "from the file"


@pytest.mark.parametrize(
    ("name", "value", "read"),
    [
        ("PORT", "80x", lambda: env.integer("PORT", 8000)),
        ("PORT", "70000", lambda: env.integer("PORT", 8000, at_most=65535)),
        ("PORT", "-1", lambda: env.integer("PORT", 8000)),
        ("PORT", "٨٠٠٠", lambda: env.integer("PORT", 8000)),
        ("NIGHTDESK_LEASE", "nan", lambda: env.seconds("NIGHTDESK_LEASE", 30)),
        ("NIGHTDESK_LEASE", "0", lambda: env.seconds("NIGHTDESK_LEASE", 30)),
        ("BASE_URL", "desk.example.org", lambda: env.web_address("BASE_URL", "")),
        *(
            ("EMAIL_URL", value, lambda: env.mail_server("EMAIL_URL"))
            for value in (
                "mail.example.org",
                "http://mail.example.org",
                "smtp://",
                "smtp://host:99999",
                "smtp://host:0",
            )
        ),
        ("TRUSTED_PROXIES", "10.0.0", lambda: env.networks("TRUSTED_PROXIES")),
        *(
            ("EGRESS_ALLOW", value, lambda: env.reachable("EGRESS_ALLOW"))
            for value in (
                "http://intranet",
                "10.0.0.0/99",
                "10.0.0",
                "host:0",
                "host:70000",
                "a b",
                "*.example.org",
                "[::1",
            )
        ),
        ("NOTIFY_URLS", "ops@example.org", lambda: env.addresses("NOTIFY_URLS")),
        ("TIME_ZONE", "Mars/Olympus", lambda: env.time_zone("TIME_ZONE")),
        ("LANGUAGE", "klingon", lambda: env.language("LANGUAGE", SPOKEN)),
        ("FIELD_KEY", "too short", lambda: env.field_keys("FIELD_KEY", Path("unused"))),
        ("DATABASE_URL", "mysql://localhost/desk", lambda: backends.database("DATABASE_URL", Path("/x"), web=True)),
        ("DATABASE_URL", "postgres://h:99999/desk", lambda: backends.database("DATABASE_URL", Path("/x"), web=True)),
        ("DATABASE_URL", "postgres://host", lambda: backends.database("DATABASE_URL", Path("/x"), web=True)),
        ("REDIS_URL", "localhost:6379", lambda: backends.redis("REDIS_URL", Path("/x"))),
        ("DATA_DIR", "/dev/null/desk", lambda: env.folder("DATA_DIR", "")),
        ("SECRET_KEY_FILE", "/nowhere/at/all", lambda: env.text("SECRET_KEY")),
    ],
)
def test_nonsense_is_refused_in_one_line_that_names_the_setting(monkeypatch, name, value, read):
    monkeypatch.setenv(name, value)
    with pytest.raises(SystemExit) as refusal:
        read()
    message = str(refusal.value)
    assert message.startswith(f"nightdesk: {name} ")
    assert "\n" not in message


def test_what_may_be_reached_is_named_in_any_of_five_ways(monkeypatch):
    given = "intranet, git.acme.example:8443, 10.0.0.7, 127.0.0.1:9, [::1]:80, fd00::/8, 192.168.0.0/16"
    monkeypatch.setenv("EGRESS_ALLOW", given)
    assert env.reachable("EGRESS_ALLOW") == given.split(", ")


def test_a_value_and_its_file_together_are_refused(monkeypatch, tmp_path):
    monkeypatch.setenv("SECRET_KEY", "one")
    monkeypatch.setenv("SECRET_KEY_FILE", str(tmp_path))
    with pytest.raises(SystemExit, match="both set"):
        env.text("SECRET_KEY")


def test_the_language_of_a_desktop_is_understood(monkeypatch):
    """One that the desk does not speak is no fault of whoever starts it: it is shown in English."""
    chinese = {"zh-hans", "zh_CN.UTF-8", "zh_CN:zh", "zh_SG", "de_DE:zh_CN"}
    for value in [*chinese, "de_DE:de", "en_US.UTF-8", "C", "fr"]:
        monkeypatch.setenv("LANGUAGE", value)
        assert env.language("LANGUAGE", SPOKEN) == ("zh-hans" if value in chinese else "en")


def test_a_key_is_made_once_and_is_readable_by_its_owner_only(monkeypatch, tmp_path):
    monkeypatch.delenv("SECRET_KEY", raising=False)
    first = env.kept_secret("SECRET_KEY", tmp_path / "secret.key")
    assert len(first) >= 50
    assert env.kept_secret("SECRET_KEY", tmp_path / "secret.key") == first
    assert stat.S_IMODE((tmp_path / "secret.key").stat().st_mode) == 0o600
    assert [path.name for path in tmp_path.iterdir()] == ["secret.key"]


def test_a_postgres_address_is_taken_apart_with_its_escapes(monkeypatch):
    monkeypatch.setenv("DATABASE_URL", "postgres://desk%40acme:p%2Fw@db.example.org:6432/night%20desk?sslmode=require")
    entry = backends.database("DATABASE_URL", Path("/x"), web=False)
    picked = {name: entry[name] for name in ("USER", "PASSWORD", "HOST", "PORT", "NAME")}
    assert picked == {
        "USER": "desk@acme",
        "PASSWORD": "p/w",
        "HOST": "db.example.org",
        "PORT": "6432",
        "NAME": "night desk",
    }
    assert entry["OPTIONS"] == {"options": backends.POSTGRES_OPTIONS, "sslmode": "require", "prepare_threshold": 3}


def test_the_address_says_itself_how_statements_are_prepared(monkeypatch):
    for told, meant in (("0", 0), ("5", 5), ("none", None)):
        monkeypatch.setenv("DATABASE_URL", f"postgres://desk@db/desk?prepare_threshold={told}")
        assert backends.database("DATABASE_URL", Path("/x"), web=False)["OPTIONS"]["prepare_threshold"] == meant
    monkeypatch.setenv("DATABASE_URL", "postgres://desk@db/desk?prepare_threshold=often")
    with pytest.raises(env.BadSetting, match="neither a number nor none: 'often'"):
        backends.database("DATABASE_URL", Path("/x"), web=False)


def test_a_postgres_socket_and_ipv6_are_understood(monkeypatch):
    monkeypatch.setenv("DATABASE_URL", "postgres://desk@%2FVar%2Frun/desk?options=")
    entry = backends.database("DATABASE_URL", Path("/x"), web=True)
    assert entry["HOST"] == "/Var/run"
    assert entry["OPTIONS"] == {"options": "", "pool": backends.POOL}
    monkeypatch.setenv("DATABASE_URL", "postgres://desk@[::1]:5433/desk")
    assert backends.database("DATABASE_URL", Path("/x"), web=True)["HOST"] == "::1"


def test_a_sqlite_path_may_hold_any_character(monkeypatch, tmp_path):
    monkeypatch.delenv("DATABASE_URL", raising=False)
    odd = tmp_path / "50% off? #1"
    assert backends.database("DATABASE_URL", odd, web=True)["NAME"] == str(odd / "nightdesk.sqlite3")


@pytest.mark.parametrize(
    ("url", "client", "celery"),
    [
        ("redis://h:6379/1", "redis://h:6379/1", "redis://h:6379/1"),
        ("rediss://:pw@h/0", "rediss://:pw@h/0", "rediss://:pw@h/0"),
        ("unix:///run/v.sock?db=3", "unix:///run/v.sock?db=3", "redis+socket:///run/v.sock?virtual_host=3"),
        ("redis+socket:///run/v.sock?virtual_host=3", "unix:///run/v.sock?db=3", None),
    ],
)
def test_a_broker_address_is_spelt_as_each_reader_wants_it(monkeypatch, url, client, celery):
    monkeypatch.setenv("REDIS_URL", url)
    assert backends.redis("REDIS_URL", Path("/x")) == backends.Redis(client, celery or url, ours=False)


def test_a_deep_folder_gets_its_socket_in_a_private_place(tmp_path):
    deep = tmp_path / ("d" * 120)
    path = backends.valkey_socket(deep)
    assert len(os.fsencode(path)) <= backends.SOCKET_PATH_BYTES
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    assert path == backends.valkey_socket(deep)
    assert path != backends.valkey_socket(tmp_path / ("e" * 120))
    path.parent.rmdir()


def test_a_socket_folder_that_others_can_enter_is_refused(tmp_path):
    deep = tmp_path / ("f" * 120)
    folder = backends.valkey_socket(deep).parent
    folder.chmod(0o755)
    with pytest.raises(SystemExit, match="not a private folder"):
        backends.valkey_socket(deep)
    folder.rmdir()
