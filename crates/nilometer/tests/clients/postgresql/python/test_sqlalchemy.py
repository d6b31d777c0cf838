"""SQLAlchemy over psycopg 3. What is stated here PostgreSQL 15 says too: `clients.py --reference`."""

import unittest

import sqlalchemy
from sqlalchemy import BigInteger, Column, Double, MetaData, Table, Text, func, select

from support import ADDRESS, DATABASE


class Reflection(unittest.TestCase):
    def setUp(self):
        url = sqlalchemy.URL.create(
            "postgresql+psycopg", ADDRESS["user"], ADDRESS["password"], ADDRESS["host"], ADDRESS["port"], DATABASE
        )
        self.engine = sqlalchemy.create_engine(url, isolation_level="AUTOCOMMIT")
        self.addCleanup(self.engine.dispose)
        self.made = Table(
            "alchemy",
            MetaData(),
            Column("id", BigInteger, primary_key=True, autoincrement=False),
            Column("name", Text, nullable=False, unique=True),
            Column("v", Double),
        )
        with self.engine.connect() as connection:
            connection.exec_driver_sql("DROP VIEW IF EXISTS alchemy_view")
            connection.exec_driver_sql("DROP TABLE IF EXISTS alchemy")
        self.made.create(self.engine)
        with self.engine.connect() as connection:
            connection.exec_driver_sql("CREATE VIEW alchemy_view AS SELECT id, v FROM alchemy")
        self.inspector = sqlalchemy.inspect(self.engine)

    def test_tables_and_views_are_listed(self):
        self.assertIn("alchemy", self.inspector.get_table_names())
        self.assertIn("alchemy_view", self.inspector.get_view_names())
        self.assertIn("public", self.inspector.get_schema_names())
        self.assertTrue(self.inspector.has_table("alchemy"))
        self.assertFalse(self.inspector.has_table("nowhere"))

    def test_columns_have_types(self):
        columns = [(one["name"], str(one["type"]), one["nullable"]) for one in self.inspector.get_columns("alchemy")]
        self.assertEqual(columns, [("id", "BIGINT", False), ("name", "TEXT", False), ("v", "DOUBLE PRECISION", True)])
        columns = [one["name"] for one in self.inspector.get_columns("alchemy_view")]
        self.assertEqual(columns, ["id", "v"])

    def test_keys_and_indexes_are_known(self):
        self.assertEqual(self.inspector.get_pk_constraint("alchemy")["constrained_columns"], ["id"])
        self.assertEqual([one["column_names"] for one in self.inspector.get_unique_constraints("alchemy")], [["name"]])
        self.assertEqual([(one["name"], one["unique"]) for one in self.inspector.get_indexes("alchemy")], [("alchemy_name_key", True)])
        self.assertEqual(self.inspector.get_foreign_keys("alchemy"), [])
        self.assertEqual(self.inspector.get_check_constraints("alchemy"), [])
        self.assertEqual(self.inspector.get_table_comment("alchemy"), {"text": None})

    def test_a_table_that_was_reflected_is_written_and_read(self):
        table = Table("alchemy", MetaData(), autoload_with=self.engine)
        with self.engine.connect() as connection:
            connection.execute(table.insert(), [{"id": 1, "name": "a", "v": 1.5}, {"id": 2, "name": "b", "v": None}])
            rows = connection.execute(select(table.c.name, table.c.v).where(table.c.id >= 1).order_by(table.c.id)).all()
            self.assertEqual([tuple(row) for row in rows], [("a", 1.5), ("b", None)])
            self.assertEqual(connection.execute(select(func.count()).select_from(table)).scalar(), 2)
            changed = connection.execute(table.update().where(table.c.id == 2).values(v=2.5))
            self.assertEqual(changed.rowcount, 1)
            self.assertEqual(connection.execute(table.delete().where(table.c.v == 2.5)).rowcount, 1)

    def test_all_tables_are_reflected_at_once(self):
        metadata = MetaData()
        metadata.reflect(self.engine)
        self.assertIn("alchemy", metadata.tables)
        self.assertEqual([column.name for column in metadata.tables["alchemy"].primary_key], ["id"])


if __name__ == "__main__":
    unittest.main()
