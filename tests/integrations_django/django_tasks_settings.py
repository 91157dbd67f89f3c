"""Settings for the tests of tasks: those of the example, with two queues and quick retries."""

from shop.settings import *  # noqa: F403

TASKS = {
    "default": {
        "BACKEND": "headrace.integrations.django.tasks.HeadraceBackend",
        "QUEUES": ["default", "mails"],
        "OPTIONS": {"attempts": 2, "backoff_s": 0.01},
    }
}
