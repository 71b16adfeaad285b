"""Every setting, read once from the environment (docs/settings.md lists them with units)."""

from pathlib import Path
from urllib.parse import urlsplit

from project import backends, env
from project.lib import logs
from project.theme import UNFOLD as UNFOLD

BASE_DIR = Path(__file__).resolve().parent.parent
DATA_DIR = env.folder("DATA_DIR", str(BASE_DIR / "var"))

# Where people reach the desk
HOST = env.text("HOST", "127.0.0.1")
PORT = env.integer("PORT", 8000, at_least=1, at_most=65535)
EVERYWHERE = HOST in ("0.0.0.0", "::")
BASE_URL = env.web_address("BASE_URL", f"http://{'127.0.0.1' if EVERYWHERE else HOST}:{PORT}")
ALLOWED_HOSTS = env.words("ALLOWED_HOSTS", "*" if EVERYWHERE else f"localhost,127.0.0.1,[::1],{HOST}")
ALLOWED_HOSTS.append(urlsplit(BASE_URL).hostname or "localhost")
TRUSTED_PROXIES = env.networks("TRUSTED_PROXIES")
CSRF_TRUSTED_ORIGINS = [BASE_URL]
SESSION_COOKIE_SECURE = CSRF_COOKIE_SECURE = BASE_URL.startswith("https://")
ENVIRONMENT = env.text("ENVIRONMENT", "dev")

# Secrets
SECRET_KEY = env.kept_secret("SECRET_KEY", DATA_DIR / "secret.key")
FIELD_KEY = env.field_keys("FIELD_KEY", DATA_DIR / "field.key")
OWNER_PASSWORD = env.text("OWNER_PASSWORD")

# What comes in and goes out
HANDLERS_DIR = Path(env.text("HANDLERS_DIR", str(DATA_DIR / "handlers")))
FILE_ROOTS = env.words("FILE_ROOTS", str(DATA_DIR / "inbox"))
MAX_BODY_BYTES = env.integer("MAX_BODY_BYTES", 1024 * 1024, at_least=1)
RETENTION_DAYS = env.integer("RETENTION_DAYS", 30, at_least=1)
REVIEW_SAMPLE = env.integer("REVIEW_SAMPLE", 5, at_least=0, at_most=100)
EGRESS_ALLOW = env.reachable("EGRESS_ALLOW")
MCP_COMMANDS = env.commands("MCP_COMMANDS")
NOTIFY_URLS = env.addresses("NOTIFY_URLS")
EMAIL_URL = env.mail_server("EMAIL_URL")
EMAIL_FROM = env.text("EMAIL_FROM")
LLM_MODEL = env.text("LLM_MODEL")
LLM_BASE_URL = env.text("LLM_BASE_URL")
LLM_API_KEY = env.text("LLM_API_KEY")
OTEL_EXPORTER_OTLP_ENDPOINT = env.web_address("OTEL_EXPORTER_OTLP_ENDPOINT", "")

# Engine rhythm, in seconds; the fault loops shorten them
LEASE = env.seconds("NIGHTDESK_LEASE", 30)
TICK = env.seconds("NIGHTDESK_TICK", 2)
PROCESS = env.text("NIGHTDESK_PROCESS")  # set by `up` for its children: web, worker, desk, beat, listen

DATABASES = {"default": backends.database("DATABASE_URL", DATA_DIR, web=PROCESS == "web")}
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"

INSTALLED_APPS = [
    "project.apps.ProjectConfig",
    "project.people.apps.PeopleConfig",
    "triggers.apps.TriggersConfig",
    "approvals.apps.ApprovalsConfig",
    "project.agent.apps.AgentConfig",
    "unfold",
    "django.contrib.admin.apps.SimpleAdminConfig",  # project/urls.py registers: workers need no admin
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "django.contrib.sessions",
    "django.contrib.messages",
    "django.contrib.staticfiles",
    "django.contrib.humanize",
    "django_celery_beat",
    "django_htmx",
    "ninja",
    "template_partials",
    "lucide",
    "axes",
    "csp",
    "channels",
]

MIDDLEWARE = [
    "django.middleware.security.SecurityMiddleware",
    "project.middleware.Policy",
    "project.middleware.Storable",
    "django.contrib.sessions.middleware.SessionMiddleware",
    "django.middleware.common.CommonMiddleware",
    "django.middleware.csrf.CsrfViewMiddleware",
    "django.contrib.auth.middleware.AuthenticationMiddleware",
    "project.middleware.Zone",
    "project.middleware.Language",
    "project.middleware.Gate",
    "django.contrib.messages.middleware.MessageMiddleware",
    "django.middleware.clickjacking.XFrameOptionsMiddleware",
    "django_htmx.middleware.HtmxMiddleware",
    "axes.middleware.AxesMiddleware",
]

TEMPLATES = [
    {
        "BACKEND": "django.template.backends.django.DjangoTemplates",
        "DIRS": [BASE_DIR / "templates"],
        "APP_DIRS": True,
        "OPTIONS": {
            "context_processors": [
                "django.template.context_processors.request",
                "django.contrib.auth.context_processors.auth",
                "django.contrib.messages.context_processors.messages",
                "project.context.frame",
            ],
            "builtins": ["project.templatetags.saying"],
        },
    }
]

