-- The entry of a topic in the tables of Iceberg's SQL catalog, if it has one. Index: iceberg_tables_pkey.
select t.metadata_location
from headrace_iceberg.iceberg_tables t
where t.catalog_name = %(catalog)s and t.table_namespace = %(namespace)s and t.table_name = %(topic)s;
