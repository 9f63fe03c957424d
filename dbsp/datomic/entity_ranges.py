"""The ranges of entity ids: users' entities from 1, transactions from TX0, the schema from DB0."""

from __future__ import annotations

TX0 = 1 << 42
"""The transaction with number t is the entity TX0 + t; ids of users' entities are smaller."""

DB0 = 1 << 43
"""The first id of the entities of the schema."""
