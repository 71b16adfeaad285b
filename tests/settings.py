"""The product's settings with what a test must not touch swapped: files, broker, browsers, slow password hashes."""

import os
import tempfile

os.environ["DATA_DIR"] = tempfile.mkdtemp(prefix="nightdesk-test-")
os.environ.pop("REDIS_URL", None)
os.environ.pop("BROKER_URL", None)

from project.settings import *  # noqa: F403
from project.settings import DATA_DIR, DATABASES

CELERY_BROKER_URL = "memory://"  # bells ring unheard: rows and tick must be enough
PASSWORD_HASHERS = ["django.contrib.auth.hashers.MD5PasswordHasher"]
STORAGES = {
    "default": {"BACKEND": "django.core.files.storage.FileSystemStorage"},
    "staticfiles": {"BACKEND": "django.contrib.staticfiles.storage.StaticFilesStorage"},
}
if str(DATABASES["default"]["ENGINE"]).endswith("sqlite3"):
    # A file, not memory: threads and processes share it as they do in the product.
    DATABASES["default"]["TEST"] = {"NAME": str(DATA_DIR / "test.sqlite3")}
