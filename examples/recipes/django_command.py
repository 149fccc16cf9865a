"""Django: a management command of which one runs at a time, on any number of machines.

Put it in app/management/commands/nightly.py; `python manage.py nightly` runs it.
"""

from __future__ import annotations

from typing import Any

import habemus
from django.core.management.base import BaseCommand, CommandError


class Command(BaseCommand):
    help = "Write the nightly report, unless another machine does."

    def handle(self, *args: Any, **options: Any) -> None:
        with habemus.connect() as cluster:
            held = cluster.try_lock("nightly")
            if held is None:
                raise CommandError("another one is running")
            with held as lease:
                self.stdout.write(f"writing with token {lease.token}")
