"""`windows` and `samples` tables: their fields, the reads in the operation, and their faults."""