ROOT_URLCONF = "project.urls"
ASGI_APPLICATION = "project.asgi.application"
AUTH_USER_MODEL = "people.User"
AUTHENTICATION_BACKENDS = [
    "axes.backends.AxesStandaloneBackend",
    "django.contrib.auth.backends.ModelBackend",
    "project.people.codes.CodeBackend",
]
AUTH_PASSWORD_VALIDATORS = [
    {"NAME": "django.contrib.auth.password_validation.MinimumLengthValidator", "OPTIONS": {"min_length": 10}},
    {"NAME": "django.contrib.auth.password_validation.CommonPasswordValidator"},
]
LOGIN_URL = "sign-in"
LOGIN_REDIRECT_URL = "home"
CSRF_FAILURE_VIEW = "project.views.stale_form"
AXES_FAILURE_LIMIT = 10
AXES_COOLOFF_TIME = 0.25  # hours
AXES_LOCKOUT_PARAMETERS = [["username", "ip_address"]]
AXES_RESET_ON_SUCCESS = True
AXES_SENSITIVE_PARAMETERS = ["username", "ip_address", "code"]
AXES_LOCKOUT_CALLABLE = "project.people.views.too_many"

USE_TZ = True
TIME_ZONE = env.time_zone("TIME_ZONE")
LANGUAGE_CODE = "en"  # of what is stored, logged and sent; pages speak that of who reads (docs/languages.md)
LANGUAGES = (("en", "English"), ("zh-hans", "简体中文"))
PAGES_LANGUAGE = env.language("LANGUAGE", dict(LANGUAGES))
LOCALE_PATHS = [BASE_DIR / "project" / "locale"]
USE_I18N = True

STATIC_URL = "/static/"
STATIC_ROOT = DATA_DIR / "static"
STATICFILES_DIRS = [BASE_DIR / "project" / "static"]
STORAGES = {
    "default": {"BACKEND": "django.core.files.storage.FileSystemStorage"},
    "staticfiles": {"BACKEND": "project.assets.Files"},
}

# The broker rings bells; the numbers are those of docs/lifecycle-of-a-run.md
REDIS = backends.redis("REDIS_URL", DATA_DIR)
CELERY_BROKER_URL = env.text("BROKER_URL", REDIS.celery)
CELERY_RESULT_BACKEND = None
CELERY_TASK_IGNORE_RESULT = True
CELERY_TASK_ACKS_LATE = False
CELERY_TASK_REJECT_ON_WORKER_LOST = False
CELERY_WORKER_PREFETCH_MULTIPLIER = 1
CELERY_WORKER_DISABLE_PREFETCH = True
CELERY_BROKER_TRANSPORT_OPTIONS = {
    "visibility_timeout": 3600,
    "polling_interval": 1,
    "socket_timeout": 30,
    "socket_connect_timeout": 5,
    "socket_keepalive": True,
    "health_check_interval": 25,
    "unacked_restore_interval": 10,
    "unacked_restore_throttle": 1,
}
CELERY_BROKER_CONNECTION_RETRY_ON_STARTUP = True
CELERY_BROKER_CONNECTION_MAX_RETRIES = None
CELERY_BROKER_POOL_ACQUIRE_TIMEOUT = 5
CELERY_TASK_PUBLISH_RETRY = True
CELERY_TASK_PUBLISH_RETRY_POLICY = {"max_retries": 1, "interval_start": 0.2}
CELERY_TASK_SERIALIZER = "json"
CELERY_ACCEPT_CONTENT = ["json"]
CELERY_WORKER_MAX_TASKS_PER_CHILD = 500
CELERY_WORKER_MAX_MEMORY_PER_CHILD = 400_000  # KiB
CELERY_WORKER_SOFT_SHUTDOWN_TIMEOUT = 6  # seconds; `up` kills at nine
CELERY_WORKER_ENABLE_SOFT_SHUTDOWN_ON_IDLE = False
CELERY_WORKER_SEND_TASK_EVENTS = False
CELERY_WORKER_HIJACK_ROOT_LOGGER = False
CELERY_TASK_DEFAULT_QUEUE = "desk"
CELERY_TASK_ROUTES = {"triggers.tasks.advance": {"queue": "runs"}}
CELERY_TIMEZONE = "UTC"
CELERY_ENABLE_UTC = True
CELERY_BEAT_SCHEDULER = "django_celery_beat.schedulers:DatabaseScheduler"

# What a proxy that speaks TLS does, and Django asks for: redirecting, and saying HSTS (docs/production.md)
SILENCED_SYSTEM_CHECKS = ["security.W004", "security.W008"]

# What is secret here reaches no line of the log and no error that is kept, whoever quotes it
SECRETS = (
    SECRET_KEY,
    OWNER_PASSWORD,
    LLM_API_KEY,
    EMAIL_URL,
    *FIELD_KEY.split(","),
    *NOTIFY_URLS,
    str(DATABASES["default"].get("PASSWORD", "")),
)
LOG_FORMAT = env.one_of("LOG_FORMAT", "", "console", "json")
LOG_LEVEL = env.one_of("LOG_LEVEL", "info", "debug", "warning", "error")
LOGGING = logs.config(form=LOG_FORMAT, level=LOG_LEVEL, process=PROCESS, secrets=SECRETS)
