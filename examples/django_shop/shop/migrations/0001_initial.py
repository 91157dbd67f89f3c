"""The table of the orders."""

from django.db import migrations, models


class Migration(migrations.Migration):
    initial = True

    dependencies = []

    operations = [
        migrations.CreateModel(
            name="Order",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("customer", models.TextField()),
                ("total", models.IntegerField()),
                ("status", models.TextField(default="new")),
                ("receipt_sent", models.BooleanField(default=False)),
            ],
        ),
    ]
