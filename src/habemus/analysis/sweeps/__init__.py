"""Many runs over seeds and parameters: local cores or a Dask cluster, rows, reports."""
