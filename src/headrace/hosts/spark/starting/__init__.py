"""Finding or starting the Spark in which queries run, and making sure that its executors can run them."""
