"""Run by Alembic: the steps that are missing, in the transaction of the connection that it is given."""

from alembic import context

context.configure(connection=context.config.attributes["connection"], render_as_batch=True)
with context.begin_transaction():
    context.run_migrations()
