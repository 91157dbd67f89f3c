"""The Django app: migrations, `manage.py headrace`, read-only admin pages, and a backend for Django's tasks.

Add "headrace.integrations.django" to INSTALLED_APPS. Owns: the app label `headrace` and the table headrace_task. Promises: one
`manage.py migrate` brings headrace's schema up to date, after an upgrade too; the admin changes nothing; a task is enqueued in the
caller's transaction."""
