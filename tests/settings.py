"""The product's settings with what a test must not touch swapped: files, broker, browsers, slow password hashes."""

import os
import tempfile

MEMORY = "/dev/shm"  # a disk that forgets is quicker, and the tests' own database may be forgotten
os.environ["DATA_DIR"] = tempfile.mkdtemp(prefix="nightdesk-test-", dir=MEMORY if os.access(MEMORY, os.W_OK) else None)
os.environ.pop("REDIS_URL", None)
os.environ.pop("BROKER_URL", None)

from project.settings import *  # noqa: E402, F403

CELERY_BROKER_URL = "memory://"  # bells ring unheard: rows and tick must be enough
REVIEW_SAMPLE = 0  # nothing is left to chance
PASSWORD_HASHERS = ["django.contrib.auth.hashers.MD5PasswordHasher"]
STORAGES = {
    "default": {"BACKEND": "django.core.files.storage.FileSystemStorage"},
    "staticfiles": {"BACKEND": "django.contrib.staticfiles.storage.StaticFilesStorage"},
}
