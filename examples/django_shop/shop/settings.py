"""Settings of the shop. The database comes from DATABASE_URL."""

import os

from psycopg.conninfo import conninfo_to_dict

_address = conninfo_to_dict(os.environ["DATABASE_URL"])
DATABASES = {
    "default": {
        "ENGINE": "django.db.backends.postgresql",
        "NAME": _address.get("dbname", "shop"),
        "USER": _address.get("user", ""),
        "PASSWORD": _address.get("password", ""),
        "HOST": _address.get("host", ""),
        "PORT": _address.get("port", ""),
    }
}

INSTALLED_APPS = [
    "django.contrib.admin",
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "django.contrib.sessions",
    "django.contrib.messages",
    "headrace.integrations.django",
    "shop",
]
TASKS = {"default": {"BACKEND": "headrace.integrations.django.tasks.HeadraceBackend"}}

SECRET_KEY = os.environ.get("SECRET_KEY", "only for development")
DEBUG = os.environ.get("DEBUG") == "1"
ALLOWED_HOSTS = ["localhost", "127.0.0.1"]
ROOT_URLCONF = "shop.urls"
USE_TZ = True
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"
STATIC_URL = "static/"
MIDDLEWARE = [
    "django.contrib.sessions.middleware.SessionMiddleware",
    "django.contrib.auth.middleware.AuthenticationMiddleware",
    "django.contrib.messages.middleware.MessageMiddleware",
]
TEMPLATES = [
    {
        "BACKEND": "django.template.backends.django.DjangoTemplates",
        "APP_DIRS": True,
        "OPTIONS": {
            "context_processors": [
                "django.template.context_processors.request",
                "django.contrib.auth.context_processors.auth",
                "django.contrib.messages.context_processors.messages",
            ]
        },
    }
]
