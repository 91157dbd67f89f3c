"""A topic as a streaming table, a view of it, and a topic as a sink.

The addresses are in the secret `shop`: a file of this name in the folder that HEADRACE_SECRETS names."""

from pyspark import pipelines as dp
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.functions import col, count, get_json_object

spark = SparkSession.active()


@dp.table
def orders() -> DataFrame:
    """Each run appends what was published since the last one."""
    source = spark.readStream.format("headrace").options(secret="shop", subscribe="orders", startingOffsets="earliest")
    return source.load().withColumn("city", get_json_object("payload", "$.city"))


@dp.materialized_view
def orders_per_city() -> DataFrame:
    return spark.read.table("orders").groupBy("city").agg(count("*").alias("orders"))


dp.create_sink("large_orders", "headrace", {"secret": "shop", "topic": "large_orders", "type": "order.large"})


@dp.append_flow(target="large_orders")
def large() -> DataFrame:
    """Each large order becomes an event of another topic, once, whatever crashes."""
    amount = get_json_object("payload", "$.amount").cast("int")
    return spark.readStream.table("orders").where(amount > 100).select(col("key"), col("payload"))
