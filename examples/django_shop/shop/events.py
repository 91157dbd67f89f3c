"""What happens on events. `manage.py headrace node run shop.events:app` runs it."""

import psycopg

from headrace import Action, Headrace
from headrace.integrations.django.tasks import add_tasks

app = Headrace()
add_tasks(app)


@app.handler("review-order")
def review_order(action: Action, tx: psycopg.Connection) -> None:
    """The rule `large order` sends this action. What is done through `tx` happens exactly once."""
    tx.execute("update shop_order set status = 'in review' where id = %s", (action.payload["order"],))
