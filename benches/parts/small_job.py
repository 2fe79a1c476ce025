"""Plain Spark in `bench startup`: sums of a minute over a folder of CSV files, all that is there, and the end."""

from __future__ import annotations

import sys

from pyspark.sql import SparkSession
from pyspark.sql import functions as f

folder = sys.argv[1]
spark = SparkSession.builder.master("local[2]").config("spark.sql.shuffle.partitions", "2").getOrCreate()
spark.sparkContext.setLogLevel("ERROR")
bids = spark.readStream.schema("at timestamp, item int, price int").option("header", True).csv(f"{folder}/data")
sums = bids.withWatermark("at", "0 seconds").groupBy(f.window("at", "1 minute"), "item").agg(f.sum("price").alias("s"))
writer = sums.selectExpr("item", "s", "window.end AS window_end").writeStream.format("parquet")
writer = writer.option("path", f"{folder}/plain").option("checkpointLocation", f"{folder}/plain-checkpoint")
writer.trigger(availableNow=True).start().awaitTermination()
spark.stop()
