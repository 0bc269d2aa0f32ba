"""What Spark calls: the format itself, its readers and its writer, and rows as a DataFrame."""
